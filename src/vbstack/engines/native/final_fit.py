"""The final fit of a run: the mixture that it reports.

It is penalised for uncertainty. One component, as many as before, and many (`final_components`) are
tried; the best fit gets up to ten more components where mass is lacking and is fitted at length.
The other fits' components are kept with a small weight, so a run with the default of 50 reports up
to 50 + 10 + 50 + 1 components.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.iteration import LAST_DRAWS, ROUNDS, State
from vbstack.engines.native.mixture_fit import Fitted
from vbstack.engines.native.policy import Policy
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.quadrature import standard_deviations, variances

_WELL_KNOWN = 0.05  # sd in nats of a component's I_k


def final(state: State, policy: Policy, rng: np.random.Generator) -> State:
    """The state with the last fit.

    For a target that is nearly Gaussian in many dimensions many components are worse: there is more
    to fit. The stack is to choose among all of them, so the others stay with a small weight. The
    ELBO is concave in the weights of fixed components: they cost at most that share of what they
    lack.
    """
    process, mixture = state.process, state.fitted.mixture
    starts = [growth.as_one(mixture), mixture] if policy.final_single else [mixture]
    if policy.final_components > mixture.size:
        starts.append(growth.split(mixture, policy.final_components, rng))
    fits = [_penalised(process, start, policy, rng, ROUNDS) for start in starts]
    best, *others = sorted(fits, key=lambda fit: -fit[0])
    start = growth.extended(process, best[1], policy.final_growth, policy.penalty, policy, rng)
    last = _penalised(process, start, policy, rng, 3 * ROUNDS)[1]
    known = [_well_known(process, other.mixture) for _, other in others if policy.runners_up]
    union = growth.union(
        last.mixture, [part for part in known if part is not None], policy.runners_up
    )
    return replace(state, fitted=mixture_fit.evaluated(process, union, rng, LAST_DRAWS))


def _penalised(
    process: DenseProcess,
    start: DiagonalMixture,
    policy: Policy,
    rng: np.random.Generator,
    rounds: int,
) -> tuple[float, Fitted]:
    """The fit from `start` without the components that the surrogate does not know, and its ELBO
    less the penalty."""
    mixture = mixture_fit.fit(
        process, start, rng, rounds=rounds, penalty=policy.penalty, finer=policy.finer
    )
    variance = variances(process, mixture.means, mixture.sds)[0]
    unreliable = variance > policy.largest_variance
    mixture = growth.without(mixture, unreliable | (mixture.weights < 1e-6))
    fitted = mixture_fit.evaluated(process, mixture, rng, LAST_DRAWS)
    spread = standard_deviations(process, mixture.means, mixture.sds)
    worth = fitted.elbo - policy.penalty * float(mixture.weights @ spread)
    return -np.inf if unreliable.all() else worth, fitted


def _well_known(process: DenseProcess, mixture: DiagonalMixture) -> DiagonalMixture | None:
    """The part of the mixture that the surrogate knows well, if any."""
    doubt = standard_deviations(process, mixture.means, mixture.sds) > _WELL_KNOWN
    return None if doubt.all() else growth.without(mixture, doubt)
