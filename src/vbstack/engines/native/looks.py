"""Looks for other modes: a calm run evaluates far points, and climbs where they surprise it.

A run that began around its start knows one mode, and predicts the log density well wherever that
mode is the nearest. A value far above its prediction, however low, is nearer to another mode. From
there the run climbs: a few points around it, then steps within a box around the best point so far,
led by a surrogate of these evaluations alone. It ends where the steps gain nothing, or where the
run's own surrogate predicts what they found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.native import evaluating, growth, iteration, space
from vbstack.engines.native.acquisition import Region, most_promising
from vbstack.engines.native.iteration import State
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import compressed, training_data
from vbstack.engines.recorder import Recorder
from vbstack.problem import Evaluation, Problem
from vbstack.runs.evaluations import Evaluations

_FEWEST_INSIDE = 3  # points within the support that a climb begins with


@dataclass(frozen=True)
class _Since:
    """A recorder whose evaluations are those made from a certain moment on."""

    recorder: Recorder
    made: int
    rejected: int

    @property
    def problem(self) -> Problem:
        return self.recorder.problem

    def __call__(self, x: Array) -> Evaluation:
        return self.recorder(x)

    def evaluations(self) -> Evaluations:
        whole = self.recorder
        new = [*whole.made[self.made :], *whole.rejected[self.rejected :]]
        return Evaluations.of(new, whole.problem.noisy)


def affordable(recorder: Recorder, policy: Policy) -> bool:
    """Whether the budget has a look and the shortest climb after it."""
    climb = 1 + recorder.problem.dimension + 1 + policy.climb_evaluations
    return len(recorder) + climb <= policy.max_fun_evals


def elsewhere(
    state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy, count: int
) -> tuple[State | None, int]:
    """The state with another mode if one of `count` far points leads to one, else None; and how
    many led to none."""
    for quiet in range(count):
        if not affordable(recorder, policy):
            return None, quiet
        part = _Since(recorder, len(recorder.made), len(recorder.rejected))
        x = _far_point(state, recorder, rng, policy)
        value = recorder(x).value
        if np.isfinite(value) and _surprises(state, x, value, policy):
            for near in evaluating.around(recorder.problem, x, policy.climb_reach, x.size + 1, rng):
                recorder(near)
            if (~part.evaluations().outside).sum() < _FEWEST_INSIDE:
                return None, quiet
            climber = _climbed(state, part, rng, policy)
            if climber is None:
                return None, quiet + 1
            return _joined(state, climber, recorder, rng, policy), quiet
    return None, count


def _far_point(state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy) -> Array:
    """A point (D,) of the plausible box far from all evaluations, and within the known support."""
    problem, made = recorder.problem, recorder.evaluations().x
    low, high = problem.plausible_lower_bounds, problem.plausible_upper_bounds
    x = rng.uniform(low, high, (policy.look_candidates, problem.dimension))
    away = np.square((x[:, None] - made) / (high - low)).sum(axis=2).min(axis=1)
    labels = state.process.outside
    if labels is not None:
        outside = labels.predict(state.map_.forward(x))[0] > 0.5  # nearer to 1 than to 0
        away[outside] = 0.0
    return np.asarray(x[np.argmax(away)])


def _surprises(state: State, x: Array, value: float, policy: Policy) -> bool:
    """Whether the value at x is far above what the surrogate predicts there."""
    u = state.map_.forward(x[None])
    mean, variance = state.process.predict(u)
    seen = value + float(state.map_.log_jacobian(u)[0])
    top = max(seen, float(state.process.data.values.max()))
    seen, shaped = (float(compressed(np.array(v), top, x.size)) for v in (seen, mean[0]))
    miss = seen - max(float(mean[0]), shaped)  # a prediction far down is not shaped yet
    return bool(miss > max(policy.surprise, policy.surprise_sds * float(np.sqrt(variance[0]))))


def _climbed(state: State, part: _Since, rng: np.random.Generator, policy: Policy) -> State | None:
    """The climber where it gains no more; None where the run's surrogate knows what it found."""
    climber = iteration.first_state(part, space.unit_box(part.problem), rng, policy)
    best = -np.inf
    for number in range(policy.climb_steps):
        if len(part.recorder) + policy.climb_evaluations > policy.max_fun_evals:
            return climber
        data = climber.process.data
        region = Region(data.inputs[data.values.argmax()], policy.climb_reach)
        ways = [most_promising] * policy.climb_evaluations
        evaluating.more(climber, part, rng, policy, ways, region)
        made = part.evaluations()
        top = int(np.argmax(made.values))
        if not _surprises(state, made.x[top], float(made.values[top]), policy):
            return None
        climber = iteration.refitted(climber, part, rng, policy, True, number)
        if made.values[top] < best + policy.climb_gain:
            break
        best = float(made.values[top])
    return climber


def _joined(
    state: State, climber: State, recorder: Recorder, rng: np.random.Generator, policy: Policy
) -> State:
    """The state with the climber's mixture as further components.

    No mixture before counts as reliable: a refit from it would give up what was found.
    """
    there = space.mixture_in_space(climber.fitted.mixture, climber.map_, state.map_)
    both = growth.union(state.fitted.mixture, there, policy.climb_share)
    after = iteration.with_surrogate_refitted(state, training_data(recorder, state.map_))
    fitted = iteration.fit_mixture(after.process, both, rng)
    return replace(after, fitted=fitted, reliable=None)
