"""Bayesian quadrature with a dense process: expected log-joints of a run's components.

For N(μ_k, diag σ_k²), with z and κ as in `integrals` (Acerbi 2018, app. A):

    I_k = zᵀα + E_k[m]          J_jk = κ_jk − z_jᵀK⁻¹z_k
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from vbstack.arrays import Array
from vbstack.gaussian_process.dense import OUTSIDE_NATS, DenseProcess
from vbstack.gaussian_process.integrals import (
    diagonal_expected_mean,
    diagonal_kernel_mean_gradients,
    diagonal_kernel_means,
    diagonal_kernel_pairs,
    diagonal_kernel_self_pairs,
    one_kernel_mean,
)


def expected_log_joints(
    process: DenseProcess, means: Array, sds: Array
) -> tuple[Array, Array, Array]:
    """I (K,), ∂I/∂μ (K, D), ∂I/∂σ (K, D); lowered by 10 nats × the share outside the support."""
    h, x = process.hyperparameters, process.data.inputs
    z, tau2 = diagonal_kernel_means(h, means, sds, x)
    bend, bend_means, bend_sds = diagonal_expected_mean(h, means, sds)
    values = process.alpha @ z + h.height - bend
    weighted = process.alpha[:, None] * z
    d_means, d_sds = diagonal_kernel_mean_gradients(weighted, means, sds, tau2, x)
    d_means, d_sds = d_means - bend_means, d_sds - bend_sds
    if process.outside is not None:
        share, share_means, share_sds = expected_log_joints(process.outside, means, sds)
        values = values - OUTSIDE_NATS * share
        d_means, d_sds = d_means - OUTSIDE_NATS * share_means, d_sds - OUTSIDE_NATS * share_sds
    return values, d_means, d_sds


def variances(process: DenseProcess, means: Array, sds: Array) -> tuple[Array, Array, Array]:
    """J_kk (K,), ∂J/∂μ (K, D), ∂J/∂σ (K, D)."""
    h, x = process.hyperparameters, process.data.inputs
    z, tau2 = diagonal_kernel_means(h, means, sds, x)
    solved = lapack.dpotrs(process.factor, z, lower=1)[0]
    prior, d_prior = diagonal_kernel_self_pairs(h, sds)
    values = prior - np.einsum("nk,nk->k", z, solved)
    d_means, d_sds = diagonal_kernel_mean_gradients(solved * z, means, sds, tau2, x)
    return np.maximum(values, 1e-12), -2 * d_means, d_prior - 2 * d_sds


def standard_deviations(process: DenseProcess, means: Array, sds: Array) -> Array:
    """√J_kk (K,)."""
    return np.sqrt(variances(process, means, sds)[0])


def covariance(process: DenseProcess, means: Array, sds: Array) -> Array:
    """J (K, K): covariance of all expected log-joints."""
    z, _ = diagonal_kernel_means(process.hyperparameters, means, sds, process.data.inputs)
    v = solve_triangular(process.factor, z, lower=True, check_finite=False)
    return np.asarray(diagonal_kernel_pairs(process.hyperparameters, means, sds) - v.T @ v)


@dataclass(frozen=True)
class GaussianExpectations:
    """E_q[f̄], E_q[∇f̄] (D,) and E_q[∇²f̄] (D, D) for q = N(μ, Σ)."""

    value: float
    slope: Array
    curvature: Array


def gaussian_expectations(
    process: DenseProcess, mean: Array, covariance: Array
) -> GaussianExpectations:
    """The expectations under one Gaussian with a full covariance. With T = diag ℓ² + Σ

    E_q[∇f̄]  = T⁻¹ Σ_i α_i z_i (x_i − μ) − ω⁻² (μ − c)
    E_q[∇²f̄] = T⁻¹ (Σ_i α_i z_i (x_i − μ)(x_i − μ)ᵀ) T⁻¹ − T⁻¹ Σ_i α_i z_i − diag ω⁻²
    """
    h = process.hyperparameters
    z, solved, total = one_kernel_mean(h, mean, covariance, process.data.inputs)
    weighted = process.alpha * z
    from_centre, precision = mean - h.centre, h.mean_precision
    quadratic = precision @ (from_centre**2 + np.diag(covariance))
    value = weighted.sum() + h.height - 0.5 * quadratic
    if process.outside is not None:  # the slope and the curvature are those without it
        value -= OUTSIDE_NATS * gaussian_expectations(process.outside, mean, covariance).value
    return GaussianExpectations(
        value=value,
        slope=weighted @ solved - precision * from_centre,
        curvature=(solved * weighted[:, None]).T @ solved
        - np.linalg.inv(total) * weighted.sum()
        - np.diag(precision),
    )
