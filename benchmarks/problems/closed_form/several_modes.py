"""Mixtures of two or three Gaussians."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.building import GRID, known, unbounded


def two_modes() -> BenchmarkProblem:
    shares, sds = np.array([0.3, 0.7]), np.array([0.5, 1.0])
    means = np.array([[-1.5, -1.5, -1.5, -1.0, 0.0], [1.5, 1.5, 1.5, 1.0, 0.0]])

    def log_densities(x: Array) -> Array:
        away = (x[:, None] - means) / sds[:, None]
        logs = stats.norm.logpdf(away).sum(axis=2) - 5 * np.log(sds) + np.log(shares)
        return np.logaddexp(logs[:, 0], logs[:, 1])

    def sample(n: int, rng: np.random.Generator) -> Array:
        k = rng.choice(2, n, p=shares)
        return means[k] + sds[k, None] * rng.standard_normal((n, 5))

    grid = np.linspace(-7, 7, GRID)
    mean = shares @ means
    between = (means - mean).T @ (shares[:, None] * (means - mean))
    reference = known(
        mean,
        between + float(shares @ sds**2) * np.eye(5),
        np.tile(grid, (5, 1)),
        np.array([shares @ stats.norm.pdf(grid, m[:, None], sds[:, None]) for m in means.T]),
        sample,
    )
    return unbounded("two_modes", log_densities, sample, reference, np.full(5, 4.0))


def unequal() -> BenchmarkProblem:
    weights = np.array([0.6, 0.3, 0.1])
    means = np.array([[0.0, 0.0, 0.0, 0.0], [2.5, 1.0, -1.0, 0.0], [-1.0, 2.5, 1.0, 1.0]])
    sds = np.array([[1.0, 0.7, 1.0, 0.5], [0.5, 1.0, 0.6, 0.5], [0.7, 0.4, 0.5, 0.8]])

    def log_densities(x: Array) -> Array:
        parts = stats.norm.logpdf(x[:, None], means, sds).sum(axis=2) + np.log(weights)
        return np.asarray(logsumexp(parts, axis=1))

    def sample(n: int, rng: np.random.Generator) -> Array:
        k = rng.choice(3, n, p=weights)
        return means[k] + sds[k] * rng.standard_normal((n, 4))

    mean = weights @ means
    covariance = (weights[:, None] * (means - mean)).T @ (means - mean)
    covariance += np.diag(weights @ sds**2)
    grid = np.linspace(-8, 8, GRID)
    densities = np.einsum(
        "k,kdg->dg", weights, stats.norm.pdf(grid, means[..., None], sds[..., None])
    )
    reference = known(mean, covariance, np.tile(grid, (4, 1)), densities, sample)
    return unbounded("unequal", log_densities, sample, reference, np.full(4, 4.0))


def cross() -> BenchmarkProblem:
    sds, slant = np.array([2.0, 2.0, 1.0]), 0.95
    factors = []
    for correlation in (slant, -slant):
        bars = np.eye(3)
        bars[0, 1] = bars[1, 0] = correlation
        factors.append(np.linalg.cholesky(bars * np.outer(sds, sds)))

    def log_densities(x: Array) -> Array:
        bars = [stats.multivariate_normal(np.zeros(3), f @ f.T).logpdf(x) for f in factors]
        return np.asarray(np.logaddexp(*bars).reshape(len(x)) - np.log(2))

    def sample(n: int, rng: np.random.Generator) -> Array:
        return np.einsum(
            "nij,nj->ni", np.array(factors)[rng.integers(2, size=n)], rng.standard_normal((n, 3))
        )

    grids = sds[:, None] * np.linspace(-8, 8, GRID)
    densities = stats.norm.pdf(grids, scale=sds[:, None])
    reference = known(np.zeros(3), np.diag(sds**2), grids, densities, sample)
    return unbounded("cross", log_densities, sample, reference, np.array([5.0, 5.0, 3.0]))
