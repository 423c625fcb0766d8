"""`DenseProcess`: a Gaussian process conditioned on the evaluations of one run, for an engine.

With K = k(X, X) + noise = L Lᵀ and α = K⁻¹(y − m):  f̄(x) = m(x) + k(x, X) α  and
s²(x) = k(x, x) − |L⁻¹ k(X, x)|². One more evaluation adds a row to L (O(n²)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from vbstack.arrays import Array
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.kernel import kernel
from vbstack.gaussian_process.likelihood import LOG_2PI, factorised, log_likelihood
from vbstack.gaussian_process.training_data import TrainingData

JITTER = 1e-4  # variance added to every value


@dataclass(frozen=True)
class DenseProcess:
    """A conditioned process: hyperparameters, lower Cholesky factor of K, and α."""

    data: TrainingData
    hyperparameters: Hyperparameters
    factor: Array
    alpha: Array

    @classmethod
    def condition(cls, data: TrainingData, hyperparameters: Hyperparameters) -> DenseProcess:
        """The process given these evaluations; where K is singular, with more noise."""
        matrix = kernel(hyperparameters, data.inputs, data.inputs)
        for noise in (data.noise_variance * 10.0**power for power in range(12)):
            factor = factorised(matrix.copy(order="F"), noise)
            if factor is not None:
                noisier = replace(data, noise_variance=noise)
                return cls._solved(noisier, hyperparameters, factor)
        raise FloatingPointError(
            f"the kernel matrix of {len(matrix)} points is singular at "
            f"{hyperparameters.vector.tolist()}"
        )

    @classmethod
    def _solved(
        cls, data: TrainingData, hyperparameters: Hyperparameters, factor: Array
    ) -> DenseProcess:
        residual = data.values - hyperparameters.mean(data.inputs)
        alpha = lapack.dpotrs(factor, residual, lower=1)[0]
        return cls(data, hyperparameters, factor, alpha)

    @property
    def dimension(self) -> int:
        return self.data.dimension

    @property
    def log_likelihood(self) -> float:
        """Log density of the values under the prior."""
        residual = self.data.values - self.hyperparameters.mean(self.data.inputs)
        return log_likelihood(self.factor, residual, self.alpha)

    def predictive_log_density(self, which: NDArray[np.bool_]) -> float:
        """Σ log p(y_i | all other values) over some of the values: leave one out.

        The error is α_i / K⁻¹_ii, its variance 1 / K⁻¹_ii (Rasmussen & Williams 2006, 5.10–5.12).
        """
        precision = np.diag(lapack.dpotri(self.factor, lower=1)[0])[which]
        error = self.alpha[which] / precision
        terms = np.log(precision) - precision * error**2 - LOG_2PI
        return 0.5 * float(terms.sum())

    def whitened(self, points: Array) -> Array:
        """L⁻¹ k(X, points), (n, m)."""
        between = kernel(self.hyperparameters, self.data.inputs, points)
        return np.asarray(solve_triangular(self.factor, between, lower=True, check_finite=False))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance (m,) of f at points (m, D)."""
        between = kernel(self.hyperparameters, self.data.inputs, points)
        v = solve_triangular(self.factor, between, lower=True, check_finite=False)
        mean = self.hyperparameters.mean(points) + self.alpha @ between
        return mean, np.maximum(self.hyperparameters.variance - np.square(v).sum(axis=0), 1e-12)

    def estimates(self) -> Array:
        """f at the inputs (n,) as far as it is known: the values, or f̄ where they are noisy."""
        return self.data.values if self.data.sds is None else self.predict(self.data.inputs)[0]

    def including(self, point: Array, value: float, sd: float = 0.0) -> DenseProcess:
        """The process with one more evaluation: one more row of the factor, O(n²)."""
        noise = JITTER + sd**2
        row = self.whitened(point[None])[:, 0]
        unknown = self.hyperparameters.variance + noise - float(row @ row)
        pivot = float(np.sqrt(max(unknown, JITTER)))
        n = len(row)
        factor = np.zeros((n + 1, n + 1), order="F")
        factor[:n, :n], factor[n, :n], factor[n, n] = self.factor, row, pivot
        data = self.data.including(point, value, noise, sd)
        return DenseProcess._solved(data, self.hyperparameters, factor)
