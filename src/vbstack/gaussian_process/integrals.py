"""Integrals of the surrogate under diagonal Gaussians, with gradients (Acerbi 2018, app. A).

For N(μ, diag σ²) and τ_d² = ℓ_d² + σ_d²

    z_i = σ_f² Π_d (ℓ_d/τ_d) exp(−½ Σ_d (x_id − μ_d)²/τ_d²)
    I   = zᵀα + m0 − ½ Σ_d ((μ_d − c_d)² + σ_d²)/ω_d²
    J   = σ_f² Π_d ℓ_d/√(ℓ_d² + 2σ_d²) − zᵀK⁻¹z
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from vbstack.gaussian_process.dense import Process

Array = NDArray[np.float64]


def kernel_means(process: Process, means: Array, sds: Array) -> tuple[Array, Array]:
    """z (n, K), and τ² (K, D)."""
    x, lengths = process.data.inputs, process.lengths
    tau2 = lengths**2 + sds**2
    precision = 1 / tau2
    exponent = x @ (means * precision).T
    exponent -= 0.5 * (np.square(x) @ precision.T)
    exponent -= 0.5 * (means**2 * precision).sum(axis=1)
    exponent += np.log(lengths).sum() - 0.5 * np.log(tau2).sum(axis=1)
    np.exp(exponent, out=exponent)
    exponent *= process.variance
    return exponent, tau2


def _weighted(
    process: Process, weighted: Array, means: Array, sds: Array, tau2: Array
) -> tuple[Array, Array]:
    """Gradients of Σ_i c_ik z_ik with respect to μ_k and σ_k, from `weighted` = c ∘ z (n, K)."""
    x = process.data.inputs
    total = weighted.sum(axis=0)[:, None]
    first = weighted.T @ x
    second = weighted.T @ np.square(x) - 2 * means * first + means**2 * total
    d_means = (first - means * total) / tau2
    d_sds = sds / tau2 * (second / tau2 - total)
    return d_means, d_sds


def integrals(process: Process, means: Array, sds: Array) -> tuple[Array, Array, Array]:
    """I (K,), ∂I/∂μ (K, D), ∂I/∂σ (K, D)."""
    z, tau2 = kernel_means(process, means, sds)
    h, d = process.hyperparameters, process.dimension
    centre, widths2 = h[d + 2 : 2 * d + 2], np.exp(2 * h[2 * d + 2 :])
    away = means - centre
    values = process.alpha @ z + h[d + 1] - 0.5 * ((away**2 + sds**2) / widths2).sum(axis=1)
    d_means, d_sds = _weighted(process, process.alpha[:, None] * z, means, sds, tau2)
    return values, d_means - away / widths2, d_sds - sds / widths2


def variances(process: Process, means: Array, sds: Array) -> tuple[Array, Array, Array]:
    """J_kk (K,), ∂J/∂μ (K, D), ∂J/∂σ (K, D)."""
    z, tau2 = kernel_means(process, means, sds)
    solved = lapack.dpotrs(process.factor, z, lower=1)[0]
    doubled = process.lengths**2 + 2 * sds**2
    log_prior = np.log(process.lengths).sum() - 0.5 * np.log(doubled).sum(axis=1)
    prior = process.variance * np.exp(log_prior)
    values = prior - np.einsum("nk,nk->k", z, solved)
    d_means, d_sds = _weighted(process, solved * z, means, sds, tau2)
    d_prior = -2 * prior[:, None] * sds / doubled
    return np.maximum(values, 1e-12), -2 * d_means, d_prior - 2 * d_sds


def covariance(process: Process, means: Array, sds: Array) -> Array:
    """J (K, K): covariance of all integrals."""
    z, _ = kernel_means(process, means, sds)
    v = solve_triangular(process.factor, z, lower=True, check_finite=False)
    lengths2 = process.lengths**2
    exponent = np.full((len(means), len(means)), 2 * np.log(np.sqrt(process.variance)))
    for d in range(process.dimension):
        total = lengths2[d] + sds[:, d, None] ** 2 + sds[:, d] ** 2
        gap = means[:, d, None] - means[:, d]
        exponent += 0.5 * np.log(lengths2[d] / total) - 0.5 * gap**2 / total
    return np.asarray(np.exp(exponent) - v.T @ v)
