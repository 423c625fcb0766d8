"""Quadratic functions of many points as one matrix product.

With the features φ(x) = (x_a x_b for a ≤ b, x_1 … x_D, 1) a quadratic h − ½ (x − c)ᵀ P (x − c) is a
row of coefficients times φ(x), and Σ_n ρ_n φ(x_n) holds the moments of weighted points up to the
second. What cancels is of the order of (distance from the origin / smallest width)² times the
machine epsilon, so the origin should be among the points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vbstack.arrays import Array


class Moments(NamedTuple):
    """Σ ρ (K,), Σ ρ (x − c) (K, D) and Σ ρ (x − c)(x − c)ᵀ (K, D, D)."""

    total: Array
    first: Array
    second: Array


def features(points: Array) -> Array:
    """φ (n, D(D+1)/2 + D + 1) at points (n, D)."""
    rows, columns = np.triu_indices(points.shape[1])
    pairs = points[:, rows] * points[:, columns]
    return np.column_stack([pairs, points, np.ones(len(points))])


def coefficients(heights: Array, centres: Array, precisions: Array) -> Array:
    """Rows (K, f) for heights (K,), centres (K, D) and precisions (K, D, D)."""
    rows, columns = np.triu_indices(centres.shape[1])
    pairs = precisions[:, rows, columns] * np.where(rows == columns, -0.5, -1.0)
    slopes = (precisions @ centres[:, :, None])[:, :, 0]
    constant = heights - 0.5 * np.einsum("kd,kd->k", slopes, centres)
    return np.column_stack([pairs, slopes, constant])


def moments(weighted: Array, centres: Array) -> Moments:
    """The moments about centres (K, D) of `weighted` (K, f) = Σ_n ρ_n φ(x_n)."""
    d = centres.shape[1]
    rows, columns = np.triu_indices(d)
    total, raw = weighted[:, -1], weighted[:, -1 - d : -1]
    second = np.empty((len(centres), d, d))
    second[:, rows, columns] = second[:, columns, rows] = weighted[:, : -1 - d]
    cross = centres[:, :, None] * raw[:, None, :]
    second -= cross + cross.transpose(0, 2, 1)
    second += total[:, None, None] * centres[:, :, None] * centres[:, None, :]
    return Moments(total, raw - total[:, None] * centres, second)
