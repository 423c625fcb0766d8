"""Pareto-smoothed importance weights (Vehtari, Simpson, Gelman, Yao & Gabry 2024).

The largest ratios w = p/q are the tail of a generalised Pareto law with shape k. They are replaced
by its quantiles, which have less noise, and k says whether their mean can be trusted: up to 0.7 it
can, above 1 the law has no mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vbstack.arrays import Array

TRUSTED = 0.7  # shape up to which the mean of the ratios can be trusted
_FEWEST = 5  # ratios of a tail that a law can be fitted to
_PRIOR_SHAPE, _PRIOR_COUNT = 0.5, 10  # a few ratios' worth of belief in a shape of one half


class Smoothed(NamedTuple):
    """Log ratios (n,) with a smooth tail, and its shape k; −inf where there is no tail."""

    log_ratios: Array
    shape: float


def pareto_smoothed(log_ratios: Array) -> Smoothed:
    """The ratios with the largest of them smoothed: 3 √n of them, a fifth at most."""
    n = log_ratios.size
    count = int(min(0.2 * n, 3 * np.sqrt(n)))
    order = np.argsort(log_ratios)
    tail, below = order[n - count :], order[n - count - 1] if count < n else order[0]
    top = log_ratios[order[-1]]
    cutoff = np.exp(log_ratios[below] - top)
    excess = np.exp(log_ratios[tail] - top) - cutoff
    if count < _FEWEST or not excess[0] > 0.0:
        return Smoothed(log_ratios, -np.inf)
    shape, scale = fitted_pareto(excess)
    if not np.isfinite(shape):
        return Smoothed(log_ratios, np.inf)
    ranks = (np.arange(count) + 0.5) / count
    smooth = np.array(log_ratios, dtype=float)
    smooth[tail] = top + np.log(np.minimum(cutoff + _quantiles(ranks, shape, scale), 1.0))
    return Smoothed(smooth, shape)


def fitted_pareto(excess: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto law, of ascending positive values (n,).

    With θ = −k/σ the likelihood has its maximum over k in closed form. θ is averaged over a grid,
    each value as likely as its profile (Zhang & Stephens 2009); k is drawn to one half.
    """
    n = excess.size
    size = 30 + int(np.sqrt(n))
    quartile = excess[max(0, int(n / 4 + 0.5) - 1)]
    theta = 1 / excess[-1] + (1 - np.sqrt(size / (np.arange(size) + 0.5))) / (3 * quartile)

    def shapes(theta: Array) -> Array:
        return np.asarray(np.log1p(-theta[:, None] * excess).mean(axis=1))

    k = shapes(theta)
    log_profile = n * (np.log(-theta / k) - k - 1)
    weight = np.exp(log_profile - logsumexp(log_profile))
    mean = np.array([weight @ theta])
    shape = float(shapes(mean)[0])
    scale = float(-shape / mean[0])
    return (n * shape + _PRIOR_COUNT * _PRIOR_SHAPE) / (n + _PRIOR_COUNT), scale


def _quantiles(ranks: Array, shape: float, scale: float) -> Array:
    if abs(shape) < 1e-8:
        return np.asarray(-scale * np.log1p(-ranks))
    return np.asarray(scale * np.expm1(-shape * np.log1p(-ranks)) / shape)
