"""The final fit of a run: the mixture that it reports, penalised for uncertainty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.iteration import LAST_DRAWS, ROUNDS, State
from vbstack.engines.native.policy import Policy
from vbstack.gaussian_process.quadrature import variances


def final(state: State, policy: Policy, rng: np.random.Generator) -> State:
    """The state with a long fit, of more components where mass is lacking; those that the surrogate
    does not know are left out."""
    process = state.process
    more = max(0, policy.final_components - state.fitted.mixture.size)
    start = growth.extended(process, state.fitted, more, policy, rng)
    mixture = mixture_fit.fit(
        process, start, rng, rounds=3 * ROUNDS, penalty=policy.penalty, finer=policy.finer
    )
    unknown = variances(process, mixture.means, mixture.sds)[0] > policy.largest_variance
    mixture = growth.without(mixture, unknown | (mixture.weights < 1e-6))
    return replace(state, fitted=mixture_fit.evaluated(process, mixture, rng, LAST_DRAWS))
