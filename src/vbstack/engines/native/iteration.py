"""One iteration's state, and how it becomes the next: surrogate and mixture fitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.mixture_fit import Fitted
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import training_data
from vbstack.engines.recorder import Evaluator
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.runs.transform import Transform

ROUNDS = 5  # short fits of the mixture per iteration
_NEGLIGIBLE = 1e-4  # weight of a component that only keeps others from being split
LAST_DRAWS = 256  # per component, for the ELBO that a run reports


@dataclass(frozen=True)
class State:
    """One iteration: the space, the surrogate, the mixture with its ELBO."""

    map_: Transform
    process: DenseProcess
    fitted: Fitted


def first_state(
    recorder: Evaluator, map_: Transform, rng: np.random.Generator, policy: Policy
) -> State:
    """The state after the first evaluations."""
    data = training_data(recorder, map_)
    process = hyperparameter_fit.fit(data, _first_guesses(data, policy), 50)
    return State(map_, process, fit_mixture(process, _at_the_top(process), rng))


def _first_guesses(data: TrainingData, policy: Policy) -> list[Hyperparameters]:
    """The hyperparameters to start from while little is known."""
    guesses = [hyperparameter_fit.first_guess(data)]
    return [*guesses, hyperparameter_fit.bowl_guess(data)] if policy.wary else guesses


def _at_the_top(process: DenseProcess) -> DiagonalMixture:
    """Two narrow components at the two best points."""
    means = process.data.inputs[np.argsort(process.estimates())[:-3:-1]]
    sds = np.minimum(0.1, 0.3 * process.hyperparameters.lengths)
    return DiagonalMixture(np.array([0.5, 0.5]), means, np.tile(sds, (2, 1)))


def fit_mixture(
    process: DenseProcess, start: DiagonalMixture, rng: np.random.Generator, penalty: float = 0.0
) -> Fitted:
    """A short fit from `start`, without dead components."""
    mixture = mixture_fit.fit(process, start, rng, rounds=ROUNDS, penalty=penalty)
    mixture = growth.without(mixture, mixture.weights < _NEGLIGIBLE)
    return mixture_fit.evaluated(process, mixture, rng)


def refitted(
    state: State,
    recorder: Evaluator,
    rng: np.random.Generator,
    policy: Policy,
    warming: bool,
    number: int,
) -> State:
    """Surrogate and mixture after new evaluations, from where they were."""
    data = training_data(recorder, state.map_)
    starts = [state.process.hyperparameters]
    if warming:
        starts += _first_guesses(data, policy)
    elif policy.gaussian_guess and number % 5 in (0, 3):
        mean, covariance = state.fitted.mixture.moments()
        starts.append(hyperparameter_fit.gaussian_guess(data, mean, np.sqrt(np.diag(covariance))))
    process = hyperparameter_fit.fit(data, starts, 30)
    if warming:  # the top moves, and what was fitted before it moved holds a mixture back
        penalty = policy.penalty if policy.wary else 0.0
        return State(state.map_, process, fit_mixture(process, _at_the_top(process), rng, penalty))
    fitted = fit_mixture(process, state.fitted.mixture, rng)
    if fitted.elbo < data.values.max() - policy.restart * process.dimension:
        again = fit_mixture(process, _at_the_top(process), rng)
        fitted = max(fitted, again, key=lambda fit: fit.elbo)
    if fitted.elbo_sd < policy.reliable and number % 2 == 0:
        fitted = _grown(process, fitted, int(policy.growth_limit * len(data.values)), policy, rng)
    return State(state.map_, process, fitted)


def _grown(
    process: DenseProcess, fitted: Fitted, limit: int, policy: Policy, rng: np.random.Generator
) -> Fitted:
    """With more components, up to `limit`, if they raise the ELBO; else as it was."""
    size = min(limit, policy.most_components, 2 + 2 * fitted.mixture.size)
    if size <= fitted.mixture.size:
        return fitted
    new = (size - fitted.mixture.size + 1) // 2
    mixture = growth.extended(process, fitted, new, policy, rng)
    mixture = growth.split(mixture, size, rng)
    more = fit_mixture(process, mixture, rng)
    return more if more.elbo > fitted.elbo + policy.growth_gain else fitted


def with_surrogate_refitted(
    state: State, data: TrainingData, start: DiagonalMixture, rng: np.random.Generator
) -> State:
    """The surrogate fitted again to more evaluations, and the mixture from this start."""
    process = hyperparameter_fit.fit(data, [state.process.hyperparameters], 30)
    return State(state.map_, process, fit_mixture(process, start, rng))


def with_surrogate_conditioned(state: State, data: TrainingData, rng: np.random.Generator) -> State:
    """The surrogate given more evaluations, hyperparameters kept, and the same mixture's ELBO."""
    process = DenseProcess.condition(data, state.process.hyperparameters)
    return replace(
        state,
        process=process,
        fitted=mixture_fit.evaluated(process, state.fitted.mixture, rng, LAST_DRAWS),
    )
