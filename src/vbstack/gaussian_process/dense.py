"""`DenseProcess`: a Gaussian process conditioned on the evaluations of one run, for an engine.

With K = k(X, X) + noise = L Lᵀ and α = K⁻¹(y − m):  f̄(x) = m(x) + k(x, X) α  and
s²(x) = k(x, x) − |L⁻¹ k(X, x)|². One more evaluation adds a row to L (O(n²)).

Where the log density is −inf, at points outside its support, f has no value. A second process o,
for the label 0 (inside) or 1 (outside), learns the support, and f̄ is lowered by 10 o nats: a
mixture then keeps away from the outside, and the step is smooth enough for its gradients.
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
OUTSIDE_NATS = 10.0  # by which f̄ is lowered outside the support; 5 left 4 to 9 % of draws there
LABEL_SCALES, LABEL_NOISES = (0.3, 0.6, 1.2, 2.5, 5.0), (0.003, 0.03, 0.1)


@dataclass(frozen=True)
class DenseProcess:
    """A conditioned process: hyperparameters, lower Cholesky factor of K, and α."""

    data: TrainingData
    hyperparameters: Hyperparameters
    factor: Array
    alpha: Array
    outside: DenseProcess | None = None

    @classmethod
    def condition(cls, data: TrainingData, hyperparameters: Hyperparameters) -> DenseProcess:
        """The process given these evaluations; where K is singular, with more noise."""
        matrix = kernel(hyperparameters, data.inputs, data.inputs)
        for noise in (data.noise_variance * 10.0**power for power in range(12)):
            factor = factorised(matrix.copy(order="F"), noise)
            if factor is not None:
                noisier = replace(data, noise_variance=noise)
                outside = None if data.outside is None else of_labels(data.inputs, data.outside)
                return cls._solved(noisier, hyperparameters, factor, outside)
        raise FloatingPointError(
            f"the kernel matrix of {len(matrix)} points is singular at "
            f"{hyperparameters.vector.tolist()}"
        )

    @classmethod
    def _solved(
        cls,
        data: TrainingData,
        hyperparameters: Hyperparameters,
        factor: Array,
        outside: DenseProcess | None,
    ) -> DenseProcess:
        residual = data.values - hyperparameters.mean(data.inputs)
        alpha = lapack.dpotrs(factor, residual, lower=1)[0]
        return cls(data, hyperparameters, factor, alpha, outside)

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

    def predict(self, points: Array, *, lowered: bool = True) -> tuple[Array, Array]:
        """Mean and variance (m,) of f at points (m, D); `lowered` outside the support."""
        between = kernel(self.hyperparameters, self.data.inputs, points)
        v = solve_triangular(self.factor, between, lower=True, check_finite=False)
        mean = self.hyperparameters.mean(points) + self.alpha @ between
        if lowered and self.outside is not None:
            mean -= OUTSIDE_NATS * np.clip(self.outside.predict(points)[0], 0, 1)
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
        return DenseProcess._solved(data, self.hyperparameters, factor, self.outside)

    def excluding(self, point: Array) -> DenseProcess:
        """The process that knows of one more point outside the support."""
        data = self.data.excluding(point)
        assert data.outside is not None
        return replace(self, data=data, outside=of_labels(data.inputs, data.outside))


def of_labels(inside: Array, outside: Array) -> DenseProcess:
    """The process of the label: 0 at points inside the support, 1 outside, (n, D) and (m, D)."""
    inputs = np.vstack([inside, outside])
    labels = np.repeat([0.0, 1.0], [len(inside), len(outside)])
    spread = np.maximum(inside.std(axis=0), 1e-6) if len(inside) > 2 else np.ones(inputs.shape[1])
    return best_predicting(inputs, labels, spread, LABEL_SCALES)


def best_predicting(
    inputs: Array, labels: Array, spread: Array, scales: tuple[float, ...]
) -> DenseProcess:
    """A process with mean zero for labels (n,), whose lengths are one of `scales` times `spread`.

    That, and its noise, are chosen by how well each label is predicted from the others.
    """
    every = np.ones(len(labels), dtype=bool)
    zero, flat = np.zeros(spread.size), np.full(spread.size, np.inf)
    found = []
    for scale in scales:
        h = Hyperparameters(np.log(scale * spread), float(np.log(0.7)), 0.0, zero, flat)
        for noise in LABEL_NOISES:
            data = TrainingData(inputs, labels, np.full(labels.size, noise))
            found.append(DenseProcess.condition(data, h))
    return max(found, key=lambda process: process.predictive_log_density(every))
