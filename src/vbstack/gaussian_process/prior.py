"""`Prior`: the prior of a process in any space that an affine map leads to from a run's.

    k(x, x') = σ_f² exp(−½ |W (x − x')|²)         m(x) = m0 − ½ (x − c)ᵀ P (x − c)

with full matrices W (D, D) and P (D, D). A run's own has W = diag(1/ℓ) and P = diag(1/ω²).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.kernel import squared_exponential
from vbstack.runs.transform import Transform


@dataclass(frozen=True)
class Prior:
    """Kernel variance σ_f² and whitener W, height m0, centre c, precision P of the mean."""

    variance: float
    whitener: Array
    height: float
    centre: Array
    precision: Array

    @classmethod
    def of(cls, hyperparameters: Hyperparameters) -> Prior:
        """The prior in the run's own space."""
        return cls(
            variance=hyperparameters.variance,
            whitener=np.diag(np.exp(-hyperparameters.log_lengths)),
            height=hyperparameters.height,
            centre=hyperparameters.centre,
            precision=np.diag(hyperparameters.mean_precision),
        )

    def moved(self, map_: Transform) -> Prior:
        """The same prior in link space, y = centre + A u, of a run whose space u it is given in."""
        inverse = np.linalg.inv(map_.matrix)
        return Prior(
            variance=self.variance,
            whitener=self.whitener @ inverse,
            height=self.height - map_.log_volume,
            centre=map_.centre + map_.matrix @ self.centre,
            precision=inverse.T @ self.precision @ inverse,
        )

    def mean(self, points: Array) -> Array:
        """m (n,) at points (n, D)."""
        away = points - self.centre
        return np.asarray(self.height - 0.5 * np.einsum("kd,de,ke->k", away, self.precision, away))

    def kernel(self, points: Array, others: Array) -> Array:
        """k (n, m) between two sets of points, row by row in memory.

        The origin is moved to the middle of the others.
        """
        v, u = points @ self.whitener.T, others @ self.whitener.T
        origin = u.mean(axis=0)
        return squared_exponential(u - origin, v - origin, self.variance).T
