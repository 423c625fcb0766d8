"""Bring your own log density: the shortest complete script.

    python -m examples.quickstart

A straight line through a few points, with unknown noise: three parameters, no bounds needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vbstack import Problem, StackedPosterior, fit

X = np.array([0.1, 0.6, 1.1, 1.9, 2.4, 3.0, 3.7, 4.2])
Y = np.array([1.3, 1.8, 3.0, 4.1, 5.6, 6.4, 8.1, 8.8])


def log_density(theta: np.ndarray) -> float:
    """Log-likelihood plus log prior: intercept and slope N(0, 10²), log noise N(−1, 1)."""
    intercept, slope, log_noise = theta
    residuals = (Y - intercept - slope * X) / np.exp(log_noise)
    likelihood = -0.5 * np.sum(residuals**2 + np.log(2 * np.pi)) - Y.size * log_noise
    priors = (np.array([intercept / 10, slope / 10, log_noise + 1]), np.log([10, 10, 1]))
    return float(likelihood - np.sum(0.5 * priors[0] ** 2 + priors[1] + 0.5 * np.log(2 * np.pi)))


problem = Problem(
    log_density=log_density,
    plausible_lower_bounds=[-2, 0, -3],
    plausible_upper_bounds=[3, 4, 1],
    names=("intercept", "slope", "log noise"),
)


def main(n_runs: int = 4, **settings: Any) -> StackedPosterior:
    print(problem.check())
    posterior = fit(problem, n_runs, seed=1, **settings)
    print(posterior.summary())
    draws = posterior.sample(10_000, seed=0)
    print(f"P(slope > 2) = {np.mean(draws[:, 1] > 2):.2f}")
    return posterior


if __name__ == "__main__":
    main()
