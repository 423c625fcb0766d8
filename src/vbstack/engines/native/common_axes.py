"""Common axes: the rotation in which the target is nearly diagonal around every component.

Around component k the surrogate is a Gaussian of precision H_k = −E_k[∇²f̄]. A diagonal component
loses ½ (Σ_i log (RᵀH_kR)_ii − log|H_k|) nats there. The rotation R of common principal components
(Flury 1984) loses least on average,

    minimise  ½ Σ_k w_k Σ_i log (RᵀH_kR)_ii,

sought in one plane after the other. The precisions are `quadrature.expected_curvatures`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from vbstack.arrays import Array

_ANGLES = np.linspace(0.0, 0.5 * np.pi, 90, endpoint=False)
_SWEEPS = 10
_TOLERANCE = 1e-3  # nats


def no_wider(precisions: Array, covariance: Array) -> Array:
    """The precisions (K, D, D), raised where a direction is wider than in this covariance."""
    factor = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    values, vectors = np.linalg.eigh(factor.T @ precisions @ factor)
    raised = (vectors * np.maximum(values, 1.0)[:, None]) @ np.swapaxes(vectors, 1, 2)
    return np.asarray(inverse.T @ raised @ inverse)


def common_axes(matrices: Array, weights: Array) -> Array:
    """The rotation (D, D) in which these precisions (K, D, D) lose least by being made diagonal."""
    h, rotation = matrices, np.eye(matrices.shape[1])
    for _ in range(_SWEEPS):
        before = lost(h, weights)
        for i, j in combinations(range(len(rotation)), 2):
            turn = _best_turn(h, weights, i, j)
            h, rotation = turn.T @ h @ turn, rotation @ turn
        if before - lost(h, weights) < _TOLERANCE:
            break
    return rotation


def lost(h: Array, weights: Array) -> float:
    """½ Σ_k w_k Σ_i log (H_k)_ii: nats that diagonal components lose, up to a constant."""
    return float(0.5 * weights @ np.log(np.einsum("kii->ki", h)).sum(axis=1))


def _best_turn(h: Array, weights: Array, i: int, j: int) -> Array:
    """The rotation (D, D) in the plane of axes i and j that loses least there."""
    cos, sin = np.cos(_ANGLES), np.sin(_ANGLES)
    a, b, c = h[:, i, i, None], h[:, i, j, None], h[:, j, j, None]
    first = cos**2 * a + 2 * cos * sin * b + sin**2 * c
    best = int(np.argmin(weights @ np.log(first * (a + c - first))))
    turn = np.eye(h.shape[1])
    turn[i, i] = turn[j, j] = cos[best]
    turn[j, i], turn[i, j] = sin[best], -sin[best]
    return turn
