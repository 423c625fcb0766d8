"""What a measurement was made on, and the memory that it took."""

from __future__ import annotations

import platform
import threading
from pathlib import Path

import numpy as np

import vbstack


def machine() -> str:
    """Processor, Python and library versions."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return (
        f"{cpu}, one thread, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"vbstack {vbstack.__version__}"
    )


class PeakMemory:
    """Peak resident memory above the level at entry, in MB, sampled every 5 ms."""

    def __enter__(self) -> PeakMemory:
        self.base = self.peak = _resident()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.stop.wait(0.005):
            self.peak = max(self.peak, _resident())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        self.megabytes = (self.peak - self.base) / 1e6


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
