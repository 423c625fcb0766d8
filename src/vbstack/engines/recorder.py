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
from vbstack.checks import checked_word, shortened
from vbstack.modes import OnError
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.journal import Journal
from vbstack.runs.printable import LONGEST
from vbstack.runs.run import Run

_RETRIES = 3
_BEFORE_JUDGED = 30  # evaluations before failures are judged
_MOST_SCATTERED = 0.2  # share of failed evaluations above which a run fails, if they are scattered


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


class Evaluator(Protocol):
    """Whatever evaluates a problem and keeps what it evaluated: a `Recorder`, or a part of one."""

    @property
    def problem(self) -> Problem: ...

    def __call__(self, x: Array) -> Evaluation: ...

    def evaluations(self) -> Evaluations: ...


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
        self.rejected: list[Evaluation] = []  # where the constraint is false: known for nothing

    @property
    def replayed(self) -> int:
        """Evaluations answered from the journal so far."""
        return sum(place < len(self.made) for place in self.journalled)

    @property
    def floored(self) -> list[Evaluation]:
        return [evaluation for evaluation in self.made if evaluation.failure]

    def __len__(self) -> int:
        """Evaluations so far, those known beforehand included, rejected points not."""
        return len(self.precomputed) + len(self.made)

    def evaluations(self) -> Evaluations:
        """All evaluations so far, in order; those known beforehand first, rejected points last."""
        paid = [*self.precomputed, *self.made]
        found = Evaluations.of([*paid, *self.rejected], self.problem.noisy)
        if not self.rejected:
            return found
        return replace(found, rejected=np.arange(found.size) >= len(paid))

    def __call__(self, x: Array) -> Evaluation:
        """The evaluation at x: from the journal while a run is repeated, else a new one.

        Where the constraint is false there is none: −inf comes back, and neither the journal nor
        the number of evaluations changes.
        """
        index = len(self.made)
        point = tuple(float(v) for v in np.ravel(x))
        if self._is_rejected(point):
            sd = 1.0 if self.problem.noisy else None
            self.rejected.append(Evaluation(point, -np.inf, sd, 0.0))
            return self.rejected[-1]
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

    def _is_rejected(self, point: tuple[float, ...]) -> bool:
        try:
            return not self.problem.allows(np.array(point))
        except EvaluationError:  # as if the log density had failed
            return False

    def _new(self, index: int, point: tuple[float, ...]) -> Evaluation:
        return attempted(self.problem, point, (self.seed, 2, index), self.on_error)

    def _check_floored(self) -> None:
        """An error if many evaluations fail without a pattern: failures are then no support."""
        bad, total = len(self.floored), len(self.made)
        if (
            total < _BEFORE_JUDGED
            or bad <= _MOST_SCATTERED * total
            or self._failures_are_together()
        ):
            return
        last = self.floored[-1]
        raise EvaluationError(
            f"{bad} of {total} evaluations failed, more than {_MOST_SCATTERED:.0%}, and not in a "
            f"region of their own; the last: {last.failure}",
            np.array(last.x),
        )

    def _failures_are_together(self) -> bool:
        """Whether most failed points have a failed one as their nearest neighbour."""
        x = np.array([evaluation.x for evaluation in self.made])
        failed = np.array([bool(evaluation.failure) for evaluation in self.made])
        z = x / np.maximum(x.std(axis=0), 1e-300)
        distances = np.square(z[failed][:, None] - z[None]).sum(axis=2)
        distances[np.arange(failed.sum()), np.flatnonzero(failed)] = np.inf
        return bool(failed[distances.argmin(axis=1)].mean() > 0.5)


def attempted(
    problem: Problem, point: tuple[float, ...], seed: tuple[int, ...], on_error: OnError
) -> Evaluation:
    """A new evaluation, by the rule for failures; its generator has this seed and the attempt."""
    begun = time.perf_counter()
    for attempt in range(_RETRIES if on_error == "retry" else 1):
        try:
            rng = np.random.default_rng([*seed, attempt])
            evaluation = problem.evaluation(np.array(point), rng)
            return replace(evaluation, seconds=time.perf_counter() - begun)
        except EvaluationError as error:
            failure = error
    if on_error != "floor":
        raise failure
    sd = 1.0 if problem.noisy else None
    seconds = time.perf_counter() - begun
    return Evaluation(point, -np.inf, sd, seconds, shortened(failure.message, LONGEST))
