"""Small problems with known evidence, and runs of the native engine on them."""

from dataclasses import replace

import numpy as np

from vbstack import Problem
from vbstack.engines.native.loop import run_native
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal

CENTRE, SPREAD = np.array([1.0, -0.5, 2.0]), np.array([0.5, 1.0, 0.3])
LOG_EVIDENCE = 1.5 * np.log(2 * np.pi) + np.log(SPREAD).sum()


def gaussian(x):
    return float(-0.5 * np.sum(((x - CENTRE) / SPREAD) ** 2))


def noisy_gaussian(x, rng):
    return gaussian(x) + 2.0 * rng.standard_normal(), 2.0


def beta(x):
    return float(3 * np.log1p(-x[0]) + np.log(4))


def gaussian_problem(dimension=3):
    return Problem(
        log_density=gaussian,
        plausible_lower_bounds=[-3] * dimension,
        plausible_upper_bounds=[4] * dimension,
    )


def noisy_gaussian_problem(dimension=3):
    return replace(gaussian_problem(dimension), log_density=noisy_gaussian, noisy=True)


def beta_problem(low=0.1, high=0.9):
    """Beta(1, 4) of one bounded parameter: log evidence 0, mean 1/5, mass at the lower bound."""
    return Problem(
        log_density=beta,
        lower_bounds=[0.0],
        upper_bounds=[1.0],
        plausible_lower_bounds=[low],
        plausible_upper_bounds=[high],
        names=("rate",),
    )


def native_run(problem, start, seed, options=None, journal=None):
    """One run of the native engine in this process."""
    recorder = Recorder(problem, seed, Journal() if journal is None else journal)
    return run_native(problem, np.asarray(start, dtype=float), seed, recorder, options or {})


def gaussian_run(options=None, journal=None):
    """The run of `gaussian_problem` with seed 5 from the origin."""
    return native_run(gaussian_problem(), np.zeros(3), 5, options, journal)
