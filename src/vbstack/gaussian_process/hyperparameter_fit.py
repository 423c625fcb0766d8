"""The surrogate of a running run: a dense process with the hyperparameters of highest posterior.

They maximise the log marginal likelihood plus weak Student-t priors. With α = K⁻¹(y − m) and
W = ααᵀ − K⁻¹ the gradient is ½ tr(W ∂K) for the kernel and αᵀ∂m for the mean (Rasmussen &
Williams 2006, eq. 5.9).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from vbstack.arrays import Array
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.kernel import kernel
from vbstack.gaussian_process.likelihood import factorised, log_likelihood
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.numerics.lbfgs import climb

_TOLERANCE = 2e-5  # of the log posterior: the next evaluations change it by more
_DEGREES = 3.0  # of the Student-t priors
_MEMORY = 10  # curvature pairs of a fit


@dataclass(frozen=True)
class Hyperpriors:
    """Student-t priors of the hyperparameters' vector, and the box that it may not leave."""

    centres: Array
    scales: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, data: TrainingData) -> Hyperpriors:
        """Weak priors in a space where the plausible box has unit width (Acerbi 2020, app. A)."""
        d = data.dimension
        one = np.ones(d)
        best, spread = data.top, max(1.0, float(np.ptp(data.values)))
        top = data.inputs[np.argsort(data.values)[-max(5, len(data.values) // 5) :]]
        middle = top.mean(axis=0)
        low, high = data.inputs.min(axis=0), data.inputs.max(axis=0)
        width = np.maximum(high - low, 1e-3)

        def vector(lengths: Array, output: float, height: float, c: Array, widths: Array) -> Array:
            return Hyperparameters(lengths, output, height, c, widths).vector

        return cls(
            centres=vector(np.log(np.sqrt(d / 6)) * one, float(np.log(5.0)), best, middle, 0 * one),
            scales=vector(1.2 * one, 2.0, max(1.0, d), 0.5 * one, 1.0 * one),
            lower=vector(
                np.log(1e-3 * width), -2.0, best - spread, low - width, np.log(0.01) * one
            ),
            upper=vector(
                np.log(10 * width),
                float(np.log(10 * spread)),
                best + spread,
                high + width,
                4.0 * one,
            ),
        )

    def clipped(self, vector: Array) -> Array:
        return np.clip(vector, self.lower, self.upper)

    def log_density(self, vector: Array) -> tuple[float, Array]:
        """Up to a constant, and its gradient."""
        z = (vector - self.centres) / self.scales
        tail = 1 + z**2 / _DEGREES
        value = -0.5 * (_DEGREES + 1) * float(np.log(tail).sum())
        return value, -(_DEGREES + 1) / _DEGREES * z / tail / self.scales


def log_posterior(
    vector: Array, data: TrainingData, hyperpriors: Hyperpriors
) -> tuple[float, Array]:
    """Log marginal likelihood plus log prior, and its gradient; −inf where K is singular."""
    h = Hyperparameters.from_vector(vector)
    between = kernel(h, data.inputs, data.inputs)
    factor = factorised(between.copy(order="F"), data.noise_variance)
    if factor is None:
        return -np.inf, np.zeros_like(vector)
    residual = data.values - h.mean(data.inputs)
    alpha = lapack.dpotrs(factor, residual, lower=1)[0]
    value = log_likelihood(factor, residual, alpha)
    inverse = lapack.dpotri(factor, lower=1)[0]
    inverse += np.tril(inverse, -1).T
    weighted = (np.outer(alpha, alpha) - inverse) * between
    # Σ_ij S_ij (x_i − x_j)² = 2 (Σ_i s_i x_i² − xᵀ S x), for all dimensions at once.
    scaled = data.inputs / h.lengths
    rows = weighted.sum(axis=1)
    away = (data.inputs - h.centre) / h.widths
    gradient = Hyperparameters(
        log_lengths=rows @ np.square(scaled) - np.einsum("id,id->d", scaled, weighted @ scaled),
        log_output=rows.sum(),
        height=alpha.sum(),
        centre=alpha @ away / h.widths,
        log_widths=alpha @ away**2,
    ).vector
    prior, d_prior = hyperpriors.log_density(vector)
    return value + prior, gradient + d_prior


def fit(data: TrainingData, starts: list[Hyperparameters], max_iterations: int) -> DenseProcess:
    """The process with the best hyperparameters found from these starts."""
    hyperpriors = Hyperpriors.of(data)

    def objective(vector: Array) -> tuple[float, Array]:
        return log_posterior(vector, data, hyperpriors)

    results = [
        climb(
            objective,
            hyperpriors.clipped(start.vector),
            hyperpriors.lower,
            hyperpriors.upper,
            deque(maxlen=_MEMORY),
            steps=max_iterations,
            tolerance=_TOLERANCE,
            reach=np.inf,
        )
        for start in starts
    ]
    best = max(results, key=lambda result: result[1])[0]
    return DenseProcess.condition(data, Hyperparameters.from_vector(best))


def first_guess(data: TrainingData) -> Hyperparameters:
    """Hyperparameters to start from when nothing is known: those of the priors' centres."""
    return Hyperparameters.from_vector(Hyperpriors.of(data).centres.copy())


def gaussian_guess(data: TrainingData, mean: Array, sds: Array) -> Hyperparameters:
    """Hyperparameters to start from when the posterior is nearly Gaussian with these moments.

    The mean function is then the log density itself; the kernel has the little that remains.
    """
    return Hyperparameters(np.log(2 * sds), 0.0, data.top, mean, np.log(sds))


def bowl_guess(data: TrainingData) -> Hyperparameters:
    """Hyperparameters to start from when all that is known is how values fall off from the best.

    The mean function is a round bowl there: with r² the squared distance from the best point and y
    the depth below it, m = top − r²/(2ω²) suggests ω² = r²/(2y), of which the median is taken.
    """
    best = int(np.argmax(data.values))
    away = np.square(data.inputs - data.inputs[best]).sum(axis=1)
    depth = np.maximum(data.values[best] - data.values, 1e-3)
    others = away > 0
    width = float(np.median(away[others] / (2 * depth[others]))) if others.any() else 1.0
    return gaussian_guess(data, data.inputs[best], np.full(data.dimension, np.sqrt(width)))
