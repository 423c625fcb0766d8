"""One iteration's state, and how it becomes the next: surrogate and mixture fitted again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.engine import Recorder
from vbstack.engines.native import axes, gp, growth, mixture_fit, quadrature, space
from vbstack.engines.native.gaussian import best_gaussian
from vbstack.engines.native.gp import Data, Process
from vbstack.engines.native.mixture_fit import Fitted, Mixture
from vbstack.engines.native.settings import MANY, Settings
from vbstack.transform import Transform

Array = NDArray[np.float64]

_ROUNDS = 5  # short fits of the mixture per iteration
_MOST = 50  # components before the last fit
_LOST = 5.0  # nats per dimension: a mixture so far below the best value has lost the posterior
_KNOWN = 1.0  # sd in nats of an ELBO that is more than a guess of the surrogate
_NOTHING = 1e-4  # weight of a component that only keeps others from being split
_WARY = 1.0  # β while exploring, where the surrogate may only guess
_SURE = 0.1  # sd in nats of an ELBO that may decide
_LAST_DRAWS = 256  # per component, for the ELBO that a run reports
_GROWTH_GAIN = 0.005  # nats that more components must bring
_MORE = 10  # components that the last fit may add where mass is lacking
_SHARE = 0.1  # weight of the components that the last fit likes less, for the stack to choose
_LIKELIHOOD_GAIN = 2.0  # nats by which a whitened space must explain the evaluations better
_TURN_GAIN = 0.1  # nats that common axes must promise to the mixture
_LIKELIHOOD_LOSS = 8.0  # nats by which the evaluations may be less likely with common axes


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
    data = evaluated.seen_from(map_)
    process = gp.fit(data, [gp.first_guess(data)], 50)
    return State(map_, process, _fitted(process, _at_the_top(process), rng))


def _at_the_top(process: Process) -> Mixture:
    """Two narrow components at the two best points."""
    means = process.data.inputs[np.argsort(process.believed())[:-3:-1]]
    sds = np.minimum(0.1, 0.3 * process.lengths)
    return Mixture(np.array([0.5, 0.5]), means, np.tile(sds, (2, 1)))


def _fitted(
    process: Process, start: Mixture, rng: np.random.Generator, penalty: float = 0.0
) -> Fitted:
    mixture = mixture_fit.fit(process, start, rng, rounds=_ROUNDS, penalty=penalty)
    mixture = growth.without(mixture, mixture.weights < _NOTHING)
    return mixture_fit.evaluated(process, mixture, rng)


def refitted(
    state: State, evaluated: Evaluated, rng: np.random.Generator, warming: bool, iteration: int
) -> State:
    """Surrogate and mixture after new evaluations, from where they were."""
    data = evaluated.seen_from(state.map_)
    starts = [state.process.hyperparameters]
    if warming or iteration % 5 == 0:
        starts.append(gp.first_guess(data))
    if not warming and iteration % 5 in (0, 3):
        starts.append(gp.gaussian_guess(data, *state.fitted.mixture.moments()))
    process = gp.fit(data, starts, 30)
    wary = _WARY if warming and process.dimension > MANY else 0.0
    fitted = _fitted(process, state.fitted.mixture, rng, wary)
    if warming or fitted.elbo < data.values.max() - _LOST * process.dimension:
        again = _fitted(process, _at_the_top(process), rng, wary)
        fitted = max(fitted, again, key=lambda fit: fit.elbo - wary * fit.elbo_sd)
    if not warming and state.known is not None:
        fitted = _called_back(process, fitted, state, state.known, rng)
    if not warming and fitted.elbo_sd < _KNOWN and iteration % 2 == 0:
        fitted = _grown(process, fitted, 2 * len(data.values) // 3, rng)
    return State(
        state.map_, process, fitted, fitted.mixture if fitted.elbo_sd < _KNOWN else state.known
    )


def _called_back(
    process: Process, fitted: Fitted, state: State, known: Mixture, rng: np.random.Generator
) -> Fitted:
    """What a mixture may become that went where the surrogate only guesses.

    It is fitted again from where it was known, with a penalty for uncertainty. If the guess
    outweighs that too, it stays there for an iteration: the evaluations then show what is there,
    and the next fit starts from the known mixture as well.
    """
    lured = state.fitted.elbo_sd > _KNOWN
    if fitted.elbo_sd < _KNOWN and not lured:
        return fitted
    back = _fitted(process, known, rng, penalty=_WARY)
    if back.elbo_sd < _KNOWN and (fitted.elbo_sd > _KNOWN or back.elbo > fitted.elbo):
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
    more = _fitted(process, mixture, rng)
    return more if more.elbo > fitted.elbo + _GROWTH_GAIN else fitted


def whitened(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a whitened space, if the evaluations are more likely there; else as it was.

    Both spaces have the same volume, so both processes explain the same values. If one Gaussian is
    worth more than the mixture, the space is whitened by its covariance, else by the mixture's, and
    then every angle of its rotation must gain a nat.
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
    fitted = _fitted(process, space.moved(state.fitted.mixture, state.map_, map_), rng)
    one = _fitted(process, space.as_component(mean, covariance, state.map_, map_), rng)
    known = one.elbo_sd < max(_SURE, fitted.elbo_sd)
    better = one if known and one.elbo > fitted.elbo else fitted
    return State(map_, process, better, better.mixture)


def turned(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a space with common axes, if the mixture is worth more there; else as it was.

    Crossed or bent ridges have no covariance that whitening could use, but along their axes a
    component may be long. Where the target has no curvature, the mixture's covariance counts.
    """
    mixture, covariance = state.fitted.mixture, state.fitted.mixture.moments()[1]
    found = axes.no_wider(axes.precisions(state.process, mixture), covariance)
    to_box = np.linalg.inv(state.map_.rotation * state.map_.scale)
    rotation = axes.common_axes(to_box.T @ found @ to_box, mixture.weights)
    map_ = space.along(state.map_, rotation, covariance)
    back = space.step_between(map_, state.map_)
    gain = axes.lost(found, mixture.weights) - axes.lost(back.T @ found @ back, mixture.weights)
    if gain < _TURN_GAIN:
        return state
    process = _process_in(map_, state, evaluated)
    fitted = _fitted(process, space.moved(mixture, state.map_, map_), rng)
    likely = process.log_likelihood > state.process.log_likelihood - _LIKELIHOOD_LOSS
    better = fitted.elbo - fitted.elbo_sd > state.fitted.elbo
    return State(map_, process, fitted, fitted.mixture) if likely and better else state


