"""What an engine is: `(problem, start, seed, recorder, options) -> Run`.

The recorder stands between the engine and the problem. It writes every evaluation to the journal,
and answers the first ones from it when a run is repeated: a killed run resumes by *replay*. The
engine starts again from the same start and seed, asks for the same points in the same order, and no
evaluation is paid twice; the result is the one that an uninterrupted run would have had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vbstack.problem import EvaluationError, Problem
from vbstack.runs.journal import Entry, Journal
from vbstack.runs.run import Evaluations, Run

Array = NDArray[np.float64]

ON_ERROR = ("fail_run", "retry", "floor")
_RETRIES = 3
_MOST_FLOORED = 0.2  # share of floored evaluations above which a run fails
_FLOOR_DEPTH = 1000.0  # nats below the lowest value seen


class ReplayMismatch(RuntimeError):
    """The engine asked for another point than the journal holds: a library or option changed."""


class Engine(Protocol):
    def __call__(
        self,
        problem: Problem,
        start: Array,
        seed: int,
        recorder: Recorder,
        options: Mapping[str, Any],
    ) -> Run: ...


@dataclass(frozen=True)
class Progress:
    """Where a run is: evaluations, iterations, and the ELBO of the last iteration if known."""

    evaluations: int
    iteration: int
    elbo: float | None


class Recorder:
    """Evaluates the problem for one run, with a journal, replay and the rule for failures."""

    def __init__(
        self,
        problem: Problem,
        seed: int,
        journal: Journal,
        on_error: str = "fail_run",
        precomputed: Sequence[Entry] = (),
        watch: Callable[[Progress], None] | None = None,
    ):
        if on_error not in ON_ERROR:
            raise ValueError(f"on_error={on_error!r} is not known; choose one of {ON_ERROR}")
        self.problem, self.seed, self.journal = problem, seed, journal
        self.on_error, self.watch = on_error, watch or (lambda progress: None)
        # An engine that can tell its iteration and ELBO puts a function here.
        self.observe: Callable[[], tuple[int, float | None]] = lambda: (0, None)
        self.precomputed = list(precomputed)
        self.known: list[Entry] = list(journal.entries)
        self.made: list[Entry] = []

    @property
    def replayed(self) -> int:
        """Evaluations answered from the journal so far."""
        return min(len(self.made), len(self.known))

    @property
    def floored(self) -> list[Entry]:
        return [entry for entry in self.made if entry.error]

    def evaluations(self) -> Evaluations:
        """All evaluations so far, in order; those known beforehand first."""
        return as_evaluations([*self.precomputed, *self.made], self.problem.noisy)

    def __call__(self, x: Array) -> float | tuple[float, float]:
        """The value at x, as pyvbmc wants it: a float, or (value, sd) when noisy."""
        index = len(self.made)
        point = tuple(float(v) for v in np.ravel(x))
        if index < len(self.known):
            entry = self.known[index]
            if entry.x != point:
                raise ReplayMismatch(
                    f"evaluation {index} of the journal is at {list(entry.x)}, the run asks for "
                    f"{list(point)}"
                )
        else:
            entry = self._new(index, point)
            self.journal.append(entry)
        self.made.append(entry)
        self._check_floored()
        self.watch(Progress(len(self.made), *self.observe()))
        return (entry.value, float(entry.sd or 0)) if self.problem.noisy else entry.value

    def _new(self, index: int, point: tuple[float, ...]) -> Entry:
        begun = time.perf_counter()
        for attempt in range(_RETRIES if self.on_error == "retry" else 1):
            try:
                rng = np.random.default_rng([self.seed, 2, index, attempt])
                value, sd = self.problem.evaluate(np.array(point), rng)
                return Entry(point, value, sd, time.perf_counter() - begun, "")
            except EvaluationError as error:
                failure = error
        if self.on_error != "floor":
            raise failure
        seen = [entry.value for entry in self.made]
        floor = min(seen, default=0.0) - (_FLOOR_DEPTH if not self.floored else 0.0)
        sd = self.made[-1].sd if self.made else 1.0
        sd = sd if self.problem.noisy else None
        return Entry(point, floor, sd, time.perf_counter() - begun, failure.message)

    def _check_floored(self) -> None:
        bad, total = len(self.floored), len(self.made)
        if total >= 10 and bad > _MOST_FLOORED * total:
            last = self.floored[-1]
            raise EvaluationError(
                f"{bad} of {total} evaluations failed and were floored, more than "
                f"{_MOST_FLOORED:.0%}; the last: {last.error}",
                np.array(last.x),
            )


def as_evaluations(entries: Sequence[Entry], noisy: bool) -> Evaluations:
    """Journal entries as arrays."""
    x = np.array([entry.x for entry in entries])
    sds = np.array([entry.sd for entry in entries], dtype=float) if noisy else None
    return Evaluations(x, np.array([entry.value for entry in entries]), sds)
