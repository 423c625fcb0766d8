"""The baselines that start from nothing, by name: BBVI with two sizes, nautilus and emcee."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.arrays import Array
from benchmarks.baselines import bbvi
from benchmarks.baselines.samplers import ensemble_mcmc, nested_sampling, noisy_values
from benchmarks.problems import BenchmarkProblem
from benchmarks.scoring.metrics import Approximation
from vbstack import Link
from vbstack.runs.transform import PROBIT, UNBOUNDED


def bbvi_fit(k: int, target: BenchmarkProblem, budget: int, seed: int) -> Approximation:
    """BBVI in the space in which VBMC works: bounded parameters through the probit link, then the
    plausible box scaled to width one around the origin. The paper does not say which it used.
    """
    link, centre, width = space_of(target)
    values = noisy_values(target, seed)

    def log_density(u: Array) -> Array:
        y = centre + width * u
        logs = values(link.inverse(y)) + link.log_jacobian(y) + np.log(width).sum()
        return np.where(np.isfinite(logs), logs, -1e10)

    fit = bbvi.best_fit(log_density, target.dimension, k, budget, seed)
    return bbvi.approximation_of(fit, link, centre, width)


def space_of(target: BenchmarkProblem) -> tuple[Link, Array, Array]:
    """The link, and centre and width of the standardised space within it."""
    d = target.dimension
    if target.lower_bounds is None or target.upper_bounds is None:
        link = Link(np.full(d, UNBOUNDED), np.full(d, -np.inf), np.full(d, np.inf))
    else:
        link = Link(np.full(d, PROBIT), target.lower_bounds, target.upper_bounds)
    ends = np.array([target.plausible_lower_bounds, target.plausible_upper_bounds])
    low, high = link.forward(ends)
    return link, (low + high) / 2, high - low


METHODS: dict[str, Callable[[BenchmarkProblem, int, int], Approximation]] = {
    "bbvi50": partial(bbvi_fit, 50),
    "bbvi500": partial(bbvi_fit, 500),
    "nautilus": nested_sampling,
    "emcee": ensemble_mcmc,
}
