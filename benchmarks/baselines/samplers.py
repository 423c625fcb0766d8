"""Samplers with the evaluations of ten VBMC runs: nautilus and emcee, for "why not simply…".

Both see the same noisy values as a run does. Neither is made for so few evaluations, or for noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.arrays import Array
from benchmarks.problems import BenchmarkProblem
from benchmarks.scoring.metrics import Approximation, of_draws

LIVE_POINTS = 200
WIDER = 2.0  # the box of the nested sampler, in plausible boxes, where there are no hard bounds


def noisy_values(target: BenchmarkProblem, seed: int) -> Callable[[Array], Array]:
    """The target's log densities at rows, with its noise; draws follow the order of the calls."""
    rng = np.random.default_rng([seed, 17])

    def values(x: Array) -> Array:
        return target.log_densities(x) + target.noise_sd * rng.standard_normal(len(x))

    return values


def box_of(target: BenchmarkProblem) -> tuple[Array, Array]:
    """The hard bounds, or a box around the plausible one."""
    if target.lower_bounds is not None and target.upper_bounds is not None:
        return target.lower_bounds, target.upper_bounds
    middle = (target.plausible_lower_bounds + target.plausible_upper_bounds) / 2
    half = WIDER * (target.plausible_upper_bounds - target.plausible_lower_bounds) / 2
    return middle - half, middle + half


def nested_sampling(target: BenchmarkProblem, budget: int, seed: int) -> Approximation:
    """nautilus under a uniform prior on the box; its evidence times the box's volume."""
    from nautilus import Sampler

    lower, upper = box_of(target)
    values = noisy_values(target, seed)
    sampler = Sampler(
        lambda u: lower + (upper - lower) * u,
        values,
        n_dim=target.dimension,
        n_live=LIVE_POINTS,
        vectorized=True,
        seed=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few points for its neural networks
        sampler.run(n_like_max=budget, verbose=False)
        points, log_weights, _ = sampler.posterior()
    weights = np.exp(log_weights - log_weights.max())
    return of_draws(points, float(sampler.log_z + np.log(upper - lower).sum()), weights)


def ensemble_mcmc(target: BenchmarkProblem, budget: int, seed: int) -> Approximation:
    """emcee from uniform starts in the plausible box; the second half is kept. No evidence."""
    import emcee

    rng = np.random.default_rng([seed, 19])
    walkers = 4 * target.dimension
    lower, upper = target.plausible_lower_bounds, target.plausible_upper_bounds
    values = noisy_values(target, seed)
    sampler = emcee.EnsembleSampler(
        walkers, target.dimension, lambda x: _finite(values(x)), vectorize=True
    )
    sampler.random_state = np.random.RandomState(int(rng.integers(2**31))).get_state()
    steps = budget // walkers - 1
    sampler.run_mcmc(rng.uniform(lower, upper, (walkers, target.dimension)), steps)
    return of_draws(sampler.get_chain(discard=steps // 2, flat=True), np.nan)


def _finite(values: Array) -> Array:
    return np.where(np.isnan(values), -np.inf, values)
