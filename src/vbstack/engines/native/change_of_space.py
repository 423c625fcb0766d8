"""Moves of a state into another space: whitened, along common axes, or the parameters' own.

All spaces have the same volume, so their processes explain the same values and their likelihoods
compare. A kernel has one length along each axis and a component one scale, so both need the right
axes. Which those are changes while a run learns: its first mixtures know a correlation at best, and
a bend of one parameter by another is simplest along the parameters' own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbstack.engines.native import common_axes, iteration, space
from vbstack.engines.native.best_gaussian import best_gaussian
from vbstack.engines.native.iteration import Evaluated, State
from vbstack.engines.native.mixture_fit import Fitted
from vbstack.engines.native.settings import MANY
from vbstack.gaussian_process import dense
from vbstack.gaussian_process.dense import Process
from vbstack.runs.transform import Transform

Array = NDArray[np.float64]

_SURE = 0.1  # sd in nats of an ELBO that may decide
_LIKELIHOOD_GAIN = 2.0  # nats by which evaluations must be likelier, or high ones better foreseen
_DEPTH = 2.0  # nats per dimension below the best value, where mass may be
_TURN_GAIN = 0.1  # nats that common axes must promise to the mixture
_LIKELIHOOD_LOSS = 8.0  # nats by which the evaluations may be less likely with common axes


def moved(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a better space, if one is found; else as it was."""
    for move in (straightened, whitened, turned):
        after = move(state, evaluated, rng)
        if after is not state:
            return after
    return state


def straightened(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state along the parameters' own axes, if the surrogate foresees more there and the
    mixture is worth more; else as it was. For many dimensions.

    What counts is how well every value is foreseen from the others, where the mass may be: the
    likelihood of all is mostly that of the low ones. A surrogate that foresees less may promise
    more (heavy tails), and a mixture may be worth less by one that foresees more.
    """
    d = state.process.dimension
    straight = (state.map_.rotation == np.eye(d)).all()
    if d <= MANY or straight or state.fitted.elbo_sd > iteration.KNOWN:
        return state
    mean, covariance = state.fitted.mixture.moments()
    map_ = space.along(state.map_, np.eye(d), covariance)
    one = space.as_component(mean, covariance, state.map_, map_)
    data = evaluated.seen_from(map_)
    nearly_gaussian = dense.gaussian_guess(data, one.means[0], one.sds[0])
    process = dense.fit(data, [_moved_guess(state, map_), nearly_gaussian], 50)
    believed = state.process.believed()
    high = believed > believed.max() - _DEPTH * d
    if process.foreseen(high) < state.process.foreseen(high) + _LIKELIHOOD_GAIN:
        return state
    mixture = space.moved(state.fitted.mixture, state.map_, map_)
    fitted = iteration.fit_mixture(process, mixture, rng)
    better = fitted.elbo - fitted.elbo_sd > state.fitted.elbo
    return _entered(state, map_, process, fitted) if better else state


def whitened(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a whitened space, if the evaluations are more likely there; else as it was.

    If one Gaussian is worth more than the mixture, the space is whitened by its covariance, else by
    the mixture's, and then every angle of its rotation must gain a nat.
    """
    mean, covariance = state.fitted.mixture.moments()
    gaussian = best_gaussian(state.process, mean, covariance)
    needed = max(_LIKELIHOOD_GAIN, 0.5 * mean.size * (mean.size - 1))
    if gaussian.elbo > state.fitted.elbo:
        mean, covariance, needed = gaussian.mean, gaussian.covariance, _LIKELIHOOD_GAIN
    map_ = space.whitened(state.map_, covariance)
    process = _process_in(map_, state, evaluated)
    if process.log_likelihood < state.process.log_likelihood + needed:
        return state
    fitted = iteration.fit_mixture(
        process, space.moved(state.fitted.mixture, state.map_, map_), rng
    )
    one = iteration.fit_mixture(
        process, space.as_component(mean, covariance, state.map_, map_), rng
    )
    known = one.elbo_sd < max(_SURE, fitted.elbo_sd)
    better = one if known and one.elbo > fitted.elbo else fitted
    return _entered(state, map_, process, better)


def turned(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a space with common axes, if the mixture is worth more there; else as it was.

    Crossed or bent ridges have no covariance that whitening could use, but along their axes a
    component may be long. Where the target has no curvature, the mixture's covariance counts.
    """
    mixture, covariance = state.fitted.mixture, state.fitted.mixture.moments()[1]
    if mixture.size == 1:
        return state
    found = common_axes.no_wider(common_axes.precisions(state.process, mixture), covariance)
    to_box = np.linalg.inv(state.map_.rotation * state.map_.scale)
    rotation = common_axes.common_axes(to_box.T @ found @ to_box, mixture.weights)
    map_ = space.along(state.map_, rotation, covariance)
    back = space.step_between(map_, state.map_)
    gain = common_axes.lost(found, mixture.weights) - common_axes.lost(
        back.T @ found @ back, mixture.weights
    )
    if gain < _TURN_GAIN:
        return state
    process = _process_in(map_, state, evaluated)
    fitted = iteration.fit_mixture(process, space.moved(mixture, state.map_, map_), rng)
    likely = process.log_likelihood > state.process.log_likelihood - _LIKELIHOOD_LOSS
    better = fitted.elbo - fitted.elbo_sd > state.fitted.elbo
    return _entered(state, map_, process, fitted) if likely and better else state


def _entered(state: State, map_: Transform, process: Process, fitted: Fitted) -> State:
    """The state in the other space. If the mixture there is only a guess, the one before is the
    last that was known."""
    known = fitted.mixture
    if fitted.elbo_sd > iteration.KNOWN:
        known = space.moved(state.fitted.mixture, state.map_, map_)
    return State(map_, process, fitted, known)


def _process_in(map_: Transform, state: State, evaluated: Evaluated) -> Process:
    """The surrogate in another space, fitted from where it was."""
    return dense.fit(evaluated.seen_from(map_), [_moved_guess(state, map_)], 50)


def _moved_guess(state: State, map_: Transform) -> Array:
    return space.moved_hyperparameters(state.process.hyperparameters, state.map_, map_)
