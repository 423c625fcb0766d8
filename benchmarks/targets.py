"""Closed-form log densities of many shapes, on which the engines are raced.

All are normalised, so their log evidence is 0, and all can be sampled exactly:

    gaussian(D)     correlation 0.8^|i−j|, standard deviations from 0.3 to 3
    rosenbrock(D)   pairs x1 ~ N(0, 1), x2 | x1 ~ N(x1², 0.4²) (Pagani, Wiegand & Nadarajah 2022)
    at_a_bound()    Beta(1, 4), Beta(5, 1) and Beta(2, 2) on [0, 1]: most mass at a hard bound
    student_t(D)    ν = 4, correlation 0.6

    funnel()        v ~ N(0, 1), x2 and x3 | v ~ N(0, exp(v)) (after Neal 2003)
    two_modes()     five dimensions, Gaussians of sd 0.5 and 1 with weights 0.3 and 0.7, 5.6 apart

    plateau()       log p = −(r/4)⁸ in two dimensions: flat, then a wall
    skewed()        logarithms of four Gamma variables with shapes 0.7, 1, 2 and 5

    wave()          x1 ~ N(0, 1.5²), x2 | x1 ~ N(sin 2 x1, 0.3²)
    cross()         three dimensions, two Gaussians with correlations 0.95 and −0.95, equal means
    vee()           x1 ~ N(0, 1.5²), x2 | x1 ~ N(|x1|, 0.4²)
    unequal()       four dimensions, three Gaussians with weights 0.6, 0.3 and 0.1

    crescent()      radius ~ N(3, 0.3²), angle ~ N(0, 0.7²)
    lognormal()     three parameters in (0, 30), logarithms ~ N(0.5, 0.6²) with correlation 0.7

    split()         on [0, 1], x1 ~ ½ Beta(2, 12) + ½ Beta(12, 3), x2 ~ Beta(1, 3), x3 ~ Beta(4, 4)

`targets_many` has more of them, in five and more dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from benchmarks.record import Array, BenchmarkProblem
from benchmarks.reference import Reference

Sampler = Callable[[int, np.random.Generator], Array]

GRID = 3001
_BEND_SD = 0.4


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


def known(
    mean: Array, covariance: Array, grids: Array, densities: Array, draw: Sampler
) -> Reference:
    draws = draw(8000, np.random.default_rng(1))
    return Reference(0.0, 0.0, mean, covariance, grids, densities, draws, "closed form")


def unbounded(
    name: str,
    log_densities: Callable[[Array], Array],
    sample: Sampler,
    reference: Reference,
    box: Array,
) -> BenchmarkProblem:
    names = tuple(f"x{d + 1}" for d in range(box.size))
    return BenchmarkProblem(name, names, log_densities, sample, 0.0, -box, box, reference=reference)


def in_unit_cube(
    name: str, log_densities: Callable[[Array], Array], sample: Sampler, reference: Reference
) -> BenchmarkProblem:
    d = reference.mean.size
    return BenchmarkProblem(
        name,
        tuple(f"x{index + 1}" for index in range(d)),
        log_densities,
        sample,
        0.0,
        np.full(d, 0.1),
        np.full(d, 0.9),
        lower_bounds=np.zeros(d),
        upper_bounds=np.ones(d),
        reference=reference,
    )


TARGETS: dict[str, Callable[[], BenchmarkProblem]] = {
    "gaussian2": lambda: gaussian(2),
    "gaussian5": lambda: gaussian(5),
    "gaussian10": lambda: gaussian(10),
    "rosenbrock2": lambda: rosenbrock(2),
    "rosenbrock4": lambda: rosenbrock(4),
    "rosenbrock6": lambda: rosenbrock(6),
    "at_a_bound": at_a_bound,
    "student_t": student_t,
    "student_t5": lambda: student_t(5),
    "funnel": funnel,
    "two_modes": two_modes,
    "plateau": plateau,
    "skewed": skewed,
    "wave": wave,
    "cross": cross,
    "vee": vee,
    "unequal": unequal,
    "crescent": crescent,
    "lognormal": lognormal,
    "split": split,
}
