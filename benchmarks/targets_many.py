"""More closed-form log densities, in five and more dimensions; see `targets`.

    contaminated()  five dimensions, a Gaussian and one fifth of another 2.5 times as wide
    hyperbolic()    six dimensions, correlated, tails that fall like exp(−r): symmetric normal
                    inverse Gaussian (Barndorff-Nielsen 1997)
    bent()          seven correlated Gaussians, and ½ x1² added to the second

Two were held out: no run of the native engine was changed with their help:

    skew_normal()   six dimensions, correlated and skewed (Azzalini & Dalla Valle 1996)
    copula()        five correlated parameters within bounds, with mass at two of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import kve

from benchmarks.record import Array, BenchmarkProblem
from benchmarks.targets import GRID, in_unit_cube, known, unbounded


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


def bent() -> BenchmarkProblem:
    d, bend, correlation = 7, 0.5, 0.5
    shape = correlation + (1 - correlation) * np.eye(d)
    straight = stats.multivariate_normal(np.zeros(d), shape)
    factor = np.linalg.cholesky(shape)

    def log_densities(x: Array) -> Array:
        z = np.array(x)
        z[:, 1] -= bend * np.square(x[:, 0])
        return np.atleast_1d(straight.logpdf(z))

    def sample(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, d)) @ factor.T
        z[:, 1] += bend * np.square(z[:, 0])
        return z

    # E[x2] = bend, Var[x2] = 1 + 2 bend²; x2 has no linear relation to what it had none before.
    mean, covariance = np.zeros(d), shape.copy()
    mean[1], covariance[1, 1] = bend, 1 + 2 * bend**2
    grids = np.tile(np.linspace(-12, 20, GRID), (d, 1))
    densities = stats.norm.pdf(grids)
    first = np.linspace(-8, 8, 1001)
    middle = correlation * first + bend * first**2
    given = stats.norm.pdf(grids[1][:, None], middle, np.sqrt(1 - correlation**2))
    densities[1] = np.trapezoid(given * stats.norm.pdf(first), first, axis=1)
    reference = known(mean, covariance, grids, densities, sample)
    return unbounded("bent", log_densities, sample, reference, np.full(d, 4.0))


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


MANY: dict[str, Callable[[], BenchmarkProblem]] = {
    "contaminated": contaminated,
    "hyperbolic": hyperbolic,
    "bent": bent,
    "skew_normal": skew_normal,
    "copula": copula,
}
