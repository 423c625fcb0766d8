"""Moves of a state into another space: whitened, or along the parameters' own axes.

All spaces have the same volume, so their processes explain the same values and their likelihoods
compare. A kernel has one length along each axis and a component one scale, so both need the right
axes. Which those are changes while a run learns: its first mixtures know a correlation at best, and
a bend of one parameter by another is simplest along the parameters' own.
"""

from __future__ import annotations

import numpy as np

from vbstack.engines.native import iteration, space
from vbstack.engines.native.best_gaussian import best_gaussian
from vbstack.engines.native.iteration import State
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import training_data
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.runs.transform import Transform

_SURE = 0.1  # sd in nats of an ELBO that may decide
_DEPTH = 2.0  # nats per dimension below the best value, where mass may be


def improved(state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy) -> State:
    """The state in a better space, if one is found; else as it was."""
    for move in (straightened, whitened):
        after = move(state, recorder, rng, policy)
        if after is not state:
            return after
    return state


def straightened(
    state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy
) -> State:
    """The state along the parameters' own axes if that is better, else as it was; for D > 4.

    Accept only if both the leave-one-out predictive density of high values and the ELBO improve.
    The likelihood of all values would mostly be that of low ones; the ELBO alone trusted surrogates
    that predict worse (heavy tails), and the predictive density alone accepted worse mixtures.
    """
    d = state.process.dimension
    straight = (state.map_.rotation == np.eye(d)).all()
    if not policy.own_axes or straight or state.fitted.elbo_sd > policy.reliable:
        return state
    mean, covariance = state.fitted.mixture.moments()
    map_ = space.along(state.map_, np.eye(d), covariance)
    one = space.as_component(mean, covariance, state.map_, map_)
    data = training_data(recorder, map_)
    nearly_gaussian = hyperparameter_fit.gaussian_guess(data, one.means[0], one.sds[0])
    process = hyperparameter_fit.fit(data, [_moved_guess(state, map_), nearly_gaussian], 50)
    estimates = state.process.estimates()
    high = estimates > estimates.max() - _DEPTH * d
    before = state.process.predictive_log_density(high)
    if process.predictive_log_density(high) < before + policy.likelihood_gain:
        return state
    mixture = space.mixture_in_space(state.fitted.mixture, state.map_, map_)
    fitted = iteration.fit_mixture(process, mixture, rng)
    better = fitted.elbo - fitted.elbo_sd > state.fitted.elbo
    return State(map_, process, fitted) if better else state


def whitened(state: State, recorder: Recorder, rng: np.random.Generator, policy: Policy) -> State:
    """The state in a whitened space, if the evaluations are more likely there; else as it was.

    If one Gaussian is worth more than the mixture, the space is whitened by its covariance, else by
    the mixture's, and then every angle of its rotation must gain a nat.
    """
    mean, covariance = state.fitted.mixture.moments()
    needed = max(policy.likelihood_gain, 0.5 * mean.size * (mean.size - 1))
    gaussian = best_gaussian(state.process, mean, covariance)
    if policy.best_gaussian and gaussian.elbo > state.fitted.elbo:
        mean, covariance, needed = gaussian.mean, gaussian.covariance, policy.likelihood_gain
    map_ = space.whitened(state.map_, covariance)
    process = _process_in(map_, state, recorder)
    if process.log_likelihood < state.process.log_likelihood + needed:
        return state
    fitted = iteration.fit_mixture(
        process, space.mixture_in_space(state.fitted.mixture, state.map_, map_), rng
    )
    one = iteration.fit_mixture(
        process, space.as_component(mean, covariance, state.map_, map_), rng
    )
    known = one.elbo_sd < max(_SURE, fitted.elbo_sd)
    return State(map_, process, one if known and one.elbo > fitted.elbo else fitted)


def _process_in(map_: Transform, state: State, recorder: Recorder) -> DenseProcess:
    """The surrogate in another space, fitted from where it was."""
    return hyperparameter_fit.fit(training_data(recorder, map_), [_moved_guess(state, map_)], 50)


def _moved_guess(state: State, map_: Transform) -> Hyperparameters:
    return space.hyperparameters_in_space(state.process.hyperparameters, state.map_, map_)
