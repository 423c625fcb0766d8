"""The last fit of a run: the mixture that it reports.

It is wary of uncertainty and may have more components than those before. Several are tried: one
component, as many as before, many; and, in many dimensions, all that along the parameters' own axes
too, if the run had left them. The one with the highest ELBO less the penalty is fitted at length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbstack.engines.native import growth, mixture_fit, moves, quadrature
from vbstack.engines.native.gp import Process
from vbstack.engines.native.mixture_fit import Fitted, Mixture
from vbstack.engines.native.settings import MANY, Settings
from vbstack.engines.native.states import LAST_DRAWS, ROUNDS, Evaluated, State

_MORE = 10  # components that it may add where mass is lacking
_SHARE = 0.1  # weight of the components that it likes less, for the stack to choose
_HOPE = 1.0  # nats by which a space may be worse before the fit
_KNOWN_WELL = 0.05  # sd in nats of a component's I_k
_FINER = 4  # times as many points for the entropy, in many dimensions


@dataclass(frozen=True)
class _Try:
    """A state with a first fit, and its ELBO less the penalty."""

    state: State
    worth: float

    @property
    def fitted(self) -> Fitted:
        return self.state.fitted


def final(
    state: State, evaluated: Evaluated, settings: Settings, rng: np.random.Generator
) -> State:
    """The state with the last fit.

    For a target that is nearly Gaussian in many dimensions many components are worse: there is more
    to fit. The stack is to choose among all of them, so the others stay with a small weight. The
    ELBO is concave in the weights of fixed components: they cost at most that share of what they
    lack.
    """
    tries = _tries(state, settings, rng)
    straight = state
    if state.process.dimension > MANY:
        straight = moves.straightened(state, evaluated, rng)
    if straight is not state and straight.fitted.elbo > state.fitted.elbo - _HOPE:
        tries = max(tries, _tries(straight, settings, rng), key=lambda found: found[0].worth)
    best, *others = tries
    process = best.state.process
    start = growth.extended(process, best.fitted, _MORE, settings.penalty, rng)
    last = _wary(best.state, start, settings, rng, 3 * ROUNDS).fitted.mixture
    known = [_known_well(process, other.fitted.mixture) for other in others]
    union = growth.union(last, [part for part in known if part is not None], _SHARE)
    return replace(best.state, fitted=mixture_fit.evaluated(process, union, rng, LAST_DRAWS))


def _tries(state: State, settings: Settings, rng: np.random.Generator) -> list[_Try]:
    """Short fits with different numbers of components, the best first."""
    mixture = state.fitted.mixture
    starts = [growth.as_one(mixture), mixture]
    if settings.final_components > mixture.size:
        starts.append(growth.split(mixture, settings.final_components, rng))
    found = [_wary(state, start, settings, rng, ROUNDS) for start in starts]
    return sorted(found, key=lambda one: -one.worth)


def _wary(
    state: State, start: Mixture, settings: Settings, rng: np.random.Generator, rounds: int
) -> _Try:
    """The fit from `start` without the components that the surrogate does not know."""
    process = state.process
    finer = _FINER if process.dimension > MANY else 1
    mixture = mixture_fit.fit(
        process, start, rng, rounds=rounds, penalty=settings.penalty, finer=finer
    )
    variance = quadrature.variances(process, mixture.means, mixture.sds)[0]
    unknown = variance > settings.largest_variance
    mixture = growth.without(mixture, unknown | (mixture.weights < 1e-6))
    fitted = mixture_fit.evaluated(process, mixture, rng, LAST_DRAWS)
    spread = np.sqrt(quadrature.variances(process, mixture.means, mixture.sds)[0])
    worth = fitted.elbo - settings.penalty * float(mixture.weights @ spread)
    return _Try(replace(state, fitted=fitted), -np.inf if unknown.all() else worth)


def _known_well(process: Process, mixture: Mixture) -> Mixture | None:
    """The part of the mixture that the surrogate knows well, if any."""
    doubt = np.sqrt(quadrature.variances(process, mixture.means, mixture.sds)[0]) > _KNOWN_WELL
    return None if doubt.all() else growth.without(mixture, doubt)
