"""Densities of one parameter: of a mixture of Gaussians, and of weighted draws."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

from benchmarks.arrays import Array

MESH = 4096
_LOG_2PI = float(np.log(2 * np.pi))


def gaussian_sum(x: Array, weights: Array, means: Array, sds: Array) -> Array:
    """Σ_j w_j N(x; m_j, s_j²) at x (n,)."""
    z = (x[:, None] - means) / sds
    return np.asarray(np.exp(-0.5 * (z * z + _LOG_2PI)) @ (weights / sds))


def kernel_density(draws: Array, weights: Array) -> tuple[Array, Array]:
    """Mesh and density of weighted draws (n,): Gaussian kernels with Botev's bandwidth.

    Repeated draws would be taken for structure and shrink the bandwidth. So it comes from distinct
    ones, as many as the weights are worth, (Σw)²/Σw², chosen by weight.
    """
    from pyvbmc.stats import kde_1d

    values, place = np.unique(draws, return_inverse=True)
    w = np.bincount(place, weights)
    w = w / w.sum()
    worth = min(int(1 / np.square(w).sum()), int(np.count_nonzero(w)))
    picked = np.random.default_rng(0).choice(values, max(worth, 2), replace=False, p=w)
    bandwidth = float(np.ravel(kde_1d(picked, MESH)[2])[0])
    margin = 6 * bandwidth
    edges = np.linspace(values[0] - margin, values[-1] + margin, MESH + 1)
    step = edges[1] - edges[0]
    histogram = np.histogram(values, edges, weights=w)[0] / step
    density = gaussian_filter1d(histogram, bandwidth / step, mode="constant", truncate=6.0)
    return (edges[:-1] + edges[1:]) / 2, density
