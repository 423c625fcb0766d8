"""`PointLog`: evaluations at given points, made side by side and kept in one journal.

Every process that makes one appends its line itself, under a lock, so that nothing is lost when the
process that asked for it dies. A point that is in the log is never evaluated again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vbstack.problem import Evaluation
from vbstack.runs.journal import journal_line, read_journal
from vbstack.runs.opening import hold, open_regular, release


class PointLog:
    """The evaluations in `verification.journal` of a directory."""

    def __init__(self, directory: str | os.PathLike[str]):
        self.path = Path(directory) / "verification.journal"

    def read(self) -> dict[int, Evaluation]:
        """All evaluations by their places; damaged lines are left out."""
        return read_journal(self.path).evaluations

    def append(self, place: int, evaluation: Evaluation) -> None:
        """Write one evaluation; a line that a killed process left incomplete is ended first."""
        handle = hold(open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            line = (b"\n" if torn else b"") + journal_line(place, evaluation)
            written = os.write(handle, line)
            if written != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")
        finally:
            release(handle)

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Wait until nobody else adds points to the log; they would be given the same places."""
        lock = self.path.with_suffix(".lock")
        handle = hold(open_regular(lock, os.O_RDWR | os.O_CREAT))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            release(handle)
