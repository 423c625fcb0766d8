"""The stack's density in your own code: `python -m examples.importance_sampling [number of runs]`.

First the stack as a *proposal*: draws from it, weighted by the true density, give unbiased answers,
and the scatter of the weights shows how good the stack is. That costs new evaluations, so it is for
models where a few thousand are affordable. Then the stack as a *prior*: a first batch of data is
fitted, and its posterior is the prior of the next fit. For this linear model both are checked
against the exact answer.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from benchmarks.archived_runs import archive
from benchmarks.problems import PROBLEMS
from vbstack import Problem, StackedPosterior, fit, load_runs, stack

NOISE, SCALE = 0.5, 2.0
rng = np.random.default_rng(0)
INPUTS = rng.uniform(-1, 1, (2, 15))  # two batches of fifteen measurements
OUTPUTS = 0.4 + 0.7 * INPUTS + NOISE * rng.standard_normal(INPUTS.shape)


def as_proposal(n: int = 20_000) -> tuple[float, float]:
    """The log evidence by importance sampling from a stack of GMM runs, and its standard error."""
    target = PROBLEMS["gmm"]()
    posterior = stack(load_runs(archive("gmm"))[:20])
    draws = posterior.rvs(size=n, random_state=0)
    log_weights = target.log_densities(draws) - posterior.logpdf(draws)
    weights = np.exp(log_weights - logsumexp(log_weights))
    evidence = float(logsumexp(log_weights) - np.log(n))
    error = float(np.sqrt(np.sum((weights - 1 / n) ** 2)))
    print(f"stack's own log evidence   {posterior.evidence.log_evidence:.4f}")
    print(f"importance sampling        {evidence:.4f} ± {error:.4f}")
    print(f"true log evidence          {target.log_evidence:.4f}")
    print(f"effective sample size      {1 / np.sum(weights**2):.0f} of {n}")
    print(f"mean by importance weights {weights @ draws}")
    return evidence, error


def log_likelihood(theta: np.ndarray, batch: int) -> float:
    """Measurements on a line with Gaussian noise."""
    predicted = theta[0] + theta[1] * INPUTS[batch]
    return float(norm.logpdf(OUTPUTS[batch], predicted, NOISE).sum())


def first_prior(theta: np.ndarray) -> float:
    return float(norm.logpdf(theta, 0, SCALE).sum())


def fit_batch(batch: int, prior: Any, n_runs: int, **settings: Any) -> StackedPosterior:
    """The posterior after one batch; the prior is a function, or a stacked posterior."""
    problem = Problem(
        log_density=log_likelihood,
        log_prior=prior,
        plausible_lower_bounds=[-2.0, -2.0],
        plausible_upper_bounds=[2.0, 2.0],
        names=("intercept", "slope"),
        args=(batch,),
    )
    store = tempfile.mkdtemp(prefix="vbstack-")
    return fit(problem, n_runs, store=store, seed=batch, **settings)


def exact_posterior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance after both batches, in closed form."""
    design = np.column_stack([np.ones(INPUTS.size), INPUTS.ravel()])
    precision = design.T @ design / NOISE**2 + np.eye(2) / SCALE**2
    covariance = np.linalg.inv(precision)
    return covariance @ design.T @ OUTPUTS.ravel() / NOISE**2, covariance


def as_prior(n_runs: int = 2, **settings: Any) -> StackedPosterior:
    """The posterior after both batches, the second fitted with the first one's stack as prior."""
    first = fit_batch(0, first_prior, n_runs, **settings)
    second = fit_batch(1, first, n_runs, **settings)
    mean, covariance = second.moments()
    exact_mean, exact_covariance = exact_posterior()
    print(f"mean, in two steps  {mean}, exact {exact_mean}")
    print(f"sd, in two steps    {np.sqrt(np.diag(covariance))}, exact "
          f"{np.sqrt(np.diag(exact_covariance))}")  # fmt: skip
    return second


if __name__ == "__main__":
    as_proposal()
    as_prior(*map(int, sys.argv[1:2]))
