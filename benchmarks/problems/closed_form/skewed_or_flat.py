"""Log densities with a short and a long side, a neck, or a flat top."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import gammaln

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.building import GRID, known, unbounded


def skewed() -> BenchmarkProblem:
    shapes = np.array([0.7, 1.0, 2.0, 5.0])
    marginals = [stats.loggamma(shape) for shape in shapes]

    def log_densities(x: Array) -> Array:
        return (shapes * x - np.exp(np.minimum(x, 700.0)) - gammaln(shapes)).sum(axis=1)

    def sample(n: int, rng: np.random.Generator) -> Array:
        return np.log(rng.gamma(shapes, size=(n, 4)))

    grid = np.linspace(-30, 6, GRID)
    reference = known(
        np.array([m.mean() for m in marginals]),
        np.diag([m.var() for m in marginals]),
        np.tile(grid, (4, 1)),
        np.array([m.pdf(grid) for m in marginals]),
        sample,
    )
    return unbounded("skewed", log_densities, sample, reference, np.full(4, 4.0))


def skew_normal() -> BenchmarkProblem:
    """Density 2 φ(z; R) Φ(αᵀz) of z = x / sds; each marginal is skew normal too."""
    d = 6
    index = np.arange(d)
    sds = np.geomspace(0.5, 2.0, d)
    alpha = np.array([4.0, 0.0, -3.0, 0.0, 2.0, 0.0])
    correlation = 0.5 ** np.abs(index[:, None] - index)
    straight = stats.multivariate_normal(np.zeros(d), correlation)
    factor = np.linalg.cholesky(correlation)

    def log_densities(x: Array) -> Array:
        z = x / sds
        skewing = np.log(2) + stats.norm.logcdf(z @ alpha)
        return np.atleast_1d(straight.logpdf(z) + skewing - np.log(sds).sum())

    def sample(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, d)) @ factor.T
        flipped = np.where(z @ alpha > rng.standard_normal(n), 1.0, -1.0)
        return sds * z * flipped[:, None]

    delta = correlation @ alpha / np.sqrt(1 + alpha @ correlation @ alpha)
    mean = np.sqrt(2 / np.pi) * delta
    grids = sds[:, None] * np.linspace(-8, 8, GRID)
    shapes = delta / np.sqrt(1 - delta**2)
    densities = stats.skewnorm.pdf(grids, shapes[:, None], scale=sds[:, None])
    covariance = (correlation - np.outer(mean, mean)) * np.outer(sds, sds)
    reference = known(sds * mean, covariance, grids, densities, sample)
    return unbounded("skew_normal", log_densities, sample, reference, 3 * sds)


def funnel() -> BenchmarkProblem:
    def log_densities(x: Array) -> Array:
        v, rest = x[:, 0], x[:, 1:]
        logs = stats.norm.logpdf(v) + stats.norm.logpdf(rest, scale=np.exp(v / 2)[:, None]).sum(1)
        return np.asarray(logs)

    def sample(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, 3))
        z[:, 1:] *= np.exp(z[:, :1] / 2)
        return z

    v, wide = np.linspace(-8, 8, GRID), np.sinh(np.linspace(-4.5, 4.5, GRID))
    conditional = stats.norm.pdf(wide[:, None], scale=np.exp(v / 2))
    density = np.trapezoid(conditional * stats.norm.pdf(v), v, axis=1)
    reference = known(
        np.zeros(3),
        np.diag([1.0, np.exp(0.5), np.exp(0.5)]),
        np.array([v, wide, wide]),
        np.array([stats.norm.pdf(v), density, density]),
        sample,
    )
    return unbounded("funnel", log_densities, sample, reference, np.full(3, 3.0))


def plateau() -> BenchmarkProblem:
    radius, power = 4.0, 8
    # t = (r/radius)^power is Gamma(2/power) distributed.
    log_norm = np.log(2 * np.pi * radius**2 / power) + gammaln(2 / power)

    def log_densities(x: Array) -> Array:
        squares = np.square(x).sum(axis=1) / radius**2
        return -(squares ** (power // 2)) - log_norm

    def sample(n: int, rng: np.random.Generator) -> Array:
        r = radius * rng.gamma(2 / power, size=n) ** (1 / power)
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.column_stack([r * np.cos(angle), r * np.sin(angle)])

    grid = np.linspace(-6, 6, GRID)
    across = np.linspace(-6, 6, 601)
    squares = (grid[:, None] ** 2 + across**2) / radius**2
    density = np.trapezoid(np.exp(-(squares ** (power // 2)) - log_norm), across, axis=1)
    variance = 0.5 * radius**2 * np.exp(gammaln(4 / power) - gammaln(2 / power))
    reference = known(
        np.zeros(2), variance * np.eye(2), np.tile(grid, (2, 1)), np.tile(density, (2, 1)), sample
    )
    return unbounded("plateau", log_densities, sample, reference, np.full(2, 6.0))
