"""The paper's two synthetic problems (sec. 4.4): twenty Gaussians, and a thin ring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.marginal_densities import gaussian_sum
from benchmarks.problems.reference_posterior import Reference


def gmm() -> BenchmarkProblem:
    """Twenty unit-variance Gaussians with correlation ±0.5 around four centroids (paper, sec. 4.4).

    The density is a sum, not an average, so the log evidence is log 20. The paper does not publish
    its draw of the twenty means; this one is fixed by a seed of our own and differs from theirs.
    """
    rng = np.random.default_rng(20251109)
    centroids = np.array([[-8.0, -8.0], [-7.0, 7.0], [6.0, -6.0], [5.0, 5.0]])
    means = np.repeat(centroids, 5, axis=0) + rng.standard_normal((20, 2))
    rho = rng.choice([-0.5, 0.5], size=20)
    log_norm = -np.log(2 * np.pi) - 0.5 * np.log(1 - rho**2)

    def log_densities(x: Array) -> Array:
        dx, dy = (x[:, None, :] - means).transpose(2, 0, 1)
        quadratic = (dx**2 - 2 * rho * dx * dy + dy**2) / (1 - rho**2)
        return logsumexp(log_norm - 0.5 * quadratic, axis=1)

    def sample(n: int, rng: np.random.Generator) -> Array:
        k = rng.integers(20, size=n)
        z = rng.standard_normal((n, 2))
        y = rho[k] * z[:, 0] + np.sqrt(1 - rho[k] ** 2) * z[:, 1]
        return means[k] + np.column_stack([z[:, 0], y])

    ones, grids = np.ones(20), np.tile(np.linspace(-15.0, 15.0, 3001), (2, 1))
    spread = means - means.mean(axis=0)
    covariance = np.eye(2) + spread.T @ spread / 20 + rho.mean() * (1 - np.eye(2))
    reference = _exact(
        float(np.log(20.0)),
        means.mean(axis=0),
        covariance,
        grids,
        np.array([gaussian_sum(grids[d], ones / 20, means[:, d], ones) for d in (0, 1)]),
        sample,
    )
    return _in_box("gmm", ("x1", "x2"), log_densities, sample, reference, 10.0)


def ring(radius: float = 8.0, width: float = 0.1) -> BenchmarkProblem:
    """A thin ring, log p = −(r − R)²/(2σ²) around (1, −2) (paper, sec. 4.4)."""
    centre = np.array([1.0, -2.0])

    def log_densities(x: Array) -> Array:
        r = np.hypot(*(x - centre).T)
        return -0.5 * ((r - radius) / width) ** 2

    def sample(n: int, rng: np.random.Generator) -> Array:
        # The radial density is ∝ r exp(−(r−R)²/2σ²): draw the Gaussian, accept with r / r_max.
        r = np.empty(0)
        r_max = radius + 12 * width
        while r.size < n:
            proposal = radius + width * rng.standard_normal(2 * n + 16)
            accepted = rng.uniform(0, r_max, proposal.size) < proposal
            r = np.concatenate([r, proposal[accepted]])
        angle = rng.uniform(0, 2 * np.pi, n)
        return centre + r[:n, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    nodes, weights = np.polynomial.legendre.leggauss(400)
    radii = radius + 12 * width * nodes
    mass = 2 * np.pi * radii * np.exp(-0.5 * ((radii - radius) / width) ** 2) * weights * 12 * width
    offsets = np.linspace(-radius - 12 * width, radius + 12 * width, 4001)
    reference = _exact(
        float(np.log(mass.sum())),
        centre,
        0.5 * (mass @ radii**2) / mass.sum() * np.eye(2),
        centre[:, None] + offsets,
        np.tile(_chords(offsets, radius, width) / mass.sum(), (2, 1)),
        sample,
    )
    return _in_box("ring", ("x1", "x2"), log_densities, sample, reference, 10.0)


def _chords(offsets: Array, radius: float, width: float) -> Array:
    """∫ exp(−(r − R)²/2σ²) du, r² = offset² + u², along the lines at these offsets."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    ends = np.sqrt(np.maximum((radius + 12 * width) ** 2 - offsets**2, 0.0))
    starts = np.sqrt(np.maximum((radius - 12 * width) ** 2 - offsets**2, 0.0))
    half = (ends - starts) / 2
    u = starts[:, None] + half[:, None] * (1 + nodes)
    r = np.hypot(offsets[:, None], u)
    return 2 * half * (np.exp(-0.5 * ((r - radius) / width) ** 2) @ weights)


def _exact(
    log_evidence: float,
    mean: Array,
    covariance: Array,
    grids: Array,
    densities: Array,
    sample: Callable[[int, np.random.Generator], Array],
) -> Reference:
    draws = sample(8000, np.random.default_rng(1))
    return Reference(log_evidence, 0.0, mean, covariance, grids, densities, draws, "closed form")


def _in_box(
    name: str,
    names: tuple[str, ...],
    log_densities: Callable[[Array], Array],
    sample: Callable[[int, np.random.Generator], Array],
    reference: Reference,
    half_width: float,
) -> BenchmarkProblem:
    box = np.full(len(names), half_width)
    return BenchmarkProblem(
        name,
        names,
        log_densities,
        sample,
        reference.log_evidence,
        -box,
        box,
        reference=reference,
    )
