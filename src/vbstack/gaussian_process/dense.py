"""The surrogate of a running run: a Gaussian process with MAP hyperparameters.

    f ~ GP(m, k),  k(x, x') = σ_f² exp(−½ Σ_d (x_d − x'_d)²/ℓ_d²),
    m(x) = m0 − ½ Σ_d (x_d − c_d)²/ω_d²                        (Acerbi 2018, eqs. 3 and 4)

The hyperparameters are one vector h = (log ℓ, log σ_f, m0, c, log ω), 3D + 2 numbers. They maximise
the log marginal likelihood plus weak Student-t priors. With α = K⁻¹(y − m) and W = ααᵀ − K⁻¹ the
gradient is ½ tr(W ∂K) for the kernel and αᵀ∂m for the mean (Rasmussen & Williams 2006, eq. 5.9).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from vbstack.numerics.lbfgs import climb

Array = NDArray[np.float64]

JITTER = 1e-4  # variance added to every value
_DEPTH = 20.0  # nats per dimension below the best, beyond which values are compressed
_SHAPING = 0.05  # sd of the extra noise per nat that a point lies below the shaping threshold
_TOLERANCE = 2e-5  # of the log posterior: the next evaluations change it by more
_DEGREES = 3.0  # of the Student-t priors
_MEMORY = 10  # curvature pairs of a fit
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Data:
    """What is known: inputs (n, D) in the run's space, values (n,), noise variances (n,), and the
    standard deviations (n,) of noisy values."""

    inputs: Array
    values: Array
    noise: Array
    sds: Array | None = None

    @classmethod
    def of(cls, inputs: Array, values: Array, sds: Array | None = None) -> Data:
        """Points far below the best get noise of their own, so that they do not bend the rest."""
        known = np.zeros(len(values)) if sds is None else sds
        values = compressed(values, float(values.max()), inputs.shape[1])
        depth = values.max() - values - 10 * inputs.shape[1] - 2 * known
        noise = JITTER + np.square(_SHAPING * np.maximum(0, depth)) + known**2
        return cls(inputs, values, noise, sds)

    @property
    def top(self) -> float:
        """The highest value; of noisy ones, what one of them is above with some certainty."""
        return float((self.values if self.sds is None else self.values - 2 * self.sds).max())


def compressed(values: Array, top: float, dimension: int) -> Array:
    """Values with the depth below `top` beyond c = 20 D nats made logarithmic, c (1 + log depth/c).

    A stationary kernel cannot follow both the posterior and a cliff of a million nats; there is no
    mass down there, and all that matters is that it is low.
    """
    limit = _DEPTH * dimension
    depth = top - values
    return np.asarray(
        top - np.where(depth > limit, limit * (1 + np.log(np.maximum(depth, limit) / limit)), depth)
    )


@dataclass(frozen=True)
class Process:
    """A conditioned process: hyperparameters, lower Cholesky factor of K, and α."""

    data: Data
    hyperparameters: Array
    factor: Array
    alpha: Array

    @classmethod
    def condition(cls, data: Data, hyperparameters: Array) -> Process:
        """The process given these evaluations; where K is singular, with more noise."""
        kernel = kernel_between(hyperparameters, data.inputs, data.inputs)
        for noise in (data.noise * 10.0**power for power in range(12)):
            factor, info = lapack.dpotrf(kernel + np.diag(noise), lower=1, clean=1)
            if not info:
                noisier = replace(data, noise=noise)
                return cls._solved(noisier, hyperparameters, factor)
        raise FloatingPointError(
            f"the kernel matrix of {len(kernel)} points is singular at {hyperparameters.tolist()}"
        )

    @classmethod
    def _solved(cls, data: Data, hyperparameters: Array, factor: Array) -> Process:
        residual = data.values - mean_at(hyperparameters, data.inputs)
        alpha = lapack.dpotrs(factor, residual, lower=1)[0]
        return cls(data, hyperparameters, factor, alpha)

    @property
    def dimension(self) -> int:
        return int(self.data.inputs.shape[1])

    @property
    def lengths(self) -> Array:
        return np.exp(self.hyperparameters[: self.dimension])

    @property
    def variance(self) -> float:
        return float(np.exp(2 * self.hyperparameters[self.dimension]))

    @property
    def log_likelihood(self) -> float:
        """Log density of the values under the prior."""
        residual = self.data.values - mean_at(self.hyperparameters, self.data.inputs)
        half_log_determinant = float(np.log(np.diag(self.factor)).sum())
        return -0.5 * float(residual @ self.alpha + len(residual) * _LOG_2PI) - half_log_determinant

    def foreseen(self, which: NDArray[np.bool_]) -> float:
        """Σ log p(y_i | all other values) over some of the values.

        The error is α_i / K⁻¹_ii, its variance 1 / K⁻¹_ii (Rasmussen & Williams 2006, 5.10–5.12).
        """
        precision = np.diag(lapack.dpotri(self.factor, lower=1)[0])[which]
        error = self.alpha[which] / precision
        terms = np.log(precision) - precision * error**2 - _LOG_2PI
        return 0.5 * float(terms.sum())

    def whitened(self, points: Array) -> Array:
        """L⁻¹ k(X, points), (n, m)."""
        kernel = kernel_between(self.hyperparameters, self.data.inputs, points)
        return np.asarray(solve_triangular(self.factor, kernel, lower=True, check_finite=False))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance (m,) of f at points (m, D)."""
        kernel = kernel_between(self.hyperparameters, self.data.inputs, points)
        v = solve_triangular(self.factor, kernel, lower=True, check_finite=False)
        mean = mean_at(self.hyperparameters, points) + self.alpha @ kernel
        return mean, np.maximum(self.variance - np.square(v).sum(axis=0), 1e-12)

    def believed(self) -> Array:
        """What is thought of f at the inputs (n,): the values, or the mean where they are noisy."""
        return self.data.values if self.data.sds is None else self.predict(self.data.inputs)[0]

    def including(self, point: Array, value: float, sd: float = 0.0) -> Process:
        """The process with one more evaluation: one more row of the factor, O(n²)."""
        noise = JITTER + sd**2
        row = self.whitened(point[None])[:, 0]
        pivot = float(np.sqrt(max(self.variance + noise - float(row @ row), JITTER)))
        n = len(row)
        factor = np.zeros((n + 1, n + 1), order="F")
        factor[:n, :n], factor[n, :n], factor[n, n] = self.factor, row, pivot
        data = Data(
            np.vstack([self.data.inputs, point]),
            np.append(self.data.values, value),
            np.append(self.data.noise, noise),
            None if self.data.sds is None else np.append(self.data.sds, sd),
        )
        return Process._solved(data, self.hyperparameters, factor)


