"""Stationary Gaussian noise of a recording, its covariance estimated and factored.

cov(y(s), y(t)) = sd² exp(−|s − t|/decay) cos(2π |s − t|/period)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from benchmarks.arrays import Array

FIT_SPACING = 0.5  # ms, of the samples that are fitted
NUGGET = 1e-6  # of the variance, so that the covariance can be factored


@dataclass(frozen=True)
class Noise:
    """Standard deviation (mV), decay time and period (ms)."""

    sd: float
    decay: float
    period: float

    def covariance(self, times: Array) -> Array:
        """Covariance (n, n) of the noise at these times."""
        lags = np.abs(times[:, None] - times)
        return self.sd**2 * (self.correlation(lags) + NUGGET * (lags == 0))

    def correlation(self, lags: Array) -> Array:
        return np.asarray(np.exp(-lags / self.decay) * np.cos(2 * np.pi * lags / self.period))

    def sample(self, times: Array, rng: np.random.Generator) -> Array:
        """One draw of the noise at these times."""
        return cholesky(self.covariance(times), lower=True) @ rng.standard_normal(times.size)

    @classmethod
    def estimate(cls, pieces: list[Array], spacing: float) -> Noise:
        """Maximum likelihood from quiet pieces of a recording, taken as independent."""
        stride = max(1, round(FIT_SPACING / spacing))
        centre = np.concatenate(pieces).mean()
        samples = [piece[::stride] - centre for piece in pieces]
        step = stride * spacing

        def loss(logs: Array) -> float:
            noise = cls(*np.exp(logs))
            lengths = {sample.size for sample in samples}
            factored = {n: Whitener.of(noise, step * np.arange(n)) for n in lengths}
            return -sum(factored[sample.size].log_density(sample) for sample in samples)

        start = np.log([np.concatenate(samples).std(), 15.0, 80.0])
        found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3})
        # Four digits: the same on every machine, whatever its rounding errors.
        return cls(*(float(f"{value:.4g}") for value in np.exp(found.x)))


@dataclass(frozen=True)
class Whitener:
    """The factor of a covariance: log density of a residual (n,) under the noise."""

    factor: Array

    @classmethod
    def of(cls, noise: Noise, times: Array) -> Whitener:
        return cls(cholesky(noise.covariance(times), lower=True))

    def whitened(self, residual: Array) -> Array:
        return solve_triangular(self.factor, residual, lower=True, check_finite=False)

    def log_density(self, residual: Array) -> float:
        white = self.whitened(residual)
        half_log_det = np.log(np.diag(self.factor)).sum()
        return float(-0.5 * white @ white - half_log_det - 0.5 * white.size * np.log(2 * np.pi))
