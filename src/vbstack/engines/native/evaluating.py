"""Where a run evaluates: around its start at first, then wherever its surrogate suggests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.engines.allowed import allowed, draws_until_allowed
from vbstack.engines.native.acquisition import Candidates, Region, Way
from vbstack.engines.native.iteration import State
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import compressed, noise_of_low
from vbstack.engines.recorder import Evaluator, Recorder
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
    for point in (start, *others):
        if len(recorder) < wanted and tuple(point) not in known:
            recorder(point)
    for _ in recorder.rejected.copy():
        if len(recorder) < wanted:
            _evaluate_allowed(problem, recorder, rng)
    _find_the_support(problem, recorder, rng, policy)


def _find_the_support(
    problem: Problem, recorder: Recorder, rng: np.random.Generator, policy: Policy
) -> None:
    """More points of the plausible box, until a few are within the support."""
    wanted = min(_FEWEST_INSIDE, policy.fun_eval_start, policy.max_fun_evals)
    while (~recorder.evaluations().outside).sum() < wanted:
        if len(recorder) >= policy.max_fun_evals:
            made = recorder.evaluations()
            raise EvaluationError(
                f"{made.outside.sum()} of {made.size} evaluations are outside the support (−inf): "
                "move the plausible box to where the log density is finite",
                made.x[made.outside][-1],
            )
        _evaluate_allowed(problem, recorder, rng)


def _evaluate_allowed(problem: Problem, recorder: Recorder, rng: np.random.Generator) -> None:
    """Evaluate a point of the plausible box; a first one that is rejected shows the outside."""
    for place, (point, is_allowed) in enumerate(draws_until_allowed(problem, rng)):
        if is_allowed or place == 0:
            recorder(point)


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
    """Choose and evaluate points one after the other, each with the knowledge of the last."""
    process, mixture = state.process, state.fitted.mixture
    candidates = Candidates.of(process, state.fitted, state.map_, rng, policy, region)

    def may_choose(points: Array) -> NDArray[np.bool_]:
        return allowed(recorder.problem, state.map_.inverse(points))

    for left, way in zip(range(len(ways), 0, -1), ways, strict=True):
        point = way(candidates, process, mixture, rng)
        # The point that would have been chosen shows where the support ends; the next is allowed.
        if not may_choose(point[None])[0]:
            recorder(state.map_.inverse(point[None])[0])
            process = process.excluding(point)
            candidates = candidates.excluding(process, point)
            point = way(candidates.only(may_choose), process, mixture, rng)
        evaluation = recorder(state.map_.inverse(point[None])[0])
        if np.isneginf(evaluation.value):
            process = process.excluding(point)
            candidates = candidates.excluding(process, point)
            continue
        seen = evaluation.value + float(state.map_.log_jacobian(point[None])[0])
        if left > 1:
            top = max(seen, float(process.data.values.max()))
            low = compressed(np.array(seen), top, point.size)
            sd = float(np.hypot(evaluation.sd or 0.0, noise_of_low(low, top, point.size)))
            value = float(low)
            candidates = candidates.including(process, point, value, sd)
            process = process.including(point, value, sd)
