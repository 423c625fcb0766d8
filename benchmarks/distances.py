"""How far a posterior is from the truth, from samples of both (paper, sec. 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyvbmc.stats import kde_1d, kl_div_mvn

Array = NDArray[np.float64]


def mmtv(p: Array, q: Array) -> float:
    """Mean over dimensions of the total variation between the marginals of two samples (n, D).

    Marginal densities are kernel estimates on a common grid, with pyvbmc's bandwidth rule.
    """
    return float(np.mean([_total_variation(a, b) for a, b in zip(p.T, q.T, strict=True)]))


def gskl(p: Array, q: Array) -> float:
    """Symmetrised KL divergence, over 2 D, of the Gaussians with the samples' moments."""
    moments = [(sample.mean(axis=0), np.cov(sample, rowvar=False)) for sample in (p, q)]
    return float(np.sum(kl_div_mvn(*moments[0], *moments[1])) / (2 * p.shape[1]))


def _total_variation(a: Array, b: Array) -> float:
    lower, upper = min(a.min(), b.min()), max(a.max(), b.max())
    margin = 0.1 * (upper - lower)
    densities = []
    for sample in (a, b):
        density, grid, _ = kde_1d(sample, 2**13, lower - margin, upper + margin)
        densities.append(density / np.trapezoid(density, grid))
    return float(0.5 * np.trapezoid(np.abs(densities[0] - densities[1]), grid))
