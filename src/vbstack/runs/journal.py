"""`Journal`: every evaluation of a running run, one JSON line each, appended as it is made.

    {"i": 3, "x": [0.1, 2.0], "value": -1.5, "sd": null, "seconds": 0.2, "error": "", "crc": "…"}

A line is written in one call, so a killed process leaves at most one incomplete line at the end;
it is cut off when the journal is opened again. Floats are written so that they come back exactly.

Each line has its place `i` in the run and a checksum of its own text, so a line that was damaged is
noticed, and the others still count: it leaves a gap, the run makes that evaluation again, and the
new line has the same place. Lines of version 0.1.0 have neither place nor checksum; their content
is checked all the same. `read_journal` only reads; `Journal` also writes.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from vbstack.checks import shortened
from vbstack.problem import Evaluation
from vbstack.runs.atomic import replacing
from vbstack.runs.opening import hold, open_regular, read_regular, release
from vbstack.runs.printable import printable

_LARGEST = 2**28  # bytes of a journal: a million evaluations of ten parameters
_MOST = 1_000_000  # evaluations of one run
_CHECKED = re.compile(rb'(\{.*), "crc": "([0-9a-f]{8})"\}', re.DOTALL)
_FIELDS = {"x", "value", "sd", "seconds", "error"}


@dataclass(frozen=True)
class JournalContent:
    """What a journal holds: evaluations by their place, and what could not be used.

    `damaged` are whole lines with the reasons, `torn` is an incomplete line at the end, `size` the
    bytes before it.
    """

    evaluations: dict[int, Evaluation]
    damaged: tuple[tuple[bytes, str], ...] = ()
    torn: bytes = b""
    size: int = 0


def read_journal(path: Path) -> JournalContent:
    """The content of a journal, or nothing if there is none; no file is changed or made."""
    try:
        whole = read_regular(path, largest=_LARGEST)
    except FileNotFoundError:
        return JournalContent({})
    *lines, torn = whole.split(b"\n")
    parsed: list[tuple[int, Evaluation] | str] = []
    place = 0
    for line in lines:
        one = _parsed_or_reason(line.removesuffix(b"\r"), place)  # line ends of other systems
        parsed.append(one)
        place = (place if isinstance(one, str) else one[0]) + 1
    found, damaged = _consistent(lines, parsed)
    return JournalContent(found, damaged, torn, len(whole) - len(torn))


def _consistent(
    lines: list[bytes], parsed: list[tuple[int, Evaluation] | str]
) -> tuple[dict[int, Evaluation], tuple[tuple[bytes, str], ...]]:
    """Evaluations by place, and the damaged lines; what most lines agree on decides."""
    kinds = Counter(_kind(one[1]) for one in parsed if not isinstance(one, str))
    usual = kinds.most_common(1)[0][0] if kinds else None
    found: dict[int, Evaluation] = {}
    damaged = []
    for line, one in zip(lines, parsed, strict=True):
        if isinstance(one, str):
            damaged.append((line, one))
        elif _kind(one[1]) != usual:
            damaged.append((line, "its point or its noise is unlike that of the other lines"))
        elif found.setdefault(*one) != one[1]:
            damaged.append((line, f"there is another evaluation {one[0]} before it"))
    return found, tuple(damaged)


def _kind(evaluation: Evaluation) -> tuple[int, bool]:
    """What all evaluations of a run have in common: parameters, and whether there is an sd."""
    return len(evaluation.x), evaluation.sd is None


class Journal:
    """The evaluations of one run on disk, open for writing, or in memory when there is no path.

    Attributes
    ----------
    by_place : dict
        Evaluations by their place in the run; a place that is missing was damaged.
    damaged : list of str
        A line for every damaged line that was found and kept in a file beside the journal.
    dropped : str
        The incomplete line that was cut off at the end, if there was one.
    """

    def __init__(self, path: Path | None = None):
        self.path = path
        self.by_place: dict[int, Evaluation] = {}
        self.damaged: list[str] = []
        self.dropped = ""
        self._file: int | None = None
        if path is not None:
            self._open(path)

    @property
    def evaluations(self) -> list[Evaluation]:
        """All evaluations, in order; gaps are left out."""
        return [self.by_place[place] for place in sorted(self.by_place)]

    def _open(self, path: Path) -> None:
        content = read_journal(path)
        self.by_place = content.evaluations
        self.dropped = content.torn.decode(errors="replace")
        if content.damaged:
            aside = _kept_aside(path, [line for line, _ in content.damaged])
            self.damaged = [
                f"{path}: a damaged line was kept in {aside.name}, and its evaluation is made "
                f"again ({reason})"
                for _, reason in content.damaged
            ]
            with replacing(path, overwrite=True) as file:
                file.writelines(journal_line(*one) for one in _ordered(self.by_place))
        self._file = hold(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        if content.torn and not content.damaged:
            os.ftruncate(self._file, content.size)

    def append(self, evaluation: Evaluation, place: int | None = None) -> None:
        """Write one evaluation, after the last or at its place; it survives this process."""
        place = max(self.by_place, default=-1) + 1 if place is None else place
        self.by_place[place] = evaluation
        if self._file is not None:
            line = journal_line(place, evaluation)
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")

    def close(self) -> None:
        if self._file is not None:
            release(self._file)
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _kept_aside(path: Path, lines: Iterable[bytes]) -> Path:
    """A new file beside the journal with these lines."""
    for number in count(1):
        aside = path.with_name(f"{path.name}.damaged-{number}")
        try:
            handle = open_regular(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        return aside
    raise AssertionError("unreachable")


def _ordered(by_place: dict[int, Evaluation]) -> list[tuple[int, Evaluation]]:
    return sorted(by_place.items(), key=lambda item: item[0])


def journal_line(place: int, evaluation: Evaluation) -> bytes:
    """A line: the fields and the checksum of their text."""
    fields = {
        "i": place,
        "x": evaluation.x,
        "value": evaluation.value,
        "sd": evaluation.sd,
        "seconds": evaluation.seconds,
        "error": evaluation.failure,
    }
    text = json.dumps(fields).encode()
    return text[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(text[:-1])


def _parsed_or_reason(line: bytes, place: int) -> tuple[int, Evaluation] | str:
    try:
        return _parsed(line, place)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return printable(shortened(str(error), 200))


def _parsed(line: bytes, place: int) -> tuple[int, Evaluation]:
    """The place and the evaluation of a line; `place` is that of a line which does not say."""
    checked = _CHECKED.fullmatch(line)
    if checked is not None:
        if zlib.crc32(checked[1]) != int(checked[2], 16):
            raise ValueError("its checksum does not fit")
        line = checked[1] + b"}"
    fields = json.loads(line)
    if not isinstance(fields, dict) or set(fields) != _FIELDS | ({"i"} if checked else set()):
        raise ValueError("these are not the fields of an evaluation")
    index = fields.get("i", place)
    if type(index) is not int or not 0 <= index < _MOST:
        raise ValueError(f"evaluation {index!r} cannot be")
    return index, _checked_evaluation(fields)


def _checked_evaluation(fields: dict[str, Any]) -> Evaluation:
    x, value, sd, failure = fields["x"], _number(fields["value"]), fields["sd"], fields["error"]
    if not isinstance(x, list) or not x:
        raise ValueError("x is not a list of numbers")
    point = tuple(map(_number, x))
    if not all(map(math.isfinite, point)):
        raise ValueError("x is not finite")
    if math.isnan(value) or value == math.inf:
        raise ValueError(f"the value is {value}")
    sd = None if sd is None else _number(sd)
    if sd is not None and not 0 < sd < math.inf:
        raise ValueError(f"the standard deviation is {sd}")
    seconds = _number(fields["seconds"])
    if not 0 <= seconds < math.inf:
        raise ValueError(f"it took {seconds} seconds")
    if not isinstance(failure, str):
        raise TypeError("error is not a text")
    return Evaluation(point, value, sd, seconds, failure)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{type(value).__name__} instead of a number")
    return float(value)
