"""What an engine is: `(problem, start, seed, recorder, options) -> Run`.

The recorder stands between the engine and the problem. It writes every evaluation to the journal,
and answers the first ones from it when a run is repeated: a killed run resumes by *replay*. The
engine starts again from the same start and seed, asks for the same points in the same order, and no
evaluation is paid twice; the result is the one that an uninterrupted run would have had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from vbstack.arrays import Array
from vbstack.checks import checked_word
from vbstack.modes import OnError
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.journal import Journal
from vbstack.runs.printable import shortened
from vbstack.runs.run import Run

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
        on_error: OnError = "fail_run",
        precomputed: Sequence[Evaluation] = (),
        watch: Callable[[Progress], None] | None = None,
    ):
        self.problem, self.seed, self.journal = problem, seed, journal
        self.on_error = checked_word("on_error", on_error, OnError)
        self.watch = watch or (lambda progress: None)
        # An engine that can tell its iteration and ELBO puts a function here.
        self.observe: Callable[[], tuple[int, float | None]] = lambda: (0, None)
        self.precomputed = list(precomputed)
        # By an earlier attempt at this run, by their place; damaged ones are missing.
        self.journalled = dict(journal.by_place)
        self.made: list[Evaluation] = []

    @property
    def replayed(self) -> int:
        """Evaluations answered from the journal so far."""
        return sum(place < len(self.made) for place in self.journalled)

    @property
    def floored(self) -> list[Evaluation]:
        return [evaluation for evaluation in self.made if evaluation.failure]

    def __len__(self) -> int:
        """Evaluations so far, those known beforehand included."""
        return len(self.precomputed) + len(self.made)

    def evaluations(self) -> Evaluations:
        """All evaluations so far, in order; those known beforehand first."""
        return Evaluations.of([*self.precomputed, *self.made], self.problem.noisy)

    def __call__(self, x: Array) -> Evaluation:
        """The evaluation at x: from the journal while a run is repeated, else a new one."""
        index = len(self.made)
        point = tuple(float(v) for v in np.ravel(x))
        if index in self.journalled:
            evaluation = self.journalled[index]
            if evaluation.x != point:
                raise ReplayMismatch(
                    f"evaluation {index} of the journal is at {list(evaluation.x)}, the run asks "
                    f"for {list(point)}"
                )
        else:
            evaluation = self._new(index, point)
            self.journal.append(evaluation, index)
        self.made.append(evaluation)
        self._check_floored()
        self.watch(Progress(len(self.made), *self.observe()))
        return evaluation

    def _new(self, index: int, point: tuple[float, ...]) -> Evaluation:
        begun = time.perf_counter()
        for attempt in range(_RETRIES if self.on_error == "retry" else 1):
            try:
                rng = np.random.default_rng([self.seed, 2, index, attempt])
                evaluation = self.problem.evaluation(np.array(point), rng)
                return replace(evaluation, seconds=time.perf_counter() - begun)
            except EvaluationError as error:
                failure = error
        if self.on_error != "floor":
            raise failure
        seen = [evaluation.value for evaluation in self.made]
        floor = min(seen, default=0.0) - (_FLOOR_DEPTH if not self.floored else 0.0)
        sd = self.made[-1].sd if self.made else 1.0
        sd = sd if self.problem.noisy else None
        seconds = time.perf_counter() - begun
        return Evaluation(point, floor, sd, seconds, shortened(failure.message))

    def _check_floored(self) -> None:
        bad, total = len(self.floored), len(self.made)
        if total >= 10 and bad > _MOST_FLOORED * total:
            last = self.floored[-1]
            raise EvaluationError(
                f"{bad} of {total} evaluations failed and were floored, more than "
                f"{_MOST_FLOORED:.0%}; the last: {last.failure}",
                np.array(last.x),
            )
