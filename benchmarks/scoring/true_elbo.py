"""The true ELBO of a stack, and how well a run knows its own: Monte Carlo on the log density."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import BenchmarkProblem
from vbstack import Run, StackedPosterior

DRAWS = 20_000
SLOW_DRAWS = 1_000  # where an evaluation takes milliseconds
SLOW = ("neuronal",)


def true_elbo(target: BenchmarkProblem, posterior: StackedPosterior) -> float:
    """E_q[log p − log q] of a stack q, by draws of it and the exact log density p."""
    x = posterior.sample(SLOW_DRAWS if target.name in SLOW else DRAWS, seed=1)
    return float(np.mean(target.log_densities(x) - posterior.log_pdf(x)))


def covered(target: BenchmarkProblem, run: Run) -> float:
    """Share of components whose I_k is within 2 √J_kk (and Monte Carlo error) of the truth."""
    rng = np.random.default_rng(0)
    draws = SLOW_DRAWS // 10 if target.name in SLOW else DRAWS // 5
    inside = []
    for k in range(run.n_components):
        u = run.means[k] + run.sds[k] * rng.standard_normal((draws, run.dimension))
        truth = target.log_densities(run.transform.inverse(u)) + run.transform.log_jacobian(u)
        error = abs(float(truth.mean()) - float(run.expected_log_joint[k]))
        spread = np.sqrt(run.expected_log_joint_covariance[k, k] + truth.var() / len(u))
        inside.append(error < 2 * spread)
    return float(np.mean(inside))
