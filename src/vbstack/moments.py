"""Mean and covariance of a stack in the original space, by quadrature, without Monte Carlo.

In link space they are closed-form. The link acts on each coordinate alone, so a mean needs
one-dimensional and a covariance two-dimensional Gaussian integrals per component (trapezoid rule;
errors below 1e-5 of the bounds' range for components up to five times as wide as the link's scale).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vbstack.mixture import Mixture
from vbstack.transform import Link

Array = NDArray[np.float64]

_NODES = np.linspace(-8, 8, 97)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


def mixture_moments(
    mixture: Mixture, weights: Array, *, original: bool = True
) -> tuple[Array, Array]:
    """Mean (D,) and covariance (D, D) of Σ_j w_j p_j; in link space when not `original`.

    The covariance is Σ_j w_j (C_j + (m_j − m)(m_j − m)ᵀ): second moments about zero would cancel.
    """
    keep = np.flatnonzero(weights)
    part, w = mixture.restricted(keep), weights[keep]
    means = part.centres.copy()
    covariances = np.matmul(part.factors, part.factors.transpose(0, 2, 1))
    for index, link in enumerate(part.links if original else ()):
        rows = part.link_of == index
        if rows.any() and not link.is_identity:
            means[rows], covariances[rows] = _linked_moments(link, means[rows], covariances[rows])
    mean = w @ means
    spread = means - mean
    return mean, np.einsum("k,kde->de", w, covariances + spread[:, :, None] * spread[:, None, :])


def _linked_moments(link: Link, centres: Array, covariances: Array) -> tuple[Array, Array]:
    """E[θ] (K, D) and Cov[θ] (K, D, D) of Gaussians in link space."""
    d = centres.shape[1]
    sds = np.sqrt(np.einsum("kdd->kd", covariances))
    # (K, nodes, D): each coordinate along its own nodes.
    y = centres[:, None, :] + sds[:, None, :] * _NODES[None, :, None]
    along = link.inverse(y.reshape(-1, d)).reshape(y.shape)
    means = np.einsum("n,knd->kd", _WEIGHTS, along)
    along = along - means[:, None, :]
    result = np.empty_like(covariances)
    for a in range(d):
        result[:, a, a] = np.square(along[:, :, a]) @ _WEIGHTS
        for b in range(a):
            rho = covariances[:, a, b] / (sds[:, a] * sds[:, b])
            rest = np.sqrt(np.maximum(0, 1 - rho**2))
            z = rho[:, None, None] * _NODES[:, None] + rest[:, None, None] * _NODES
            y_b = centres[:, b, None, None] + sds[:, b, None, None] * z
            theta_b = _inverse_coordinate(link, b, y_b) @ _WEIGHTS - means[:, b, None]
            result[:, a, b] = result[:, b, a] = (along[:, :, a] * theta_b) @ _WEIGHTS
    return means, result


def _inverse_coordinate(link: Link, d: int, y: Array) -> Array:
    one = Link(link.kinds[d : d + 1], link.lower[d : d + 1], link.upper[d : d + 1])
    return one.inverse(y.reshape(-1, 1)).reshape(y.shape)
