"""The final fit of a run: the mixture that it reports.

It is penalised for uncertainty. As many components as before and many (`final_components`) are
tried; the better fit gets up to ten more where mass is lacking, and is fitted at length.
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


def final(state: State, policy: Policy, rng: np.random.Generator) -> State:
    """The state with the last fit."""
    process, mixture = state.process, state.fitted.mixture
    starts = [mixture]
    if policy.final_components > mixture.size:
        starts.append(growth.split(mixture, policy.final_components, rng))
    fits = [_penalised(process, start, policy, rng, ROUNDS) for start in starts]
    best = max(fits, key=lambda fit: fit[0])[1]
    start = growth.extended(process, best, policy.final_growth, policy, rng)
    return replace(state, fitted=_penalised(process, start, policy, rng, 3 * ROUNDS)[1])


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
