"""What an engine is: `(problem, start, seed, recorder, options) -> Run`.

The recorder stands between the engine and the problem. It writes every evaluation to the journal,
and answers the first ones from it when a run is repeated: a killed run resumes by *replay*. The
engine starts again from the same start and seed, asks for the same points in the same order, and no
evaluation is paid twice; the result is the one that an uninterrupted run would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from vbstack.arrays import Array
from vbstack.checks import checked_word
from vbstack.engines.attempts import MakesAll, Rule, Wanted, one_after_the_other
from vbstack.modes import OnError
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.journal import Journal
from vbstack.runs.run import Run

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

    def many(self, points: Iterable[Array]) -> list[Evaluation]: ...

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
        makes_all: MakesAll | None = None,
        evaluation_timeout: float | None = None,
    ):
        self.problem, self.seed, self.journal = problem, seed, journal
        self.on_error = checked_word("on_error", on_error, OnError)
        self.watch = watch or (lambda progress: None)
        self.side_by_side = makes_all is not None or problem.vectorized
        rule = Rule(self.on_error, evaluation_timeout)
        self.makes_all = makes_all or one_after_the_other(problem, rule)
        # An engine that can tell its iteration and ELBO puts a function here.
        self.observe: Callable[[], tuple[int, float | None]] = lambda: (0, None)
        self.precomputed = list(precomputed)
        # By an earlier attempt at this run, by their place; damaged ones are missing.
        self.journalled = dict(journal.by_place)
        self._ahead: dict[int, Evaluation] = {}  # made before the engine asked for them
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
        return self.many([x])[0]

    def many(self, points: Iterable[Array]) -> list[Evaluation]:
        """The evaluations at all points, in order; new ones are made side by side if they can be.

        Each is in the journal as soon as it is finished, with its place among those of the run. If
        one fails the others are finished first.
        """
        asked = [tuple(float(v) for v in np.ravel(x)) for x in points]
        rejected = [self.rejects(point) for point in asked]
        paid = iter(self._paid([x for x, no in zip(asked, rejected, strict=True) if not no]))
        return [
            self._rejected(x) if no else self._counted(next(paid))
            for x, no in zip(asked, rejected, strict=True)
        ]

    def ahead(self, points: Iterable[Array]) -> None:
        """Make the evaluations at points that the engine will ask for next, one by one."""
        asked = [tuple(float(v) for v in np.ravel(x)) for x in points]
        paid = self._paid([point for point in asked if not self.rejects(point)])
        self._ahead |= dict(enumerate(paid, len(self.made)))

    def _paid(self, points: Sequence[tuple[float, ...]]) -> list[Evaluation]:
        """The evaluations at the next points of the run, from the journal or new."""
        found: dict[int, Evaluation] = {}
        wanted = []
        for place, point in enumerate(points, len(self.made)):
            known = self.journalled.get(place, self._ahead.get(place))
            if known is None:
                wanted.append(Wanted(place, point, (self.seed, 2, place)))
            elif known.x != point:
                raise ReplayMismatch(
                    f"evaluation {place} of the journal is at {list(known.x)}, the run asks for "
                    f"{list(point)}"
                )
            else:
                found[place] = known
        failures: dict[int, EvaluationError] = {}
        for place, one in self.makes_all(wanted) if wanted else ():
            if isinstance(one, EvaluationError):
                failures[place] = one
            else:
                self.journal.append(one, place)
                found[place] = one
        if failures:
            raise failures[min(failures)]
        return [found[place] for place in sorted(found)]

    def _counted(self, evaluation: Evaluation) -> Evaluation:
        self.made.append(evaluation)
        self._check_floored()
        self.watch(Progress(len(self.made), *self.observe()))
        return evaluation

    def _rejected(self, point: tuple[float, ...]) -> Evaluation:
        sd = 1.0 if self.problem.noisy else None
        self.rejected.append(Evaluation(point, -np.inf, sd, 0.0))
        return self.rejected[-1]

    def rejects(self, point: ArrayLike) -> bool:
        """Whether the constraint is false at a point (D,); asking costs nothing."""
        try:
            return not self.problem.allows(np.array(point))
        except EvaluationError:  # as if the log density had failed
            return False

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
