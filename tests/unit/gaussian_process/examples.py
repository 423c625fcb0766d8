"""A prior and Gaussians with full matrices, and quadrature points, for the tests here."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from vbstack.gaussian_process.prior import Prior

Array = NDArray[np.float64]


def full_prior(dimension: int = 2, *, variance: float = 4.0, seed: int = 0) -> Prior:
    """A prior as it is after an affine map: neither matrix is diagonal."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dimension, dimension))
    return Prior(
        variance=variance,
        whitener=np.eye(dimension) + 0.3 * rng.normal(size=(dimension, dimension)),
        height=-1.5,
        centre=rng.normal(size=dimension),
        precision=root @ root.T,
    )


def gaussians(size: int, dimension: int = 2, seed: int = 1) -> tuple[Array, Array]:
    """Centres (K, D) and factors (K, D, D)."""
    rng = np.random.default_rng(seed)
    factors = 0.4 * np.eye(dimension) + 0.15 * rng.normal(size=(size, dimension, dimension))
    return rng.normal(size=(size, dimension)), factors


def diagonal_factors(sds: Array) -> Array:
    """F (K, D, D) of Gaussians with these standard deviations (K, D)."""
    return np.asarray(sds[:, :, None] * np.eye(sds.shape[1]))


def grid(centre: Array, factor: Array, order: int = 24) -> tuple[Array, Array]:
    """Gauss–Hermite points and weights of N(centre, F Fᵀ) in two dimensions."""
    nodes, weights = hermegauss(order)
    z = np.array([(a, b) for a in nodes for b in nodes])
    return centre + z @ factor.T, np.outer(weights, weights).ravel() / weights.sum() ** 2
