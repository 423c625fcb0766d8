"""Log densities within hard bounds, most with mass at one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.building import GRID, in_unit_cube, known


def at_a_bound() -> BenchmarkProblem:
    marginals = [stats.beta(1, 4), stats.beta(5, 1), stats.beta(2, 2)]

    def log_densities(x: Array) -> Array:
        inside = np.all((x >= 0) & (x <= 1), axis=1)
        with np.errstate(divide="ignore"):
            logs = sum(m.logpdf(column) for m, column in zip(marginals, x.T, strict=True))
        return np.where(inside, logs, -np.inf)

    def sample(n: int, rng: np.random.Generator) -> Array:
        return np.column_stack([m.ppf(rng.random(n)) for m in marginals])

    grid = np.linspace(0, 1, GRID)
    reference = known(
        np.array([m.mean() for m in marginals]),
        np.diag([m.var() for m in marginals]),
        np.tile(grid, (3, 1)),
        np.array([m.pdf(grid) for m in marginals]),
        sample,
    )
    return in_unit_cube("at_a_bound", log_densities, sample, reference)


def lognormal() -> BenchmarkProblem:
    """Less than 1e-5 of the mass lies beyond the upper bound."""
    d, centre, spread, upper = 3, 0.5, 0.6, 30.0
    scaled = spread**2 * (0.7 + 0.3 * np.eye(d))
    logarithms = stats.multivariate_normal(np.full(d, centre), scaled)

    def log_densities(x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.log(x)
            values = np.asarray(logarithms.logpdf(z)).reshape(len(x)) - z.sum(axis=1)
        return np.where(np.all((x > 0) & (x < upper), axis=1), values, -np.inf)

    def sample(n: int, rng: np.random.Generator) -> Array:
        return np.exp(rng.multivariate_normal(np.full(d, centre), scaled, n))

    middle = np.exp(centre + spread**2 / 2)
    grid = np.linspace(0, upper, GRID)
    density = stats.lognorm(spread, scale=np.exp(centre)).pdf(grid)
    reference = known(
        np.full(d, middle),
        middle**2 * np.expm1(scaled),
        np.tile(grid, (d, 1)),
        np.tile(density, (d, 1)),
        sample,
    )
    return BenchmarkProblem(
        "lognormal",
        ("x1", "x2", "x3"),
        log_densities,
        sample,
        0.0,
        np.full(d, 0.5),
        np.full(d, 6.0),
        lower_bounds=np.zeros(d),
        upper_bounds=np.full(d, upper),
        reference=reference,
    )


def split() -> BenchmarkProblem:
    """Two modes within hard bounds, and mass at one of them."""
    low, high = stats.beta(2, 12), stats.beta(12, 3)
    others = [stats.beta(1, 3), stats.beta(4, 4)]

    def log_densities(x: Array) -> Array:
        inside = np.all((x >= 0) & (x <= 1), axis=1)
        with np.errstate(divide="ignore"):
            first = np.logaddexp(low.logpdf(x[:, 0]), high.logpdf(x[:, 0])) - np.log(2)
            rest = sum(m.logpdf(column) for m, column in zip(others, x.T[1:], strict=True))
        return np.where(inside, first + rest, -np.inf)

    def sample(n: int, rng: np.random.Generator) -> Array:
        u = rng.random((n, 3))
        first = np.where(rng.random(n) < 0.5, low.ppf(u[:, 0]), high.ppf(u[:, 0]))
        return np.column_stack([first, *(m.ppf(v) for m, v in zip(others, u.T[1:], strict=True))])

    grid = np.linspace(0, 1, GRID)
    mean = (low.mean() + high.mean()) / 2
    second = (low.var() + low.mean() ** 2 + high.var() + high.mean() ** 2) / 2
    reference = known(
        np.array([mean, *(m.mean() for m in others)]),
        np.diag([second - mean**2, *(m.var() for m in others)]),
        np.tile(grid, (3, 1)),
        np.array([(low.pdf(grid) + high.pdf(grid)) / 2, *(m.pdf(grid) for m in others)]),
        sample,
    )
    return in_unit_cube("split", log_densities, sample, reference)


def copula() -> BenchmarkProblem:
    """Beta marginals F_d and a Gaussian copula: z_d = Φ⁻¹(F_d(x_d)) ~ N(0, R)."""
    d, rho = 5, 0.4
    marginals = [stats.beta(*ab) for ab in ((1, 3), (2, 5), (5, 2), (3, 3), (4, 1))]
    correlation = rho + (1 - rho) * np.eye(d)
    joint = stats.multivariate_normal(np.zeros(d), correlation)
    factor = np.linalg.cholesky(correlation)

    def log_densities(x: Array) -> Array:
        inside = np.all((x > 0) & (x < 1), axis=1)
        x = np.where(inside[:, None], x, 0.5)
        logs = sum(m.logpdf(column) for m, column in zip(marginals, x.T, strict=True))
        z = np.column_stack(
            [_as_normal(m, column) for m, column in zip(marginals, x.T, strict=True)]
        )
        logs = logs + np.atleast_1d(joint.logpdf(z)) - stats.norm.logpdf(z).sum(axis=1)
        return np.where(inside, logs, -np.inf)

    def at(z: Array) -> Array:
        columns = zip(marginals, stats.norm.cdf(z).T, strict=True)
        return np.column_stack([m.ppf(column) for m, column in columns])

    def sample(n: int, rng: np.random.Generator) -> Array:
        return at(rng.standard_normal((n, d)) @ factor.T)

    # E[x_i x_j] = ∫∫ x_i(z) x_j(ρ z + √(1 − ρ²) v) φ(z) φ(v), by Gauss and Hermite.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    first = at(np.tile(nodes[:, None], d))
    second = at(np.tile((rho * nodes[:, None] + np.sqrt(1 - rho**2) * nodes).reshape(-1, 1), d))
    given = np.einsum("abd,b->ad", second.reshape(len(nodes), len(nodes), d), weights)
    mean = np.array([m.mean() for m in marginals])
    covariance = np.einsum("a,ai,aj->ij", weights, first, given) - np.outer(mean, mean)
    covariance[np.diag_indices(d)] = [m.var() for m in marginals]
    grid = np.linspace(0, 1, GRID)
    densities = np.array([m.pdf(grid) for m in marginals])
    reference = known(mean, covariance, np.tile(grid, (d, 1)), densities, sample)
    return in_unit_cube("copula", log_densities, sample, reference)


def _as_normal(marginal: Any, x: Array) -> Array:
    """Φ⁻¹(F(x)), by the smaller tail; at most 38 sds, where that is less than a number can be."""
    least = np.finfo(float).smallest_subnormal
    lower, upper = (np.maximum(tail(x), least) for tail in (marginal.cdf, marginal.sf))
    return np.where(lower < 0.5, stats.norm.ppf(lower), -stats.norm.ppf(upper))