def _process_in(map_: Transform, state: State, evaluated: Evaluated) -> Process:
    """The surrogate in another space, fitted from where it was."""
    start = space.moved_hyperparameters(state.process.hyperparameters, state.map_, map_)
    return gp.fit(evaluated.seen_from(map_), [start], 50)


def relearned(state: State, data: Data) -> State:
    """The surrogate fitted again to more values; the mixture as it was."""
    return replace(state, process=gp.fit(data, [state.process.hyperparameters], 30))


def conditioned(state: State, data: Data, rng: np.random.Generator) -> State:
    """The surrogate told of more values, and what the same mixture is worth by it."""
    process = Process.condition(data, state.process.hyperparameters)
    return replace(
        state,
        process=process,
        fitted=mixture_fit.evaluated(process, state.fitted.mixture, rng, _LAST_DRAWS),
    )


def final(state: State, settings: Settings, rng: np.random.Generator) -> State:
    """A last fit, wary of uncertainty: with one component, as many as before or many, as is best.

    For a target that is nearly Gaussian in many dimensions many are worse: there is more to fit.
    The stack is to choose among all of them, so the others stay with a small weight. The ELBO is
    concave in the weights of fixed components: they cost at most that share of what they lack.
    """
    process, mixture = state.process, state.fitted.mixture
    starts = [growth.as_one(mixture), mixture]
    if settings.final_components > mixture.size:
        starts.append(growth.split(mixture, settings.final_components, rng))
    fits = [_wary(process, start, settings, rng, _ROUNDS) for start in starts]
    order = sorted(range(len(fits)), key=lambda n: -fits[n][0])
    start = growth.extended(process, fits[order[0]][1], _MORE, settings.penalty, rng)
    best = _wary(process, start, settings, rng, 3 * _ROUNDS)[1]
    others = [_known_well(process, fits[n][1].mixture) for n in order[1:]]
    union = growth.union(best.mixture, [m for m in others if m is not None], _SHARE)
    return replace(state, fitted=mixture_fit.evaluated(process, union, rng, _LAST_DRAWS))


def _known_well(process: Process, mixture: Mixture) -> Mixture | None:
    """The part of the mixture that the surrogate knows well, if any."""
    doubt = np.sqrt(quadrature.variances(process, mixture.means, mixture.sds)[0]) > _SURE / 2
    return None if doubt.all() else growth.without(mixture, doubt)


def _wary(
    process: Process, start: Mixture, settings: Settings, rng: np.random.Generator, rounds: int
) -> tuple[float, Fitted]:
    """The fit from `start` without the components that the surrogate does not know, and its ELBO
    less the penalty."""
    mixture = mixture_fit.fit(process, start, rng, rounds=rounds, penalty=settings.penalty)
    variance = quadrature.variances(process, mixture.means, mixture.sds)[0]
    unknown = variance > settings.largest_variance
    mixture = growth.without(mixture, unknown | (mixture.weights < 1e-6))
    fitted = mixture_fit.evaluated(process, mixture, rng, _LAST_DRAWS)
    spread = np.sqrt(quadrature.variances(process, mixture.means, mixture.sds)[0])
    worth = fitted.elbo - settings.penalty * float(mixture.weights @ spread)
    return -np.inf if unknown.all() else worth, fitted
