"""Looks for other modes: a calm run evaluates points of the box, and climbs where they surprise it.

A run that began around its start knows one mode, and predicts the log density well wherever that
mode is the nearest. A value far above its prediction, however low, is nearer to another mode. From
there the run climbs: a few points around it, then steps within a box around the best point so far,
led by a surrogate of these evaluations alone. It ends by the rule that ends a warm-up, or where the
run's own surrogate predicts what they found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from vbstack.runs.plausible import PlausibleBox

_FEWEST_INSIDE = 3  # points within the support that a climb begins with
_TRIES = 4  # places, of which the first within the known support is taken


@dataclass(frozen=True)
class _Since:
    """A recorder whose evaluations are those made from a certain moment on."""

    recorder: Recorder
    made: int
    rejected: int
    first: tuple[Evaluation, ...] = ()  # made before that, but its own

    @property
    def problem(self) -> Problem:
        return self.recorder.problem

    def __call__(self, x: Array) -> Evaluation:
        return self.recorder(x)

    def many(self, points: Iterable[Array]) -> list[Evaluation]:
        return self.recorder.many(points)

    def evaluations(self) -> Evaluations:
        whole = self.recorder
        new = [*self.first, *whole.made[self.made :], *whole.rejected[self.rejected :]]
        return Evaluations.of(new, whole.problem.noisy)


def affordable(recorder: Recorder, policy: Policy) -> bool:
    """Whether the budget has a look, a climb after it, and what the run then needs to settle."""
    return _affordable(recorder, policy) >= 1


def _affordable(recorder: Recorder, policy: Policy) -> float:
    """How many looks the budget has, with a climb after them and what the run then needs."""
    settling = policy.settled_iterations * policy.fun_evals_per_iter
    needed = 1 + recorder.problem.dimension + policy.look_reserve * settling
    return policy.max_fun_evals - len(recorder) - needed


class Looked(NamedTuple):
    """What looks led to."""

    state: State | None  # with another mode, if one was found
    in_vain: int  # looks that led to none
    outside: int = 0  # of these, outside the support: they could not have met a mode


def elsewhere(
    state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy, count: int
) -> Looked:
    """Up to `count` looks, until one leads to another mode or the budget has no more."""
    outside = 0
    for quiet in range(count):
        if not affordable(recorder, policy):
            return Looked(None, quiet, outside)
        part = _Since(recorder, len(recorder.made), len(recorder.rejected))
        x = _place(state, recorder, rng)
        value = recorder(x).value
        if not np.isfinite(value):
            outside += 1
        elif _surprises(state, x, value, policy):
            climber, known = _climber(state, part, x, rng, policy)
            if climber is None:
                return Looked(None, quiet + known, outside)
            return Looked(_joined(state, climber, recorder, rng, policy), quiet, outside)
    return Looked(None, count, outside)


def places(
    state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy, count: int
) -> list[Array]:
    """Up to `count` points (D,) to look at side by side, as many as the budget has."""
    affordable_ones = int(max(0, min(count, _affordable(recorder, policy))))
    return [_place(state, recorder, rng) for _ in range(affordable_ones)]


def met(
    state: State,
    recorder: Recorder,
    rng: np.random.Generator,
    policy: Policy,
    looked: Sequence[Evaluation],
) -> Looked:
    """What looks led to that were made side by side; the state knows none of them.

    The run climbs from each that surprises it, unless an earlier climb explains the value.
    """
    climbers: list[State] = []
    in_vain = outside = 0
    for look in looked:
        x = np.array(look.x)
        if not np.isfinite(look.value):
            outside, in_vain = outside + 1, in_vain + 1
        elif not all(_surprises(one, x, look.value, policy) for one in (state, *climbers)):
            in_vain += 1
        elif len(recorder) + x.size + 1 <= policy.max_fun_evals:
            part = _Since(recorder, len(recorder.made), len(recorder.rejected), (look,))
            climber, known = _climber(state, part, x, rng, policy)
            in_vain += known
            climbers += [] if climber is None else [climber]
    joined = state
    for climber in climbers:
        joined = _joined(joined, climber, recorder, rng, policy)
    return Looked(joined if climbers else None, in_vain, outside)


def _climber(
    state: State, part: _Since, x: Array, rng: np.random.Generator, policy: Policy
) -> tuple[State | None, int]:
    """The climber from x; None with 1 where the run's surrogate knows what it found, with 0 where
    too little around x is within the support."""
    reach = min(policy.reaches)
    box = PlausibleBox.of(part.problem.description())
    part.many(box.around(x, reach, x.size + 1, rng))
    if (~part.evaluations().outside).sum() < _FEWEST_INSIDE:
        return None, 0
    climber = _climbed(state, part, rng, policy)
    return climber, int(climber is None)


def _place(state: State, recorder: Recorder, rng: np.random.Generator) -> Array:
    """A point (D,) of the plausible box, within the known support if one of a few is.

    Half of the points are uniform; of the other half each coordinate has a Beta(2, 2) distribution.
    A uniform point in many dimensions is near a corner, where nobody expects the mass to be, and a
    Beta point hardly ever near the edge, where in few dimensions it may well be.
    """
    box = PlausibleBox.of(recorder.problem.description())
    shape = int(rng.integers(1, 3))
    x = box.place(rng.beta(shape, shape, (_TRIES, box.low.size)))
    labels = state.process.outside
    if labels is None:
        return np.asarray(x[0])
    outside = labels.predict(state.map_.forward(x))[0] > 0.5  # nearer to 1 than to 0
    return np.asarray(x[np.argmin(outside)])


def _surprises(state: State, x: Array, value: float, policy: Policy) -> bool:
    """Whether the value at x is far above what the surrogate predicts there."""
    u = state.map_.forward(x[None])
    mean = float(state.process.predict(u, lowered=False)[0][0])
    seen = value + float(state.map_.log_jacobian(u)[0])
    top = max(seen, float(state.process.data.values.max()))
    seen, shaped = (float(compressed(np.array(v), top, x.size)) for v in (seen, mean))
    return bool(seen - max(mean, shaped) > policy.surprise)  # a far prediction is not shaped yet


def _climbed(state: State, part: _Since, rng: np.random.Generator, policy: Policy) -> State | None:
    """The climber after its own warm-up; None where the run's surrogate knows what it found."""
    climber = iteration.first_state(part, space.unit_box(part.problem), rng, policy)
    best: list[float] = []
    while len(part.recorder) + policy.fun_evals_per_iter <= policy.max_fun_evals:
        data = climber.process.data
        region = Region(data.inputs[data.values.argmax()], min(policy.reaches))
        ways = [most_promising] * policy.fun_evals_per_iter
        evaluating.more(climber, part, rng, policy, ways, region)
        made = part.evaluations()
        top = int(np.argmax(made.values))
        if not _surprises(state, made.x[top], float(made.values[top]), policy):
            return None
        climber = iteration.refitted(climber, part, rng, policy, True, len(best))
        best.append(float(made.values[top]))
        if policy.at_the_top(best):
            break
    return climber


def _joined(
    state: State, climber: State, recorder: Recorder, rng: np.random.Generator, policy: Policy
) -> State:
    """The state with the climber's mixture as further components."""
    there = space.mixture_in_space(climber.fitted.mixture, climber.map_, state.map_)
    both = growth.union(state.fitted.mixture, there, policy.climb_share)
    data = training_data(recorder, state.map_)
    return iteration.with_surrogate_refitted(state, data, both, rng)
