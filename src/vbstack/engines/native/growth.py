"""A mixture with other components: more of them, fewer, or those of two mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.engines.native.diagonal_mixture import DiagonalMixture, log_components
from vbstack.engines.native.mixture_fit import Fitted
from vbstack.engines.native.policy import Policy
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.likelihood import LOG_2PI
from vbstack.gaussian_process.quadrature import expected_log_joints, standard_deviations
from vbstack.numerics.quasi_random import centred_normals

_CANDIDATES = 512  # for components where mass is lacking
_OUTWARD = 2.0  # scales from the mixture's components
_DRAWS = 16  # per candidate; more than dimensions, so that they can be whitened


def split(mixture: DiagonalMixture, size: int, rng: np.random.Generator) -> DiagonalMixture:
    """The mixture with `size` components: heavy ones are halved, again and again."""
    weights, means, sds = (np.array(a) for a in (mixture.weights, mixture.means, mixture.sds))
    while len(weights) < size:
        k = np.argmax(weights * (1 + 0.2 * rng.random(len(weights))))
        step = 0.5 * sds[k] * rng.standard_normal(means.shape[1])
        weights[k] /= 2
        sds[k] *= 0.85
        weights, sds = np.append(weights, weights[k]), np.vstack([sds, sds[k]])
        means = np.vstack([means, means[k] - step])
        means[k] += step
    return DiagonalMixture(weights / weights.sum(), means, sds)


@dataclass(frozen=True)
class _NewComponents:
    """Components around draws of the inflated mixture, and points drawn from each."""

    means: Array  # (n, D)
    sds: Array  # (n, D)
    entropy: Array  # (n,)
    x: Array  # (n · draws, D)

    @classmethod
    def of(
        cls, mixture: DiagonalMixture, low: Array, high: Array, rng: np.random.Generator
    ) -> _NewComponents:
        d = mixture.dimension
        k = rng.integers(mixture.size, size=_CANDIDATES)
        sds = mixture.sds[k]
        away = _OUTWARD * sds * rng.standard_normal((_CANDIDATES, d))
        means = np.clip(mixture.means[k] + away, low, high)
        draws = max(_DRAWS, 2 ** int(np.ceil(np.log2(d + 1))))
        points = centred_normals(_CANDIDATES, draws, d, rng)
        x = (means[:, None] + sds[:, None] * points).reshape(-1, d)
        return cls(means, sds, np.log(sds).sum(axis=1) + 0.5 * d * (LOG_2PI + 1), x)

    def share_of_target(self, process: DenseProcess, elbo: float, penalty: float) -> Array:
        """exp(I_c − β √J_cc + H_c − ELBO): what each would hold of the target, at most all."""
        lower = expected_log_joints(process, self.means, self.sds)[0]
        lower = lower - penalty * standard_deviations(process, self.means, self.sds)
        return np.asarray(np.exp(np.minimum(lower + self.entropy - elbo, 0.0)))

    def share_of_mixture(self, log_q: Array) -> Array:
        """exp(E_c[log q] + H_c): what each holds of the mixture."""
        return np.asarray(np.exp(log_q.reshape(len(self.means), -1).mean(axis=1) + self.entropy))


def extended(
    process: DenseProcess,
    fitted: Fitted,
    count: int,
    policy: Policy,
    rng: np.random.Generator,
) -> DiagonalMixture:
    """The mixture and up to `count` components where it lacks mass, as far as that is known.

    The candidate that lacks most is added with the weight that it lacks, then the next.
    """
    mixture, inputs = fitted.mixture, process.data.inputs
    new = _NewComponents.of(mixture, inputs.min(axis=0), inputs.max(axis=0), rng)
    target = new.share_of_target(process, fitted.elbo, policy.penalty)
    log_q = mixture.log_density(new.x)
    chosen, weights = [], list(mixture.weights)
    for _ in range(count):
        lacking = target - new.share_of_mixture(log_q)
        c = int(np.argmax(lacking))
        if lacking[c] < policy.lacking:
            break
        chosen.append(c)
        weights.append(lacking[c])
        log_c = log_components(new.x, new.means[c : c + 1], new.sds[c : c + 1])[0]
        log_q = np.logaddexp(log_q, np.log(lacking[c]) + log_c)
    return DiagonalMixture(
        np.array(weights) / np.sum(weights),
        np.vstack([mixture.means, new.means[chosen]]),
        np.vstack([mixture.sds, new.sds[chosen]]),
    )


def union(one: DiagonalMixture, other: DiagonalMixture, share: float) -> DiagonalMixture:
    """All components; those of the other hold `share` of the weight together."""
    return DiagonalMixture(
        np.concatenate([one.weights * (1 - share), other.weights * share]),
        np.concatenate([one.means, other.means]),
        np.concatenate([one.sds, other.sds]),
    )


def without(mixture: DiagonalMixture, drop: NDArray[np.bool_]) -> DiagonalMixture:
    """The mixture without some components; at least one stays."""
    keep = ~drop
    if not keep.any():
        keep[np.argmax(mixture.weights)] = True
    weights = mixture.weights[keep]
    return DiagonalMixture(weights / weights.sum(), mixture.means[keep], mixture.sds[keep])
