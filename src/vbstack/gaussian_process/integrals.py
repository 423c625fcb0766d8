"""Expectations of the kernel and the mean function under Gaussians: every formula, once.

In kernel coordinates v = W x a Gaussian N(μ, F Fᵀ) has covariance S = WF(WF)ᵀ, and (O'Hagan 1991)

    z_j(x)  = E_j[k(x, ·)]      = σ_f² |1 + S_j|^-½ exp(−½ (v − Wμ_j)ᵀ (1 + S_j)⁻¹ (v − Wμ_j))
    κ_jk    = E_j E_k[k(·, ·)]  = σ_f² |1 + S_j + S_k|^-½ exp(−½ Δᵀ (1 + S_j + S_k)⁻¹ Δ)
    E_j[m]  = m0 − ½ [(μ_j − c)ᵀ P (μ_j − c) + tr P F_j F_jᵀ]

The first functions take full matrices: components of one run seen from another run's space. The
second take W = diag(1/ℓ) and diagonal Gaussians N(μ, diag σ²), as an engine has them in its own
space. There 1 + S = diag(τ²/ℓ²) with τ² = ℓ² + σ², everything is a matrix product, and gradients
are cheap: with fifty components and 150 points in two to ten dimensions z takes a half to a seventh
of the time of the first, κ a third to a seventeenth (`python -m benchmarks gaussian-integrals`).
The last one is for a single full covariance Σ in an engine's space, T = diag ℓ² + Σ.
"""

from __future__ import annotations

import numpy as np

from vbstack.arrays import Array
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.prior import Prior

_CHUNK_VALUES = 2_000_000  # values of one temporary array: 16 MB


def kernel_means(prior: Prior, centres: Array, factors: Array, points: Array) -> Array:
    """z_j (K, n) for Gaussians N(c_j, F_j F_jᵀ), centres (K, D), factors (K, D, D)."""
    covariance = _covariances(prior, factors) + np.eye(points.shape[1])
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    v, middle = points @ prior.whitener.T, centres @ prior.whitener.T
    squares = np.zeros((len(centres), len(points)))
    for row in range(points.shape[1]):
        whitened = inverse[:, row] @ v.T - np.einsum("kd,kd->k", inverse[:, row], middle)[:, None]
        squares += np.square(whitened, out=whitened)
    log_height = np.log(np.einsum("kdd->kd", inverse)).sum(axis=1)
    return np.asarray(prior.variance * np.exp(log_height[:, None] - 0.5 * squares))


def kernel_pairs(prior: Prior, centres: Array, factors: Array) -> Array:
    """κ_jk (K, K)."""
    size, d = centres.shape
    covariance, middle = _covariances(prior, factors), centres @ prior.whitener.T
    result = np.empty((size, size))
    for rows in _chunks(size, size * (d * d + d)):
        sums = covariance[rows, None] + covariance[None] + np.eye(d)
        gaps = middle[rows, None] - middle[None]
        result[rows] = prior.variance * np.exp(_log_bell(sums, gaps))
    return result


def expected_mean(prior: Prior, centres: Array, factors: Array) -> Array:
    """E_j[m] (K,)."""
    spread = np.einsum("de,kdf,kef->k", prior.precision, factors, factors)
    return np.asarray(prior.mean(centres) - 0.5 * spread)


def diagonal_kernel_means(
    h: Hyperparameters, means: Array, sds: Array, points: Array
) -> tuple[Array, Array]:
    """z (n, K) for N(μ, diag σ²), means and sds (K, D); and τ² (K, D)."""
    tau2 = h.lengths**2 + sds**2
    precision = 1 / tau2
    exponent = points @ (means * precision).T
    exponent -= 0.5 * (np.square(points) @ precision.T)
    exponent -= 0.5 * (means**2 * precision).sum(axis=1)
    exponent += np.log(h.lengths).sum() - 0.5 * np.log(tau2).sum(axis=1)
    np.exp(exponent, out=exponent)
    exponent *= h.variance
    return exponent, tau2


