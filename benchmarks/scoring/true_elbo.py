"""The true ELBO of a stack, and how well a run knows its own: Monte Carlo on the log density.

For many stacks of the same runs the true log-joints of the components are found once.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from benchmarks.arrays import Array
from benchmarks.problems import BenchmarkProblem
from vbstack import Mixture, Run, StackedPosterior

DRAWS = 20_000
SLOW_DRAWS = 1_000  # where an evaluation takes milliseconds
SLOW = ("neuronal",)
DRAWS_OF_A_COMPONENT, SLOW_DRAWS_OF_A_COMPONENT = 512, 16


def true_elbo(target: BenchmarkProblem, posterior: StackedPosterior) -> float:
    """E_q[log p − log q] of a stack q, by draws of it and the exact log density p."""
    x = posterior.sample(SLOW_DRAWS if target.name in SLOW else DRAWS, seed=1)
    return float(np.mean(target.log_densities(x) - posterior.log_pdf(x)))


def true_log_joint(target: BenchmarkProblem, run: Run, seed: int) -> Array:
    """I_k (K,) of a run's components in link space, by quasi-random draws of each.

    Other seeds for other runs: all components of a run have the same draws, so that their errors
    do not average out within it.
    """
    count = SLOW_DRAWS_OF_A_COMPONENT if target.name in SLOW else DRAWS_OF_A_COMPONENT
    mixture, link = Mixture.from_runs([run]), run.transform.link
    z = qmc.MultivariateNormalQMC(np.zeros(run.dimension), rng=seed).random(count)
    y = mixture.points(np.repeat(np.arange(run.n_components), count), np.tile(z, (mixture.size, 1)))
    values = target.log_densities(link.inverse(y)) + link.log_jacobian(y)
    return np.asarray(values.reshape(mixture.size, count).mean(axis=1))


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
