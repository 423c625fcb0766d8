"""Quasi-random normal points: one net of points in the unit cube, shifted at random."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from vbstack.arrays import Array


def shifted_normals(net: Array, shifts: Array, least: float) -> Array:
    """The points of a net in the unit cube, shifted modulo one, as standard normal deviates.

    `least` keeps them off 0 and 1, where the deviates are infinite.
    """
    return np.asarray(ndtri(np.clip((net + shifts) % 1.0, least, 1 - least)))
