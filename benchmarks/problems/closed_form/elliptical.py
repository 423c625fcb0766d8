"""Elliptical log densities: Gaussian, and with heavier tails."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import kve

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.building import GRID, known, unbounded


def gaussian(dimension: int) -> BenchmarkProblem:
    index = np.arange(dimension)
    sds = np.geomspace(0.3, 3.0, dimension)
    covariance = 0.8 ** np.abs(index[:, None] - index) * np.outer(sds, sds)
    mean = np.linspace(-1.0, 1.0, dimension)
    target = stats.multivariate_normal(mean, covariance)
    grids = mean[:, None] + sds[:, None] * np.linspace(-8, 8, GRID)
    densities = stats.norm.pdf(grids, mean[:, None], sds[:, None])
    factor = np.linalg.cholesky(covariance)

    def sample(n: int, rng: np.random.Generator) -> Array:
        return mean + rng.standard_normal((n, dimension)) @ factor.T

    return unbounded(
        f"gaussian{dimension}",
        lambda x: np.atleast_1d(target.logpdf(x)),
        sample,
        known(mean, covariance, grids, densities, sample),
        np.full(dimension, 6.0),
    )


def student_t(dimension: int = 3, degrees: float = 4.0) -> BenchmarkProblem:
    shape = 0.6 + 0.4 * np.eye(dimension)
    target = stats.multivariate_t(np.zeros(dimension), shape, degrees)
    factor = np.linalg.cholesky(shape)

    def sample(n: int, rng: np.random.Generator) -> Array:
        scale = np.sqrt(degrees / rng.chisquare(degrees, n))
        return scale[:, None] * (rng.standard_normal((n, dimension)) @ factor.T)

    grid = np.sinh(np.linspace(-5, 5, GRID))
    reference = known(
        np.zeros(dimension),
        shape * degrees / (degrees - 2),
        np.tile(grid, (dimension, 1)),
        np.tile(stats.t.pdf(grid, degrees), (dimension, 1)),
        sample,
    )
    return unbounded(
        "student_t" if dimension == 3 else f"student_t{dimension}",
        lambda x: np.atleast_1d(target.logpdf(x)),
        sample,
        reference,
        np.full(dimension, 4.0),
    )


def contaminated() -> BenchmarkProblem:
    d, scales, weights = 5, np.array([1.0, 2.5]), np.array([0.8, 0.2])
    index = np.arange(d)
    covariance = 0.5 ** np.abs(index[:, None] - index)
    narrow = stats.multivariate_normal(np.zeros(d), covariance)

    def log_densities(x: Array) -> Array:
        parts = [
            narrow.logpdf(x / s) - d * np.log(s) + np.log(w)
            for s, w in zip(scales, weights, strict=True)
        ]
        return np.asarray(np.logaddexp(*parts)).reshape(len(x))

    def sample(n: int, rng: np.random.Generator) -> Array:
        draws = rng.multivariate_normal(np.zeros(d), covariance, n)
        return draws * scales[rng.choice(2, n, p=weights)][:, None]

    grid = np.linspace(-20, 20, GRID)
    density = weights @ stats.norm.pdf(grid, scale=scales[:, None])
    reference = known(
        np.zeros(d),
        covariance * float(weights @ scales**2),
        np.tile(grid, (d, 1)),
        np.tile(density, (d, 1)),
        sample,
    )
    return unbounded("contaminated", log_densities, sample, reference, np.full(d, 4.0))


def hyperbolic() -> BenchmarkProblem:
    """x = √V z with z ~ N(0, S), V ~ inverse Gaussian with mean 1 and shape 1.

    With q = √(1 + xᵀS⁻¹x) the density is 2 e |S|^−½ (2πq)^−(d+1)/2 K_(d+1)/2(q).
    """
    d = 6
    index = np.arange(d)
    sds = np.geomspace(0.5, 2.0, d)
    shape = 0.6 ** np.abs(index[:, None] - index) * np.outer(sds, sds)
    factor = np.linalg.cholesky(shape)
    log_norm = np.log(2) + 1 - 0.5 * (d + 1) * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()

    def log_densities(x: Array) -> Array:
        q = np.sqrt(1 + np.square(np.linalg.solve(factor, x.T)).sum(axis=0))
        order = 0.5 * (d + 1)
        return np.asarray(log_norm - order * np.log(q) + np.log(kve(order, q)) - q)

    def sample(n: int, rng: np.random.Generator) -> Array:
        scale = np.sqrt(rng.wald(1.0, 1.0, n))
        return scale[:, None] * (rng.standard_normal((n, d)) @ factor.T)

    grids = sds[:, None] * np.linspace(-15, 15, GRID)
    densities = stats.norminvgauss.pdf(grids, 1.0, 0.0, scale=sds[:, None])
    reference = known(np.zeros(d), shape, grids, densities, sample)
    return unbounded("hyperbolic", log_densities, sample, reference, 3 * sds)
