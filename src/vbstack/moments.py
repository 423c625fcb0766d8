"""Mean and covariance of a stack in the original space, by quadrature, without Monte Carlo.

In link space they are closed-form. The link acts on each coordinate alone, so a mean needs
one-dimensional and a covariance two-dimensional Gaussian integrals per component (Gauss–Hermite).
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from vbstack.mixture import Mixture
from vbstack.transform import Link

Array = NDArray[np.float64]

_ORDER = 40


def mixture_moments(
    mixture: Mixture, weights: Array, *, original: bool = True
) -> tuple[Array, Array]:
    """Mean (D,) and covariance (D, D) of Σ_j w_j p_j; in link space when not `original`."""
    keep = np.flatnonzero(weights)
    part, w = mixture.restricted(keep), weights[keep]
    centres = part.centres
    covariances = np.matmul(part.factors, part.factors.transpose(0, 2, 1))
    means, second = centres.copy(), covariances + centres[:, :, None] * centres[:, None, :]
    if original:
        for index, link in enumerate(part.links):
            rows = part.link_of == index
            if rows.any() and not link.is_identity:
                means[rows], second[rows] = _linked_moments(link, centres[rows], covariances[rows])
    mean = w @ means
    return mean, np.einsum("k,kde->de", w, second) - np.outer(mean, mean)


def _linked_moments(link: Link, centres: Array, covariances: Array) -> tuple[Array, Array]:
    """E[θ] (K, D) and E[θ θᵀ] (K, D, D) of Gaussians in link space."""
    nodes, node_weights = hermegauss(_ORDER)
    node_weights = node_weights / node_weights.sum()
    size, d = centres.shape
    sds = np.sqrt(np.einsum("kdd->kd", covariances))
    means, second = np.empty((size, d)), np.empty((size, d, d))
    # (K, nodes, D): each coordinate along its own nodes.
    y = centres[:, None, :] + sds[:, None, :] * nodes[None, :, None]
    along = _inverse(link, y)
    means[:] = np.einsum("n,knd->kd", node_weights, along)
    for a in range(d):
        second[:, a, a] = np.einsum("n,kn->k", node_weights, along[:, :, a] ** 2)
        for b in range(a):
            rho = covariances[:, a, b] / (sds[:, a] * sds[:, b])
            z = (
                rho[:, None, None] * nodes[None, :, None]
                + np.sqrt(np.maximum(0, 1 - rho**2))[:, None, None] * nodes[None, None, :]
            )
            y_b = centres[:, b, None, None] + sds[:, b, None, None] * z
            theta_b = _inverse_coordinate(link, b, y_b) @ node_weights
            second[:, a, b] = second[:, b, a] = (along[:, :, a] * theta_b) @ node_weights
    return means, second


def _inverse(link: Link, y: Array) -> Array:
    return link.inverse(y.reshape(-1, y.shape[-1])).reshape(y.shape)


def _inverse_coordinate(link: Link, d: int, y: Array) -> Array:
    one = Link(link.kinds[d : d + 1], link.lower[d : d + 1], link.upper[d : d + 1])
    return one.inverse(y.reshape(-1, 1)).reshape(y.shape)
