"""The bracket holds the optimum of a hundred times longer run."""

from typing import Any

import numpy as np
import pytest

from tests.synthetic import random_mixture
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.sample_problem import Sample
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights, optimise

TRIALS = 40


def trial(seed: int) -> tuple[bool, bool]:
    """Whether the bracket holds the long run's ELBO, and the gap its advantage on common draws."""
    dimension = 1 + seed % 10
    mixture, log_joint = random_mixture(seed, dimension, runs=3, size=4)
    free = FreeWeights.of("all", mixture, [0.0] * 3)
    rng = np.random.default_rng(seed)
    settings: Any = {"max_draws": 32, "final_draws": 64}
    short = optimise(mixture, log_joint, free, tolerance=0.05, rng=rng, **settings)
    draws = 100 * short.draws // mixture.size
    sample = Sample.draw(mixture, np.full(mixture.size, draws), rng)
    long = maximise(free.problem(sample, mixture.rewards(log_joint)), free.start, 1e-4)
    common = fresh_elbos(mixture, log_joint, [long.weights, short.weights], 1000, rng)
    error = 2 * np.hypot(short.standard_error, common.standard_error(0))
    holds = short.lower - error <= common.values[0] <= short.upper + error
    advantage = common.values[0] - common.values[1]
    return holds, advantage <= short.gap + 2 * common.standard_error(0, 1)


@pytest.mark.slow
def test_the_bracket_contains_the_optimum_in_95_percent_of_random_mixtures():
    results = np.array([trial(seed) for seed in range(TRIALS)])
    assert results[:, 0].mean() >= 0.95
    assert results[:, 1].mean() >= 0.95
