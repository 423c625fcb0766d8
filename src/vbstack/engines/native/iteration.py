"""One iteration's state, and how it becomes the next: surrogate and mixture fitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.mixture_fit import Fitted, Mixture
from vbstack.engines.native.settings import MANY
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process import dense
from vbstack.gaussian_process.dense import Data, Process
from vbstack.runs.transform import Transform

Array = NDArray[np.float64]

ROUNDS = 5  # short fits of the mixture per iteration
_MOST = 50  # components before the last fit
_LOST = 5.0  # nats per dimension: a mixture so far below the best value has lost the posterior
KNOWN = 1.0  # sd in nats of an ELBO that is more than a guess of the surrogate
_NOTHING = 1e-4  # weight of a component that only keeps others from being split
_WARY = 1.0  # β while exploring, where the surrogate may only guess
LAST_DRAWS = 256  # per component, for the ELBO that a run reports
_GROWTH_GAIN = 0.005  # nats that more components must bring


@dataclass(frozen=True)
class State:
    """One iteration: the space, the surrogate, the mixture and what it is worth."""

    map_: Transform
    process: Process
    fitted: Fitted
    known: Mixture | None = None  # the last whose ELBO was more than a guess


class Evaluated:
    """The evaluations of a run, in the original space, seen from any other."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        known = recorder.precomputed
        self.x = [np.array(entry.x) for entry in known]
        self.values = [entry.value for entry in known]
        self.sds = [float(entry.sd or 0.0) for entry in known]

    def add(self, x: Array) -> float:
        answer = self.recorder(x)
        value, sd = answer if isinstance(answer, tuple) else (answer, 0.0)
        self.x.append(np.array(x))
        self.values.append(value)
        self.sds.append(sd)
        return value

    @property
    def noisy(self) -> bool:
        return self.recorder.problem.noisy

    def seen_from(self, map_: Transform) -> Data:
        """Inputs in the run's space and values with the log-Jacobian of its map.

        A point on a hard bound has no place there, and is left out.
        """
        x = np.array(self.x)
        inside = map_.link.inside(x)
        u = map_.forward(x[inside])
        values = np.array(self.values)[inside] + map_.log_jacobian(u)
        return Data.of(u, values, np.array(self.sds)[inside] if self.noisy else None)

    def __len__(self) -> int:
        return len(self.x)


def first_state(evaluated: Evaluated, map_: Transform, rng: np.random.Generator) -> State:
    """The state after the first evaluations."""
    data = evaluated.seen_from(map_)
    process = dense.fit(data, _first_guesses(data), 50)
    return State(map_, process, fit_mixture(process, _at_the_top(process), rng))


def _first_guesses(data: Data) -> list[Array]:
    """The hyperparameters to start from while little is known.

    In many dimensions the kernel alone would explain a few values, promise as much far away from
    them, and lead the run there; so there is a bowl as well.
    """
    guesses = [dense.first_guess(data)]
    return [*guesses, dense.bowl_guess(data)] if data.inputs.shape[1] > MANY else guesses


def _at_the_top(process: Process) -> Mixture:
    """Two narrow components at the two best points."""
    means = process.data.inputs[np.argsort(process.believed())[:-3:-1]]
    sds = np.minimum(0.1, 0.3 * process.lengths)
    return Mixture(np.array([0.5, 0.5]), means, np.tile(sds, (2, 1)))


def fit_mixture(
    process: Process, start: Mixture, rng: np.random.Generator, penalty: float = 0.0
) -> Fitted:
    """A short fit from `start`, without dead components."""
    mixture = mixture_fit.fit(process, start, rng, rounds=ROUNDS, penalty=penalty)
    mixture = growth.without(mixture, mixture.weights < _NOTHING)
    return mixture_fit.evaluated(process, mixture, rng)


def refitted(
    state: State, evaluated: Evaluated, rng: np.random.Generator, warming: bool, number: int
) -> State:
    """Surrogate and mixture after new evaluations, from where they were."""
    data = evaluated.seen_from(state.map_)
    starts = [state.process.hyperparameters]
    if warming:
        starts += _first_guesses(data)
    elif number % 5 == 0:
        starts.append(dense.first_guess(data))
    if not warming and number % 5 in (0, 3):
        mean, covariance = state.fitted.mixture.moments()
        starts.append(dense.gaussian_guess(data, mean, np.sqrt(np.diag(covariance))))
    process = dense.fit(data, starts, 30)
    wary = _WARY if warming and process.dimension > MANY else 0.0
    fitted = fit_mixture(process, state.fitted.mixture, rng, wary)
    if warming or fitted.elbo < data.values.max() - _LOST * process.dimension:
        again = fit_mixture(process, _at_the_top(process), rng, wary)
        fitted = max(fitted, again, key=lambda fit: fit.elbo - wary * fit.elbo_sd)
    if not warming and state.known is not None:
        fitted = _called_back(process, fitted, state, state.known, rng)
    if not warming and fitted.elbo_sd < KNOWN and number % 2 == 0:
        fitted = _grown(process, fitted, 2 * len(data.values) // 3, rng)
    return State(
        state.map_, process, fitted, fitted.mixture if fitted.elbo_sd < KNOWN else state.known
    )


def _called_back(
    process: Process, fitted: Fitted, state: State, known: Mixture, rng: np.random.Generator
) -> Fitted:
    """What a mixture may become that went where the surrogate only guesses.

    It is fitted again from where it was known, with a penalty for uncertainty. If the guess
    outweighs that too, it stays there for an iteration: the evaluations then show what is there,
    and the next fit starts from the known mixture as well.
    """
    lured = state.fitted.elbo_sd > KNOWN
    if fitted.elbo_sd < KNOWN and not lured:
        return fitted
    back = fit_mixture(process, known, rng, penalty=_WARY)
    if back.elbo_sd < KNOWN and (fitted.elbo_sd > KNOWN or back.elbo > fitted.elbo):
        return back
    return fitted


def _grown(process: Process, fitted: Fitted, limit: int, rng: np.random.Generator) -> Fitted:
    """With more components, up to `limit`, if they raise the ELBO; else as it was."""
    size = min(limit, _MOST, 2 + 2 * fitted.mixture.size)
    if size <= fitted.mixture.size:
        return fitted
    new = (size - fitted.mixture.size + 1) // 2
    mixture = growth.extended(process, fitted, new, _WARY, rng)
    mixture = growth.split(mixture, size, rng)
    more = fit_mixture(process, mixture, rng)
    return more if more.elbo > fitted.elbo + _GROWTH_GAIN else fitted


def relearned(state: State, data: Data) -> State:
    """The surrogate fitted again to more values; the mixture as it was."""
    return replace(state, process=dense.fit(data, [state.process.hyperparameters], 30))


def conditioned(state: State, data: Data, rng: np.random.Generator) -> State:
    """The surrogate told of more values, and what the same mixture is worth by it."""
    process = Process.condition(data, state.process.hyperparameters)
    return replace(
        state,
        process=process,
        fitted=mixture_fit.evaluated(process, state.fitted.mixture, rng, LAST_DRAWS),
    )
