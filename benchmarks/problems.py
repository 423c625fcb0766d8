"""The log densities that the benchmarks stack, with their true evidence and exact samples.

Each problem is a frozen record; `PROBLEMS` names them all, and `record.problem()` is what a run
sees of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp

from benchmarks import multisensory, neuronal
from benchmarks.record import Array, BenchmarkProblem


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

    return _in_box("gmm", ("x1", "x2"), log_densities, sample, np.log(20.0), 10.0)


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

    integral, _ = quad(
        lambda r: 2 * np.pi * r * np.exp(-0.5 * ((r - radius) / width) ** 2),
        radius - 12 * width,
        radius + 12 * width,
        epsabs=0,
        epsrel=1e-12,
    )
    return _in_box("ring", ("x1", "x2"), log_densities, sample, float(np.log(integral)), 10.0)


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
    return _in_box(f"banana{dimension}", names, log_densities, sample, 0.0, 3.0)


def _in_box(
    name: str,
    names: tuple[str, ...],
    log_densities: Callable[[Array], Array],
    sample: Callable[[int, np.random.Generator], Array],
    log_evidence: float,
    half_width: float,
) -> BenchmarkProblem:
    box = np.full(len(names), half_width)
    return BenchmarkProblem(name, names, log_densities, sample, log_evidence, -box, box)


PROBLEMS: dict[str, Callable[[], BenchmarkProblem]] = {
    "gmm": gmm,
    "ring": ring,
    "gmm_noisy": lambda: replace(gmm(), name="gmm_noisy", noise_sd=3.0),
    "ring_noisy": lambda: replace(ring(), name="ring_noisy", noise_sd=3.0),
    "multisensory": multisensory.benchmark,
    "neuronal": neuronal.benchmark,
    "banana6": lambda: banana(6),
    "banana10": lambda: banana(10),
}
