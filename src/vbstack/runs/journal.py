"""`Journal`: every evaluation of a running run, one JSON line each, appended as it is made.

A line is written in one call, so a killed process leaves at most one incomplete line at the end;
it is cut off when the journal is opened again. Floats are written so that they come back exactly.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from vbstack.problem import Evaluation


class Journal:
    """The evaluations of one run on disk, or in memory when there is no path."""

    def __init__(self, path: Path | None = None):
        self.path = path
        self.evaluations: list[Evaluation] = []
        self.dropped = ""  # what was cut off at the end, if anything
        self._file: int | None = None
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        good = 0
        for line in whole.splitlines(keepends=True):
            evaluation = _parsed(line)
            if evaluation is None:
                break
            self.evaluations.append(evaluation)
            good += len(line)
        self.dropped = whole[good:].decode(errors="replace")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        if good < len(whole):
            os.ftruncate(self._file, good)

    def append(self, evaluation: Evaluation) -> None:
        """Write one evaluation; it survives the death of this process."""
        self.evaluations.append(evaluation)
        if self._file is not None:
            line = (json.dumps(_fields(evaluation)) + "\n").encode()
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _fields(evaluation: Evaluation) -> dict[str, Any]:
    """What a line holds."""
    return {
        "x": evaluation.x,
        "value": evaluation.value,
        "sd": evaluation.sd,
        "seconds": evaluation.seconds,
        "error": evaluation.failure,
    }


def _parsed(line: bytes) -> Evaluation | None:
    if not line.endswith(b"\n"):
        return None
    try:
        fields = json.loads(line)
        failure = fields.pop("error", "")
        return Evaluation(**{**fields, "x": tuple(fields["x"])}, failure=failure)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
