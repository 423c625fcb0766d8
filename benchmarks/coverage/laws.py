"""Laws with a closed form and exact draws, of which the modes of the coverage targets are made.

gaussian(mean, sds, correlation)       equal correlations
student_t(mean, scales, nu)            uncorrelated, not independent
bent(mean, sds, bend, correlation)     a Gaussian, bend · (z1² − 1) added to its second parameter
skewed(location, scales, slants)       independent skew normals (Azzalini 1985)
within(mean, sds, lower, upper)        independent Gaussians, cut off at bounds
chain(points, sd)                      a thin tube along a curve: Gaussians around its points
mixed(laws, shares)                    a mixture of laws
side_by_side((size, law), …)           independent laws for consecutive parameters
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import gammaln, log_ndtr, logsumexp

from benchmarks.arrays import Array

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Law:
    """A normalised density: its logarithm at rows (n, D), and `draw(n, rng)`, which gives such."""

    log_pdf: Callable[[Array], Array]
    draw: Callable[[int, np.random.Generator], Array]


def gaussian(mean: ArrayLike, sds: ArrayLike, correlation: float = 0.0) -> Law:
    """N(mean, covariance) with these standard deviations and one correlation for all pairs."""
    centre, spread = _pair(mean, sds)
    correlations = correlation + (1 - correlation) * np.eye(centre.size)
    factor = spread[:, None] * np.linalg.cholesky(correlations)
    inverse = np.linalg.inv(factor)
    log_norm = -0.5 * centre.size * _LOG_2PI - np.log(np.diag(factor)).sum()

    def log_pdf(x: Array) -> Array:
        return np.asarray(log_norm - 0.5 * np.square((x - centre) @ inverse.T).sum(axis=1))

    def draw(n: int, rng: np.random.Generator) -> Array:
        return np.asarray(centre + rng.standard_normal((n, centre.size)) @ factor.T)

    return Law(log_pdf, draw)


def student_t(mean: ArrayLike, scales: ArrayLike, nu: float) -> Law:
    """Multivariate Student t with a diagonal scale matrix."""
    centre, spread = _pair(mean, scales)
    d = centre.size
    log_norm = gammaln((nu + d) / 2) - gammaln(nu / 2) - 0.5 * d * np.log(nu * np.pi)
    log_norm -= np.log(spread).sum()

    def log_pdf(x: Array) -> Array:
        squares = np.square((x - centre) / spread).sum(axis=1)
        return np.asarray(log_norm - 0.5 * (nu + d) * np.log1p(squares / nu))

    def draw(n: int, rng: np.random.Generator) -> Array:
        stretch = np.sqrt(nu / rng.chisquare(nu, n))
        return np.asarray(centre + spread * stretch[:, None] * rng.standard_normal((n, d)))

    return Law(log_pdf, draw)


def bent(mean: ArrayLike, sds: ArrayLike, bend: float, correlation: float = 0.0) -> Law:
    """x = mean + sds · (z1, z2 + bend (z1² − 1), z3, …) with z of one correlation for all pairs."""
    centre, spread = _pair(mean, sds)
    straight = gaussian(np.zeros(centre.size), np.ones(centre.size), correlation)

    def log_pdf(x: Array) -> Array:
        z = (x - centre) / spread
        z[:, 1] -= bend * (z[:, 0] ** 2 - 1)
        return np.asarray(straight.log_pdf(z) - np.log(spread).sum())

    def draw(n: int, rng: np.random.Generator) -> Array:
        z = straight.draw(n, rng)
        z[:, 1] += bend * (z[:, 0] ** 2 - 1)
        return np.asarray(centre + spread * z)

    return Law(log_pdf, draw)


def skewed(location: ArrayLike, scales: ArrayLike, slants: ArrayLike) -> Law:
    """Π_d 2 φ(z_d) Φ(a_d z_d) / s_d with z = (x − location) / s and slants a."""
    centre, spread = _pair(location, scales)
    slant = np.broadcast_to(np.asarray(slants, dtype=float), centre.shape)
    log_norm = centre.size * (np.log(2) - 0.5 * _LOG_2PI) - np.log(spread).sum()
    delta = slant / np.sqrt(1 + slant**2)

    def log_pdf(x: Array) -> Array:
        z = (x - centre) / spread
        return np.asarray(log_norm + (log_ndtr(slant * z) - 0.5 * z * z).sum(axis=1))

    def draw(n: int, rng: np.random.Generator) -> Array:
        u, v = rng.standard_normal((2, n, centre.size))
        return np.asarray(centre + spread * (delta * np.abs(u) + np.sqrt(1 - delta**2) * v))

    return Law(log_pdf, draw)


def within(mean: ArrayLike, sds: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Law:
    """Independent Gaussians on the box from `lower` to `upper`, nothing outside."""
    centre, spread = _pair(mean, sds)
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    ends = stats.norm.cdf((low - centre) / spread), stats.norm.cdf((high - centre) / spread)
    log_norm = -0.5 * centre.size * _LOG_2PI - np.log(spread * (ends[1] - ends[0])).sum()

    def log_pdf(x: Array) -> Array:
        logs = log_norm - 0.5 * np.square((x - centre) / spread).sum(axis=1)
        return np.where(((x >= low) & (x <= high)).all(axis=1), logs, -np.inf)

    def draw(n: int, rng: np.random.Generator) -> Array:
        return np.asarray(centre + spread * stats.norm.ppf(rng.uniform(*ends, (n, centre.size))))

    return Law(log_pdf, draw)


def chain(points: ArrayLike, sd: float) -> Law:
    """Equal shares of N(point, sd²) for points (m, D); spaced by at most sd they make a tube."""
    centres = np.asarray(points, dtype=float)
    m, d = centres.shape
    log_norm = -0.5 * d * _LOG_2PI - d * np.log(sd) - np.log(m)

    def log_pdf(x: Array) -> Array:
        # |x − c|² by a matrix product: a spiral has hundreds of points, and stacks 20,000 draws.
        squares = np.square(x).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)
        squares = np.maximum(squares - 2 * x @ centres.T, 0.0)
        return np.asarray(log_norm + logsumexp(-0.5 * squares / sd**2, axis=1))

    def draw(n: int, rng: np.random.Generator) -> Array:
        return np.asarray(centres[rng.integers(m, size=n)] + sd * rng.standard_normal((n, d)))

    return Law(log_pdf, draw)


def mixed(laws: Sequence[Law], shares: ArrayLike) -> Law:
    """The mixture of the laws with these shares, which sum to one."""
    p = np.asarray(shares, dtype=float)

    def log_pdf(x: Array) -> Array:
        return np.asarray(logsumexp(log_parts(laws, p, x), axis=1))

    def draw(n: int, rng: np.random.Generator) -> Array:
        counts = rng.multinomial(n, p)
        drawn = [law.draw(int(count), rng) for law, count in zip(laws, counts, strict=True)]
        return np.asarray(rng.permutation(np.concatenate(drawn)))

    return Law(log_pdf, draw)


def side_by_side(*parts: tuple[int, Law]) -> Law:
    """Independent laws, each of its number of parameters, one after the other."""
    sizes, laws = zip(*parts, strict=True)
    ends = np.cumsum(sizes)[:-1]

    def log_pdf(x: Array) -> Array:
        columns = np.split(x, ends, axis=1)
        each = [law.log_pdf(part) for law, part in zip(laws, columns, strict=True)]
        return np.asarray(np.sum(each, axis=0))

    def draw(n: int, rng: np.random.Generator) -> Array:
        return np.hstack([law.draw(n, rng) for law in laws])

    return Law(log_pdf, draw)


def log_parts(laws: Sequence[Law], shares: Array, x: Array) -> Array:
    """log of share_k · p_k(x), (n, k)."""
    return np.column_stack([law.log_pdf(x) for law in laws]) + np.log(shares)


def along(curve: Callable[[Array], Array], start: float, end: float, spacing: float) -> Array:
    """Points (m, D) on a curve t ↦ (n, D), equally spaced by at most `spacing`.

    They begin and end half a step from the curve's ends, so that two pieces join without a seam.
    """
    t = np.linspace(start, end, 20_001)
    steps = np.linalg.norm(np.diff(curve(t), axis=0), axis=1)
    length = np.concatenate([[0.0], np.cumsum(steps)])
    m = int(np.ceil(length[-1] / spacing))
    return curve(np.interp((np.arange(m) + 0.5) / m * length[-1], length, t))


def segment(start: ArrayLike, end: ArrayLike, spacing: float) -> Array:
    """The same on a straight line."""
    a, b = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    return along(lambda t: a + t[:, None] * (b - a), 0.0, 1.0, spacing)


def _pair(mean: ArrayLike, sds: ArrayLike) -> tuple[Array, Array]:
    """Mean (D,) and as many standard deviations."""
    centre = np.asarray(mean, dtype=float)
    return centre, np.broadcast_to(np.asarray(sds, dtype=float), centre.shape)