@dataclass(frozen=True)
class Priors:
    """Student-t priors of the hyperparameters, and the box they may not leave."""

    centres: Array
    scales: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, data: Data) -> Priors:
        """Weak priors in a space where the plausible box has unit width (Acerbi 2020, app. A)."""
        d = data.inputs.shape[1]
        one = np.ones(d)
        best, spread = data.top, max(1.0, float(np.ptp(data.values)))
        top = data.inputs[np.argsort(data.values)[-max(5, len(data.values) // 5) :]]
        middle = top.mean(axis=0)
        low, high = data.inputs.min(axis=0), data.inputs.max(axis=0)
        width = np.maximum(high - low, 1e-3)
        return cls(
            centres=np.r_[np.log(np.sqrt(d / 6)) * one, np.log(5.0), best, middle, 0 * one],
            scales=np.r_[1.2 * one, 2.0, max(1.0, d), 0.5 * one, 1.0 * one],
            lower=np.r_[np.log(1e-3 * width), -2.0, best - spread, low - width, np.log(0.01) * one],
            upper=np.r_[
                np.log(10 * width), np.log(10 * spread), best + spread, high + width, 4.0 * one
            ],
        )

    def clipped(self, h: Array) -> Array:
        return np.clip(h, self.lower, self.upper)

    def log_density(self, h: Array) -> tuple[float, Array]:
        z = (h - self.centres) / self.scales
        tail = 1 + z**2 / _DEGREES
        value = -0.5 * (_DEGREES + 1) * float(np.log(tail).sum())
        return value, -(_DEGREES + 1) / _DEGREES * z / tail / self.scales


def mean_at(h: Array, points: Array) -> Array:
    """m (m,) at points (m, D)."""
    d = points.shape[1]
    centre, widths = h[d + 2 : 2 * d + 2], np.exp(h[2 * d + 2 :])
    return np.asarray(h[d + 1] - 0.5 * np.square((points - centre) / widths).sum(axis=1))


def kernel_between(h: Array, points: Array, others: Array) -> Array:
    """k (n, m), in an order that LAPACK can use in place."""
    d = points.shape[1]
    a, b = points / np.exp(h[:d]), others / np.exp(h[:d])
    exponent = b @ a.T
    exponent -= 0.5 * np.square(a).sum(axis=1)
    exponent -= 0.5 * np.square(b).sum(axis=1)[:, None]
    np.minimum(exponent, 0, out=exponent)
    np.exp(exponent, out=exponent)
    exponent *= np.exp(2 * h[d])
    return np.asarray(exponent.T)


def log_posterior(h: Array, data: Data, priors: Priors) -> tuple[float, Array]:
    """Log marginal likelihood plus log prior, and its gradient; −inf where K is singular."""
    n, d = data.inputs.shape
    kernel = kernel_between(h, data.inputs, data.inputs)
    noisy = kernel.copy(order="F")
    noisy[np.diag_indices(n)] += data.noise
    factor, info = lapack.dpotrf(noisy, lower=1, overwrite_a=1, clean=1)
    if info:
        return -np.inf, np.zeros_like(h)
    residual = data.values - mean_at(h, data.inputs)
    alpha = lapack.dpotrs(factor, residual, lower=1)[0]
    value = -0.5 * (residual @ alpha + n * _LOG_2PI) - float(np.log(np.diag(factor)).sum())
    inverse = lapack.dpotri(factor, lower=1)[0]
    inverse += np.tril(inverse, -1).T
    weighted = (np.outer(alpha, alpha) - inverse) * kernel
    # Σ_ij S_ij (x_i − x_j)² = 2 (Σ_i s_i x_i² − xᵀ S x), for all dimensions at once.
    scaled = data.inputs / np.exp(h[:d])
    rows = weighted.sum(axis=1)
    d_lengths = rows @ np.square(scaled) - np.einsum("id,id->d", scaled, weighted @ scaled)
    widths = np.exp(h[2 * d + 2 :])
    away = (data.inputs - h[d + 2 : 2 * d + 2]) / widths
    gradient = np.r_[d_lengths, rows.sum(), alpha.sum(), alpha @ away / widths, alpha @ away**2]
    prior, d_prior = priors.log_density(h)
    return value + prior, gradient + d_prior


def fit(data: Data, starts: list[Array], max_iterations: int) -> Process:
    """The process with the best hyperparameters found from these starts."""
    priors = Priors.of(data)

    def objective(h: Array) -> tuple[float, Array]:
        return log_posterior(h, data, priors)

    results = [
        climb(
            objective,
            priors.clipped(start),
            priors.lower,
            priors.upper,
            deque(maxlen=_MEMORY),
            steps=max_iterations,
            tolerance=_TOLERANCE,
            reach=np.inf,
        )
        for start in starts
    ]
    return Process.condition(data, max(results, key=lambda result: result[1])[0])


def first_guess(data: Data) -> Array:
    """Hyperparameters to start from when nothing is known: those of the priors' centres."""
    return Priors.of(data).centres.copy()


def gaussian_guess(data: Data, mean: Array, sds: Array) -> Array:
    """Hyperparameters to start from when the posterior is nearly Gaussian with these moments.

    The mean function is then the log density itself; the kernel has the little that remains.
    """
    return np.r_[np.log(2 * sds), 0.0, data.top, mean, np.log(sds)]


def bowl_guess(data: Data) -> Array:
    """Hyperparameters to start from when all that is known is how values fall off from the best.

    The mean function is a round bowl there: with r² the squared distance from the best point and y
    the depth below it, m = top − r²/(2ω²) suggests ω² = r²/(2y), of which the median is taken.
    """
    best = int(np.argmax(data.values))
    away = np.square(data.inputs - data.inputs[best]).sum(axis=1)
    depth = np.maximum(data.values[best] - data.values, 1e-3)
    others = away > 0
    width = float(np.median(away[others] / (2 * depth[others]))) if others.any() else 1.0
    return gaussian_guess(data, data.inputs[best], np.full(data.inputs.shape[1], np.sqrt(width)))
