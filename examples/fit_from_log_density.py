"""From a log density to a stacked posterior in one call: bounds, names, and a noisy likelihood.

    python -m examples.fit_from_log_density [number of runs] [directory]

The model is a simulator: the log-likelihood of a rate and a bias is estimated from 400 simulated
choices per condition, so every evaluation is noisy. Interrupt the script and start it again with
the same directory: it goes on where it was.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np

from vbstack import Problem, Screen, StackedPosterior, fit

STIMULI = np.linspace(-2, 2, 9)
CHOICES = np.array([3, 4, 9, 15, 22, 30, 35, 37, 39])  # of 40 trials at each stimulus
TRIALS, SIMULATIONS = 40, 400


def log_likelihood(theta: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Binomial log-likelihood with simulated choice probabilities, and its standard deviation."""
    rate, bias = theta
    noise = rng.standard_normal((SIMULATIONS, STIMULI.size))
    chosen = (rate * STIMULI + bias + noise > 0).sum(axis=0)
    p = (chosen + 1) / (SIMULATIONS + 2)
    value = CHOICES * np.log(p) + (TRIALS - CHOICES) * np.log(1 - p)
    slope = CHOICES / p - (TRIALS - CHOICES) / (1 - p)
    sd = np.sqrt(np.sum(slope**2 * p * (1 - p) / SIMULATIONS))
    return float(value.sum()), float(max(sd, 0.1))


problem = Problem(
    log_density=log_likelihood,
    lower_bounds=[0.0, -5.0],
    upper_bounds=[10.0, 5.0],
    plausible_lower_bounds=[0.3, -1.0],
    plausible_upper_bounds=[3.0, 1.0],
    names=("rate", "bias"),
    noisy=True,
)


def main(n_runs: int = 4, directory: str | None = None, **settings: Any) -> StackedPosterior:
    print(problem.check())
    posterior = fit(
        problem,
        n_runs,
        store=directory or tempfile.mkdtemp(prefix="vbstack-"),
        seed=1,
        screen=Screen(require_converged=False),
        **settings,
    )
    print(posterior.summary())
    return posterior


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 4, given[1] if len(given) > 1 else None)