def diagonal_kernel_mean_gradients(
    weighted: Array, means: Array, sds: Array, tau2: Array, points: Array
) -> tuple[Array, Array]:
    """Gradients of Σ_i c_ik z_ik with respect to μ_k and σ_k, from `weighted` = c ∘ z (n, K)."""
    total = weighted.sum(axis=0)[:, None]
    first = weighted.T @ points
    second = weighted.T @ np.square(points) - 2 * means * first + means**2 * total
    d_means = (first - means * total) / tau2
    d_sds = sds / tau2 * (second / tau2 - total)
    return d_means, d_sds


def diagonal_kernel_pairs(h: Hyperparameters, means: Array, sds: Array) -> Array:
    """κ_jk (K, K)."""
    lengths2 = h.lengths**2
    exponent = np.full((len(means), len(means)), 2 * np.log(np.sqrt(h.variance)))
    for d in range(h.dimension):
        total = lengths2[d] + sds[:, d, None] ** 2 + sds[:, d] ** 2
        gap = means[:, d, None] - means[:, d]
        exponent += 0.5 * np.log(lengths2[d] / total) - 0.5 * gap**2 / total
    return np.asarray(np.exp(exponent))


def diagonal_kernel_self_pairs(h: Hyperparameters, sds: Array) -> tuple[Array, Array]:
    """κ_kk (K,), and its gradient with respect to σ (K, D)."""
    doubled = h.lengths**2 + 2 * sds**2
    log_pair = np.log(h.lengths).sum() - 0.5 * np.log(doubled).sum(axis=1)
    pair = h.variance * np.exp(log_pair)
    return pair, -2 * pair[:, None] * sds / doubled


def diagonal_expected_mean(
    h: Hyperparameters, means: Array, sds: Array
) -> tuple[Array, Array, Array]:
    """½ Σ_d ((μ_d − c_d)² + σ_d²)/ω_d² (K,), which m0 exceeds E_k[m] by; its gradients."""
    widths2 = np.exp(2 * h.log_widths)
    away = means - h.centre
    bend: Array = 0.5 * ((away**2 + sds**2) / widths2).sum(axis=1)
    return bend, np.asarray(away / widths2), np.asarray(sds / widths2)


def one_kernel_mean(
    h: Hyperparameters, mean: Array, covariance: Array, points: Array
) -> tuple[Array, Array, Array]:
    """z (n,) for one N(μ, Σ); T⁻¹ (x_i − μ) (n, D); and T (D, D)."""
    away = points - mean
    total = np.diag(h.lengths**2) + covariance
    solved = np.asarray(np.linalg.solve(total, away.T).T, dtype=float)
    log_z = np.log(h.lengths).sum() - 0.5 * np.linalg.slogdet(total)[1]
    z = h.variance * np.exp(log_z - 0.5 * np.einsum("nd,nd->n", away, solved))
    return z, solved, total


def _covariances(prior: Prior, factors: Array) -> Array:
    """S_j (K, D, D): covariances in kernel coordinates."""
    scaled = prior.whitener @ factors
    return np.asarray(scaled @ scaled.transpose(0, 2, 1))


def _log_bell(covariance: Array, gap: Array) -> Array:
    """−½ (log |C| + gᵀ C⁻¹ g) for arrays C (..., D, D) and g (..., D), by elimination.

    Plain loops over D: for millions of small matrices ten times faster than LAPACK's.
    """
    d = gap.shape[-1]
    c = [[covariance[..., i, j].copy() for j in range(i + 1)] for i in range(d)]
    g = [gap[..., i].copy() for i in range(d)]
    total = np.zeros(gap.shape[:-1])
    for i in range(d):
        total += np.log(c[i][i]) + g[i] ** 2 / c[i][i]
        for j in range(i + 1, d):
            share = c[j][i] / c[i][i]
            g[j] -= share * g[i]
            for k in range(i + 1, j + 1):
                c[j][k] -= share * c[k][i]
    return -0.5 * total


def _chunks(rows: int, width: int) -> list[slice]:
    """Slices of rows such that rows × width stays below the size of one temporary array."""
    step = max(1, _CHUNK_VALUES // max(1, width))
    return [slice(start, start + step) for start in range(0, rows, step)]
