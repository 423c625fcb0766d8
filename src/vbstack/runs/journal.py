"""`Journal`: every evaluation of a running run, one JSON line each, appended as it is made.

A line is written in one call, so a killed process leaves at most one incomplete line at the end;
it is cut off when the journal is opened again. Floats are written so that they come back exactly.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One evaluation; `error` says why when the value is a substitute."""

    x: tuple[float, ...]
    value: float
    sd: float | None
    seconds: float
    error: str = ""


class Journal:
    """The evaluations of one run on disk, or in memory when there is no path."""

    def __init__(self, path: Path | None = None):
        self.path = path
        self.entries: list[Entry] = []
        self.dropped = ""  # what was cut off at the end, if anything
        self._file: int | None = None
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        good = 0
        for line in whole.splitlines(keepends=True):
            entry = _parsed(line)
            if entry is None:
                break
            self.entries.append(entry)
            good += len(line)
        self.dropped = whole[good:].decode(errors="replace")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        if good < len(whole):
            os.ftruncate(self._file, good)

    def append(self, entry: Entry) -> None:
        """Write one evaluation; it survives the death of this process."""
        self.entries.append(entry)
        if self._file is not None:
            line = (json.dumps(asdict(entry)) + "\n").encode()
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _parsed(line: bytes) -> Entry | None:
    if not line.endswith(b"\n"):
        return None
    try:
        fields = json.loads(line)
        return Entry(**{**fields, "x": tuple(fields["x"])})
    except (ValueError, TypeError, KeyError):
        return None
