"""Where a run evaluates: around its start at first, then wherever its surrogate suggests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.engines.allowed import allowed, draws_until_allowed
from vbstack.engines.native.acquisition import Candidates, Region, Way
from vbstack.engines.native.iteration import State
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import compressed, noise_of_low
from vbstack.engines.recorder import Evaluator, Recorder
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.plausible import PlausibleBox

_FEWEST_INSIDE = 5  # first evaluations that have to be within the support
_CONSTRAINT_DRAWS = 100  # of the mixture, at which the constraint is asked; they cost nothing


def first(
    problem: Problem,
    start: Array,
    recorder: Recorder,
    rng: np.random.Generator,
    policy: Policy,
) -> None:
    """The start and points around it, as far as they are not known yet."""
    reach = np.inf if policy.reach is None else policy.reach
    box = PlausibleBox.of(problem.description())
    others = box.around(start, reach, policy.fun_eval_start - 1, rng)
    known = {evaluation.x for evaluation in recorder.precomputed}
    # Those that the constraint rejects are evaluated for nothing, and tell where the support ends.
    wanted = min(policy.fun_eval_start, policy.max_fun_evals)
    new = [point for point in (start, *others) if tuple(point) not in known]
    recorder.many(_until_enough(recorder, new, wanted - len(recorder)))
    missing = min(wanted - len(recorder), len(recorder.rejected))
    recorder.many(_allowed_ones(problem, missing, rng))
    _find_the_support(problem, recorder, rng, policy)


def _until_enough(recorder: Recorder, points: Sequence[Array], count: int) -> list[Array]:
    """The first of the points, until `count` of them are allowed."""
    paid = np.cumsum([0, *(not recorder.rejects(point) for point in points)])
    return [point for point, before in zip(points, paid, strict=False) if before < count]


def _find_the_support(
    problem: Problem, recorder: Recorder, rng: np.random.Generator, policy: Policy
) -> None:
    """More points of the plausible box, until a few are within the support."""
    wanted = min(_FEWEST_INSIDE, policy.fun_eval_start, policy.max_fun_evals)
    while (missing := wanted - int((~recorder.evaluations().outside).sum())) > 0:
        left = policy.max_fun_evals - len(recorder)
        if left <= 0:
            made = recorder.evaluations()
            raise EvaluationError(
                f"{made.outside.sum()} of {made.size} evaluations are outside the support (−inf): "
                "move the plausible box to where the log density is finite",
                made.x[made.outside][-1],
            )
        recorder.many(_allowed_ones(problem, int(min(missing, left)), rng))


def _allowed_ones(problem: Problem, count: int, rng: np.random.Generator) -> list[Array]:
    """So many allowed points of the plausible box, and of those that are rejected before each the
    first, which shows where the support ends."""
    return [
        point
        for _ in range(count)
        for place, (point, is_allowed) in enumerate(draws_until_allowed(problem, rng))
        if is_allowed or place == 0
    ]


def ask_the_constraint(state: State, recorder: Recorder, rng: np.random.Generator) -> None:
    """Record which draws of the mixture the constraint rejects: the stack learns the edge."""
    if recorder.problem.constraint is not None:
        draws = state.map_.inverse(state.fitted.mixture.draws(_CONSTRAINT_DRAWS, rng))
        for x in draws[~allowed(recorder.problem, draws)]:
            recorder(x)


def more(
    state: State,
    recorder: Evaluator,
    rng: np.random.Generator,
    policy: Policy,
    ways: Sequence[Way],
    region: Region | None = None,
) -> None:
    """Choose and evaluate a point in each of these ways, each with the knowledge of the last."""
    if policy.batch:
        recorder.many(chosen(state, recorder, rng, policy, ways, region))
        return
    choice = _Choice.of(state, recorder, rng, policy, region)
    for left, way in zip(range(len(ways), 0, -1), ways, strict=True):
        choice, point = choice.next(way)
        evaluation = recorder(state.map_.inverse(point[None])[0])
        if np.isneginf(evaluation.value):
            choice = choice.excluding(point)
        elif left > 1:
            seen = evaluation.value + float(state.map_.log_jacobian(point[None])[0])
            choice = choice.with_value(point, seen, evaluation.sd or 0.0)


def chosen(
    state: State,
    recorder: Evaluator,
    rng: np.random.Generator,
    policy: Policy,
    ways: Sequence[Way],
    region: Region | None = None,
) -> list[Array]:
    """Points (D,) of the original space, one for each way, to be evaluated side by side.

    After each the surrogate is given its own prediction there, with the noise that evaluations
    have: then it is less uncertain around that point, and otherwise as it was ("kriging believer").
    """
    if not ways:
        return []
    choice = _Choice.of(state, recorder, rng, policy, region)
    sds = state.process.data.sds
    noise = 0.0 if sds is None else float(np.median(sds))
    points = []
    for way in ways:
        choice, point = choice.next(way)
        choice = choice.with_prediction(point, noise)
        points.append(state.map_.inverse(point[None])[0])
    return points


@dataclass(frozen=True)
class _Choice:
    """What the next point is chosen from: the candidates, with the surrogate as it is by now."""

    state: State
    recorder: Evaluator
    rng: np.random.Generator
    process: DenseProcess
    candidates: Candidates

    @classmethod
    def of(
        cls,
        state: State,
        recorder: Evaluator,
        rng: np.random.Generator,
        policy: Policy,
        region: Region | None,
    ) -> _Choice:
        parts = (state.process, state.fitted, state.map_, rng, policy, region)
        return cls(state, recorder, rng, state.process, Candidates.of(*parts))

    def next(self, way: Way) -> tuple[_Choice, Array]:
        """The point (D,) chosen next, which is allowed; and the choice after it.

        The point that would have been chosen shows where the support ends.
        """
        mixture, choice = self.state.fitted.mixture, self
        point = way(self.candidates, self.process, mixture, self.rng)
        if not self._allowed(point[None])[0]:
            self.recorder(self.state.map_.inverse(point[None])[0])
            choice = self.excluding(point)
            only = choice.candidates.only(self._allowed)
            point = way(only, choice.process, mixture, self.rng)
        return choice, point

    def _allowed(self, points: Array) -> NDArray[np.bool_]:
        return allowed(self.recorder.problem, self.state.map_.inverse(points))

    def excluding(self, point: Array) -> _Choice:
        """The choice after the point turned out to be outside the support."""
        process = self.process.excluding(point)
        return replace(self, process=process, candidates=self.candidates.excluding(process, point))

    def with_value(self, point: Array, seen: float, sd: float) -> _Choice:
        """The choice after a value was seen at the point, from the run's space."""
        top = max(seen, float(self.process.data.values.max()))
        low = compressed(np.array(seen), top, point.size)
        sd = float(np.hypot(sd, noise_of_low(low, top, point.size)))
        return self._including(point, float(low), float(low), sd)

    def with_prediction(self, point: Array, sd: float) -> _Choice:
        """The choice as if its own prediction had been seen at the point, with this noise."""
        lowered, inside = (
            float(self.process.predict(point[None], lowered=lowered)[0][0])
            for lowered in (True, False)
        )
        return self._including(point, inside, lowered, sd)

    def _including(self, point: Array, value: float, of_candidates: float, sd: float) -> _Choice:
        candidates = self.candidates.including(self.process, point, of_candidates, sd)
        return replace(
            self, process=self.process.including(point, value, sd), candidates=candidates
        )
