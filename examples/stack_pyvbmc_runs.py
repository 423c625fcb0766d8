"""Bring your own log density: a few VBMC runs, then one stacked posterior (about a minute).

    python -m examples.stack_pyvbmc_runs [number of runs]

The target has two modes of unequal size and one bounded parameter. Single runs tend to settle in
one mode; the stack weighs both.
"""

from __future__ import annotations

import sys

import numpy as np
from pyvbmc import VBMC
from scipy.stats import norm

from vbstack import Run, StackedPosterior, stack

NAMES = ("offset", "rate")
OPTIONS = {"display": "off", "show_tips": False}
LOWER, UPPER = np.array([-np.inf, 0.0]), np.array([np.inf, 10.0])
PLAUSIBLE_LOWER, PLAUSIBLE_UPPER = np.array([-6.0, 1.0]), np.array([6.0, 9.0])


def log_density(x: np.ndarray) -> float:
    """Two modes along `offset`, with weights 0.7 and 0.3; log evidence 0."""
    offset = np.logaddexp(
        np.log(0.7) + norm.logpdf(x[0], -4, 0.5), np.log(0.3) + norm.logpdf(x[0], 4, 0.5)
    )
    return float(offset + norm.logpdf(x[1], 4, 1))


def one_run(seed: int) -> Run:
    """A short VBMC run from a random start."""
    start = np.random.default_rng(seed).uniform(PLAUSIBLE_LOWER, PLAUSIBLE_UPPER)
    vbmc = VBMC(
        log_density,
        start,
        LOWER,
        UPPER,
        PLAUSIBLE_LOWER,
        PLAUSIBLE_UPPER,
        options=OPTIONS,
        seed=seed,
    )
    vp, _ = vbmc.optimize()
    return Run.from_pyvbmc(vp, names=NAMES, seed=seed, start=start)


def main(n_runs: int = 4) -> StackedPosterior:
    runs = []
    for seed in range(n_runs):
        runs.append(one_run(seed))
        print(f"run {seed}: ELBO {runs[-1].elbo:.3f}", flush=True)
    posterior = stack(runs)
    print(posterior.summary())
    return posterior


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
