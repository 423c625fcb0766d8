"""The squared-exponential kernel, in kernel coordinates v = W x: k(x, x') = σ_f² exp(−½ |v − v'|²).

A run's own kernel has W = diag(1/ℓ); after an affine map to another space W is a full matrix.
"""

from __future__ import annotations

import numpy as np

from vbstack.arrays import Array
from vbstack.gaussian_process.hyperparameters import Hyperparameters


def squared_exponential(v: Array, others: Array, variance: float) -> Array:
    """k (n, m) between points in kernel coordinates, in an order that LAPACK can use in place.

    The squares cancel where points are far from the origin and near each other: there the caller
    moves the origin.
    """
    exponent = others @ v.T
    exponent -= 0.5 * np.square(v).sum(axis=1)
    exponent -= 0.5 * np.square(others).sum(axis=1)[:, None]
    np.minimum(exponent, 0, out=exponent)
    np.exp(exponent, out=exponent)
    exponent *= variance
    return np.asarray(exponent.T)


def kernel(hyperparameters: Hyperparameters, points: Array, others: Array) -> Array:
    """k (n, m) between points (n, D) and (m, D) of the run's space."""
    lengths = hyperparameters.lengths
    return squared_exponential(points / lengths, others / lengths, hyperparameters.variance)
