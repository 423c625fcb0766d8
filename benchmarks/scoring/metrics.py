"""How far an approximation is from the truth: ΔLML, MMTV and GsKL (paper, sec. 4.3).

An `Approximation` is what a method leaves behind. Its marginal densities are exact when it is a
Gaussian mixture; when it is a set of draws they are kernel densities with Botev's bandwidth (Botev,
Grotowski & Kroese 2010, `pyvbmc.stats.kde_1d`, which the paper's authors use).
The truth is a `Reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.arrays import Array
from benchmarks.problems.marginal_densities import gaussian_sum, kernel_density
from benchmarks.problems.reference_posterior import Reference
from vbstack import Mixture, StackedPosterior
from vbstack.runs.transform import Link
from vbstack.stacking.moments import mixture_moments


@dataclass(frozen=True)
class Approximation:
    """Log evidence, moments, and `marginal(d, x)`, the density of parameter d at points x (n,)."""

    log_evidence: float
    mean: Array
    covariance: Array
    marginal: Callable[[int, Array], Array]


@dataclass(frozen=True)
class Metrics:
    """The paper's three numbers; smaller is better."""

    delta_lml: float
    mmtv: float
    gskl: float


def metrics(approximation: Approximation, truth: Reference) -> Metrics:
    """ΔLML, MMTV and GsKL of an approximation."""
    return Metrics(
        abs(approximation.log_evidence - truth.log_evidence),
        mmtv(truth.grids, truth.densities, approximation.marginal),
        gskl(truth.mean, truth.covariance, approximation.mean, approximation.covariance),
    )


def mmtv(grids: Array, densities: Array, marginal: Callable[[int, Array], Array]) -> float:
    """Mean over parameters of ½ ∫ |p_d − q_d|: p_d on its grid (D, G), q_d the function.

    The grids hold all of p's mass; what q has outside them counts as it is missing inside.
    """
    total = 0.0
    for d, (x, p) in enumerate(zip(grids, densities, strict=True)):
        q = marginal(d, x)
        outside = max(0.0, 1.0 - float(np.trapezoid(q, x)))
        total += 0.5 * (float(np.trapezoid(np.abs(p - q), x)) + outside)
    return total / len(grids)


def gskl(mean_p: Array, covariance_p: Array, mean_q: Array, covariance_q: Array) -> float:
    """Symmetrised KL divergence of the Gaussians with these moments, divided by 2D.

    KL(p‖q) + KL(q‖p) = ½ [tr(P⁻¹Q) + tr(Q⁻¹P) − 2D + δᵀ(P⁻¹ + Q⁻¹)δ]; the log determinants cancel.
    """
    dimension = mean_p.size
    delta = mean_p - mean_q
    p_inverse, q_inverse = np.linalg.inv(covariance_p), np.linalg.inv(covariance_q)
    traces = np.trace(p_inverse @ covariance_q) + np.trace(q_inverse @ covariance_p)
    total = 0.5 * (traces - 2 * dimension + delta @ (p_inverse + q_inverse) @ delta)
    return float(total / (2 * dimension))


def of_stack(posterior: StackedPosterior, log_evidence: float) -> Approximation:
    """A stacked posterior with one of its estimates of the log evidence."""
    return of_mixture(posterior.mixture, posterior.weights, log_evidence)


def of_mixture(mixture: Mixture, weights: Array, log_evidence: float) -> Approximation:
    """The weighted mixture, with exact marginals and moments."""
    keep = np.flatnonzero(weights)
    part, w = mixture.restricted(keep), weights[keep]
    return Approximation(
        log_evidence,
        *mixture_moments(part, w),
        lambda d, x: mixture_marginal(part, w, d, x),
    )


def mixture_marginal(mixture: Mixture, weights: Array, d: int, x: Array) -> Array:
    """Marginal density of parameter d at x (n,): Gaussians in link space over the link's slope."""
    sds = np.sqrt(np.square(mixture.factors[:, d]).sum(axis=1))
    density = np.zeros(x.size)
    for index, link in enumerate(mixture.links):
        one = Link(link.kinds[d : d + 1], link.lower[d : d + 1], link.upper[d : d + 1])
        rows = mixture.link_of == index
        inside = one.inside(x[:, None])
        y = one.forward(x[inside, None])
        gaussians = gaussian_sum(y[:, 0], weights[rows], mixture.centres[rows, d], sds[rows])
        density[inside] += gaussians * np.exp(-one.log_jacobian(y))
    return density


def of_draws(draws: Array, log_evidence: float, weights: Array | None = None) -> Approximation:
    """Draws (n, D), possibly weighted, with an estimate of the log evidence."""
    w = np.full(len(draws), 1.0) if weights is None else weights
    kernels = [kernel_density(column, w) for column in draws.T]
    return Approximation(
        log_evidence,
        np.average(draws, axis=0, weights=w),
        np.cov(draws, rowvar=False, aweights=w),
        lambda d, x: np.interp(x, *kernels[d], left=0.0, right=0.0),
    )
