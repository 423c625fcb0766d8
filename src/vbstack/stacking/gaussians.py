"""`Gaussians`: a mixture with full covariances in link space; merging and splitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array, Index

_AWAY = 0.6  # of a component's sd: how far its halves lie from its centre; they keep its moments


@dataclass(frozen=True)
class Gaussians:
    """Weights (K,) that sum to one, centres (K, D) and factors F_j (K, D, D) of F_j F_jᵀ."""

    weights: Array
    centres: Array
    factors: Array

    @property
    def size(self) -> int:
        return int(self.weights.size)

    @property
    def dimension(self) -> int:
        return int(self.centres.shape[1])

    @property
    def covariances(self) -> Array:
        return np.asarray(self.factors @ self.factors.transpose(0, 2, 1))

    def chosen(self, keep: Index) -> Gaussians:
        """These components alone."""
        weights = self.weights[keep]
        return Gaussians(weights / weights.sum(), self.centres[keep], self.factors[keep])

    def split(self, which: Index, directions: Array) -> Gaussians:
        """The mixture with each of these components replaced by two halves.

        With directions e (n, D) of length one the halves lie at ± 0.6 F e and are 0.8 as wide in
        that direction, so that together they have the component's mean and covariance.
        """
        away = _AWAY * (self.factors[which] @ directions[:, :, None])[:, :, 0]
        narrow = np.eye(self.dimension) - (1 - np.sqrt(1 - _AWAY**2)) * (
            directions[:, :, None] * directions[:, None, :]
        )
        others = np.delete(np.arange(self.size), which)
        half, factors = 0.5 * self.weights[which], self.factors[which] @ narrow
        return Gaussians(
            np.concatenate([self.weights[others], half, half]),
            np.concatenate(
                [self.centres[others], self.centres[which] + away, self.centres[which] - away]
            ),
            np.concatenate([self.factors[others], factors, factors]),
        )


def merged(parts: Gaussians, size: int) -> Gaussians:
    """At most `size` Gaussians like these: pairs are replaced by one with the pair's moments.

    Always the pair that costs least by Runnalls' bound (2007) of the divergence from the mixture:
    ½ [(w_i + w_j) log |C| − w_i log |C_i| − w_j log |C_j|], C the covariance of the pair.
    """
    weights, centres = parts.weights.copy(), parts.centres.copy()
    covariances = parts.covariances
    logs = np.linalg.slogdet(covariances)[1]

    def joined(i: int, others: Index) -> tuple[Array, Array]:
        """The costs (n,) of joining i with others, and the covariances."""
        one, two = weights[i], weights[others]
        share, gap = one / (one + two), centres[others] - centres[i]
        within = share[:, None, None] * covariances[i]
        within = within + (1 - share)[:, None, None] * covariances[others]
        between = (share * (1 - share))[:, None, None] * gap[:, :, None] * gap[:, None, :]
        log_volume = np.linalg.slogdet(within + between)[1]
        cost = 0.5 * ((one + two) * log_volume - one * logs[i] - two * logs[others])
        return cost, within + between

    costs = np.full((parts.size, parts.size), np.inf)  # of i < j
    for i in range(parts.size - 1):
        later = np.arange(i + 1, parts.size)
        costs[i, later] = joined(i, later)[0]
    alive = np.arange(parts.size)
    while alive.size > size:
        i, j = divmod(int(np.argmin(costs)), parts.size)
        covariances[i] = joined(i, np.array([j]))[1][0]
        both = weights[i] + weights[j]
        centres[i] = (weights[i] * centres[i] + weights[j] * centres[j]) / both
        weights[i], logs[i] = both, np.linalg.slogdet(covariances[i])[1]
        alive = alive[alive != j]
        costs[j], costs[:, j] = np.inf, np.inf
        others = alive[alive != i]
        costs[np.minimum(others, i), np.maximum(others, i)] = joined(i, others)[0]
    factors = np.asarray(np.linalg.cholesky(covariances[alive]), dtype=float)
    return Gaussians(weights[alive] / weights[alive].sum(), centres[alive], factors)
