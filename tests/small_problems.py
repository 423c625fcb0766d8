"""Small problems with known evidence, and runs of the native engine on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbstack import Evaluations, Problem, Run
from vbstack.engines.native.loop import run_native
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal

Array = NDArray[np.float64]

CENTRE, SPREAD = np.array([1.0, -0.5, 2.0]), np.array([0.5, 1.0, 0.3])
LOG_EVIDENCE = 1.5 * np.log(2 * np.pi) + np.log(SPREAD).sum()


def gaussian(x: Array) -> float:
    return float(-0.5 * np.sum(((x - CENTRE) / SPREAD) ** 2))


def noisy_gaussian(x: Array, rng: np.random.Generator) -> tuple[float, float]:
    return gaussian(x) + 2.0 * rng.standard_normal(), 2.0


def beta(x: Array) -> float:
    return float(3 * np.log1p(-x[0]) + np.log(4))


def gaussian_problem(dimension: int = 3) -> Problem:
    return Problem(
        log_density=gaussian,
        plausible_lower_bounds=[-3] * dimension,
        plausible_upper_bounds=[4] * dimension,
    )


def noisy_gaussian_problem(dimension: int = 3) -> Problem:
    return replace(gaussian_problem(dimension), log_density=noisy_gaussian, noisy=True)


def beta_problem(low: float = 0.1, high: float = 0.9) -> Problem:
    """Beta(1, 4) of one bounded parameter: log evidence 0, mean 1/5, mass at the lower bound."""
    return Problem(
        log_density=beta,
        lower_bounds=[0.0],
        upper_bounds=[1.0],
        plausible_lower_bounds=[low],
        plausible_upper_bounds=[high],
        names=("rate",),
    )


def native_run(
    problem: Problem,
    start: ArrayLike,
    seed: int,
    options: Mapping[str, Any] | None = None,
    journal: Journal | None = None,
) -> Run:
    """One run of the native engine in this process."""
    recorder = Recorder(problem, seed, Journal() if journal is None else journal)
    return run_native(problem, np.asarray(start, dtype=float), seed, recorder, options or {})


def gaussian_run(options: Mapping[str, Any] | None = None, journal: Journal | None = None) -> Run:
    """The run of `gaussian_problem` with seed 5 from the origin."""
    return native_run(gaussian_problem(), np.zeros(3), 5, options, journal)


def evaluations_of(run: Run) -> Evaluations:
    """The evaluations of a run that must have kept them."""
    assert run.evaluations is not None
    return run.evaluations
