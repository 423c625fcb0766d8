"""Scores of the baselines that start from nothing: BBVI with two sizes, nautilus and emcee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import bbvi
from benchmarks.metrics import Approximation, metrics
from benchmarks.neuronal import LogJoint
from benchmarks.neuronal_truth import Target
from benchmarks.priors import Array
from benchmarks.protocol import Case, filtered, rounded, target_of, truth_of
from benchmarks.record import BenchmarkProblem
from benchmarks.samplers import ensemble_mcmc, nested_sampling, noisy_values
from vbstack import Link
from vbstack.runs.transform import PROBIT, UNBOUNDED

REPEATS = 5
RUNS_OF_BUDGET = 10


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


def fast(target: BenchmarkProblem) -> BenchmarkProblem:
    """The same problem; the neuronal one by its modes, which equal NEURON to rounding."""
    joint = target.log_densities
    if not isinstance(joint, LogJoint):
        return target
    by_modes = Target(joint)
    return replace(target, log_densities=lambda x: np.array([by_modes.log_joint(row) for row in x]))


METHODS: dict[str, Callable[[BenchmarkProblem, int, int], Approximation]] = {
    "bbvi50": partial(bbvi_fit, 50),
    "bbvi500": partial(bbvi_fit, 500),
    "nautilus": nested_sampling,
    "emcee": ensemble_mcmc,
}


def budget_of_runs(case: Case) -> int:
    """The evaluations of the first ten runs that pass the filters."""
    runs = filtered(case).runs[:RUNS_OF_BUDGET]
    return int(sum(len(run.evaluations.values) for run in runs if run.evaluations is not None))


def row_of(case: Case, method: str, repeat: int, limit: int | None = None) -> dict[str, Any]:
    """One repetition of one baseline; `limit` lowers BBVI's budget, to try things."""
    target = fast(target_of(case))
    budget = budget_of_runs(case)
    if method.startswith("bbvi"):
        budget = limit or bbvi.budget_of(target.dimension, target.noise_sd > 0)
    result = METHODS[method](target, budget, repeat)
    scores = rounded({"elbo": result.log_evidence, **asdict(metrics(result, truth_of(case)))})
    known = {key: None if np.isnan(value) else value for key, value in scores.items()}
    return {"problem": case.problem, "method": method, "runs": None, "subset": repeat, **known}
