"""`DiagonalMixture`: the variational posterior of a run, a mixture of diagonal Gaussians."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.gaussian_process.likelihood import LOG_2PI


@dataclass(frozen=True)
class DiagonalMixture:
    """Weights (K,), means (K, D) and standard deviations (K, D) in the run's space."""

    weights: Array
    means: Array
    sds: Array

    @property
    def size(self) -> int:
        return int(self.weights.size)

    @property
    def dimension(self) -> int:
        return int(self.means.shape[1])

    def moments(self) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D)."""
        mean = self.weights @ self.means
        away = self.means - mean
        scatter = (away * self.weights[:, None]).T @ away
        return mean, scatter + np.diag(self.weights @ self.sds**2)

    def log_density(self, x: Array) -> Array:
        """log q (n,) at points (n, D)."""
        logs = log_components(x, self.means, self.sds) + np.log(self.weights)[:, None]
        top = logs.max(axis=0)
        return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))

    def draws(self, n: int, rng: np.random.Generator, inflation: float = 1.0) -> Array:
        k = rng.choice(self.size, n, p=self.weights)
        return self.means[k] + inflation * self.sds[k] * rng.standard_normal((n, self.dimension))


def log_components(x: Array, means: Array, sds: Array) -> Array:
    """log N(x_n; μ_j, σ_j) (K, n), by matrix products around the components' middle."""
    origin = means.mean(axis=0)
    x, means = x - origin, means - origin
    precision = 1 / sds**2
    constant = 0.5 * (means**2 * precision).sum(axis=1) + np.log(sds).sum(axis=1)
    logs = (means * precision) @ x.T
    logs -= (0.5 * precision) @ np.square(x).T
    logs -= (constant + 0.5 * means.shape[1] * LOG_2PI)[:, None]
    return np.asarray(logs)
