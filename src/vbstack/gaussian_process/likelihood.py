"""The log likelihood of a Gaussian process, from the Cholesky factor L of K = k + noise."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from vbstack.arrays import Array

LOG_2PI = float(np.log(2 * np.pi))


def factorised(kernel: Array, noise_variance: Array) -> Array | None:
    """L, lower; None where the matrix is not positive definite. `kernel` is overwritten."""
    kernel[np.diag_indices(len(kernel))] += noise_variance
    factor, info = lapack.dpotrf(kernel, lower=1, overwrite_a=1, clean=1)
    return None if info else factor


def log_likelihood(factor: Array, residual: Array, alpha: Array) -> float:
    """log N(residual; 0, L Lᵀ), with α = (L Lᵀ)⁻¹ residual."""
    half_log_determinant = float(np.log(np.diag(factor)).sum())
    return -0.5 * float(residual @ alpha + residual.size * LOG_2PI) - half_log_determinant
