"""Hard bounds and names: learning and forgetting rates that must lie between 0 and 1.

    python -m examples.bounded_parameters

A parameter may have both hard bounds, one or none; inside them a plausible box says where you
expect most of the posterior. The log density is never asked for a value outside the hard bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vbstack import Problem, StackedPosterior, fit

CORRECT = np.array([0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1])


def log_likelihood(theta: np.ndarray) -> float:
    """A learner whose skill grows by `learning` of what is missing and fades by `forgetting`."""
    learning, forgetting, guess = theta
    skill, total = 0.0, 0.0
    for correct in CORRECT:
        p = guess + (1 - guess) * skill
        total += np.log(p if correct else 1 - p)
        skill = (1 - forgetting) * (skill + learning * (1 - skill))
    return float(total)


def log_prior(theta: np.ndarray) -> float:
    """Uniform within the hard bounds."""
    return float(-np.sum(np.log(UPPER - LOWER)))


LOWER, UPPER = np.array([0.0, 0.0, 0.05]), np.array([1.0, 0.5, 0.8])

problem = Problem(
    log_density=log_likelihood,
    prior=log_prior,
    lower_bounds=LOWER,
    upper_bounds=UPPER,
    plausible_lower_bounds=[0.05, 0.01, 0.2],
    plausible_upper_bounds=[0.6, 0.2, 0.6],
    names=("learning", "forgetting", "guess"),
)


def main(n_runs: int = 4, **settings: Any) -> StackedPosterior:
    posterior = fit(problem, n_runs, seed=1, **settings)
    print(posterior.summary())
    draws = posterior.sample(10_000, seed=0)
    inside = np.all((draws > LOWER) & (draws < UPPER))
    print(f"Every draw is within the hard bounds: {inside}")
    return posterior


if __name__ == "__main__":
    main()
