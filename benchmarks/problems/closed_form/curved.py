"""Log densities whose ridge is curved or has a corner."""

from __future__ import annotations

import numpy as np
from scipy import stats

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.building import GRID, known, unbounded

_BEND_SD = 0.4


def rosenbrock(dimension: int) -> BenchmarkProblem:
    pairs = dimension // 2
    log_norm = -dimension / 2 * np.log(2 * np.pi) - pairs * np.log(_BEND_SD)

    def log_densities(x: Array) -> Array:
        first, second = x[:, ::2], x[:, 1::2]
        bend = (second - first**2) / _BEND_SD
        return log_norm - 0.5 * (np.square(first) + np.square(bend)).sum(axis=1)

    def sample(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, dimension))
        z[:, 1::2] = z[:, ::2] ** 2 + _BEND_SD * z[:, 1::2]
        return z

    flat, bent = np.linspace(-8, 8, GRID), np.linspace(-3, 40, GRID)
    # The marginal of x2 is its conditional averaged over x1.
    conditional = stats.norm.pdf(bent[:, None], flat**2, _BEND_SD)
    density = np.trapezoid(conditional * stats.norm.pdf(flat), flat, axis=1)
    reference = known(
        np.tile([0.0, 1.0], pairs),
        np.diag(np.tile([1.0, 2.0 + _BEND_SD**2], pairs)),
        np.tile(np.array([flat, bent]), (pairs, 1)),
        np.tile(np.array([stats.norm.pdf(flat), density]), (pairs, 1)),
        sample,
    )
    return unbounded(
        f"rosenbrock{dimension}", log_densities, sample, reference, np.full(dimension, 4.0)
    )


def banana(dimension: int) -> BenchmarkProblem:
    """A normalised banana in (x1, x2) times a correlated Gaussian in the rest: log evidence 0.

    x1 ~ N(0, 1), x2 | x1 ~ N(x1² − 1, 0.5²), (x3 … xD) ~ N(0, Σ) with Σ_ij = 0.7^|i−j|.
    """
    rest = dimension - 2
    index = np.arange(rest)
    cholesky = np.linalg.cholesky(0.7 ** np.abs(index[:, None] - index))
    log_norm = -0.5 * dimension * np.log(2 * np.pi) - np.log(0.5) - np.log(np.diag(cholesky)).sum()

    def log_densities(x: Array) -> Array:
        bend = (x[:, 1] - x[:, 0] ** 2 + 1) / 0.5
        whitened = np.linalg.solve(cholesky, x[:, 2:].T)
        return log_norm - 0.5 * (x[:, 0] ** 2 + bend**2 + (whitened**2).sum(axis=0))

    def sample(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, dimension))
        x2 = z[:, 0] ** 2 - 1 + 0.5 * z[:, 1]
        return np.column_stack([z[:, 0], x2, z[:, 2:] @ cholesky.T])

    names = tuple(f"x{d + 1}" for d in range(dimension))
    box = np.full(dimension, 3.0)
    return BenchmarkProblem(f"banana{dimension}", names, log_densities, sample, 0.0, -box, box)


def wave() -> BenchmarkProblem:
    sd, width = 1.5, 0.3

    def log_densities(x: Array) -> Array:
        along, across = x[:, 0] / sd, (x[:, 1] - np.sin(2 * x[:, 0])) / width
        return stats.norm.logpdf(along) + stats.norm.logpdf(across) - np.log(sd * width)

    def sample(n: int, rng: np.random.Generator) -> Array:
        x1 = sd * rng.standard_normal(n)
        return np.column_stack([x1, np.sin(2 * x1) + width * rng.standard_normal(n)])

    along, across = np.linspace(-8 * sd, 8 * sd, GRID), np.linspace(-4, 4, GRID)
    first = stats.norm.pdf(along, scale=sd)
    given = stats.norm.pdf(across[:, None], np.sin(2 * along), width)
    second = np.trapezoid(given * first, along, axis=1)
    # E[x1 sin 2 x1] and E[sin² 2 x1] from the characteristic function of x1.
    together = 2 * sd**2 * np.exp(-2 * sd**2)
    height = width**2 + 0.5 * (1 - np.exp(-8 * sd**2))
    covariance = np.array([[sd**2, together], [together, height]])
    grids, densities = np.array([along, across]), np.array([first, second])
    reference = known(np.zeros(2), covariance, grids, densities, sample)
    return unbounded("wave", log_densities, sample, reference, np.array([4.0, 3.0]))


def vee() -> BenchmarkProblem:
    sd, width = 1.5, 0.4

    def log_densities(x: Array) -> Array:
        along, across = x[:, 0] / sd, (x[:, 1] - np.abs(x[:, 0])) / width
        return stats.norm.logpdf(along) + stats.norm.logpdf(across) - np.log(sd * width)

    def sample(n: int, rng: np.random.Generator) -> Array:
        x1 = sd * rng.standard_normal(n)
        return np.column_stack([x1, np.abs(x1) + width * rng.standard_normal(n)])

    along, up = np.linspace(-8 * sd, 8 * sd, GRID), np.linspace(-4, 14, GRID)
    first = stats.norm.pdf(along, scale=sd)
    second = np.trapezoid(stats.norm.pdf(up[:, None], np.abs(along), width) * first, along, axis=1)
    mean = np.array([0.0, sd * np.sqrt(2 / np.pi)])
    covariance = np.diag([sd**2, width**2 + sd**2 * (1 - 2 / np.pi)])
    grids, densities = np.array([along, up]), np.array([first, second])
    reference = known(mean, covariance, grids, densities, sample)
    return unbounded("vee", log_densities, sample, reference, np.full(2, 4.0))


def crescent() -> BenchmarkProblem:
    """The angle's tails beyond ±π hold less than 1e-5 of the mass."""
    radius, width, bend = 3.0, 0.3, 0.7

    def log_densities(x: Array) -> Array:
        r, angle = np.hypot(x[:, 0], x[:, 1]), np.arctan2(x[:, 1], x[:, 0])
        polar = stats.norm.logpdf(r, radius, width) + stats.norm.logpdf(angle, scale=bend)
        return np.asarray(polar - np.log(np.maximum(r, 1e-12)))

    def sample(n: int, rng: np.random.Generator) -> Array:
        r, angle = radius + width * rng.standard_normal(n), bend * rng.standard_normal(n)
        return np.column_stack([r * np.cos(angle), r * np.sin(angle)])

    # E[cos a] = exp(−bend²/2) and E[cos 2a] = exp(−2 bend²)
    mean = np.array([radius * np.exp(-(bend**2) / 2), 0.0])
    square, twice = radius**2 + width**2, np.exp(-2 * bend**2)
    covariance = np.diag([square * (1 + twice) / 2 - mean[0] ** 2, square * (1 - twice) / 2])
    grid = np.linspace(-5.0, 5.0, 1001)
    both = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(log_densities(both)).reshape(1001, 1001)
    densities = np.array([np.trapezoid(density, grid, axis=axis) for axis in (1, 0)])
    reference = known(mean, covariance, np.array([grid, grid]), densities, sample)
    return unbounded("crescent", log_densities, sample, reference, np.full(2, 4.0))


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
