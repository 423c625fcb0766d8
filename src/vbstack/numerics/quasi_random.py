"""Quasi-random normal points: one net of points in the unit cube, shifted at random."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from vbstack.arrays import Array


def shifted_normals(net: Array, shifts: Array, least: float) -> Array:
    """The points of a net in the unit cube, shifted modulo one, as standard normal deviates.

    `least` keeps them off 0 and 1, where the deviates are infinite.
    """
    return np.asarray(ndtri(np.clip((net + shifts) % 1.0, least, 1 - least)))


def centred_normals(size: int, draws: int, dimension: int, rng: np.random.Generator) -> Array:
    """ε (size, draws, D): one Sobol net, shifted anew for every component, as normal deviates.

    Each component's points are centred and whitened, so that quadratic functions are averaged
    exactly: the noise of log q that a fit could otherwise learn is mostly quadratic.
    """
    points = shifted_normals(_net(draws, dimension), rng.random((size, 1, dimension)), 1e-9)
    points -= points.mean(axis=1, keepdims=True)
    second = np.einsum("ksd,kse->kde", points, points) / draws
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(second)).transpose(0, 2, 1))


@cache
def _net(draws: int, dimension: int) -> Array:
    return np.asarray(qmc.Sobol(dimension, scramble=False).random_base2(int(np.log2(draws))))
