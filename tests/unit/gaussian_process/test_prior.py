"""A prior in a run's own space, and in the spaces that affine maps lead to."""

import numpy as np
import pytest

from tests.synthetic import make_transform
from tests.unit.gaussian_process.examples import full_prior, gaussians
from vbstack.gaussian_process.kernel import kernel
from vbstack.gaussian_process.low_rank import condition
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData


def test_in_the_runs_own_space_it_is_that_of_the_hyperparameters(hyperparameters):
    prior = Prior.of(hyperparameters)
    rng = np.random.default_rng(0)
    points, others = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(prior.mean(points), hyperparameters.mean(points), rtol=1e-12)
    np.testing.assert_allclose(
        prior.kernel(points, others), kernel(hyperparameters, points, others), rtol=1e-12
    )


def test_a_kernel_far_from_the_origin_is_the_one_near_it():
    prior = full_prior()
    points = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_allclose(
        prior.kernel(points + 1e6, points + 1e6), prior.kernel(points, points), rtol=1e-8
    )


def test_a_prior_moves_with_the_affine_map_of_its_run():
    """Integrals in a rotated and scaled link space are those of the run's space, less log |A|."""
    angle = 0.7
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    map_ = make_transform([0, 0], -np.inf, np.inf, [1.0, -2.0], [20.0, 5.0], [0.5, 1.7], rotation)
    rng = np.random.default_rng(8)
    u, values, noise = rng.normal(size=(30, 2)), rng.normal(size=30), np.full(30, 0.3)
    centres, factors = gaussians(4)
    here = condition(full_prior(), TrainingData(u, values, noise)).integrate(centres, factors)
    y = map_.centre + u @ map_.matrix.T
    data = TrainingData(y, values - map_.log_volume, noise)
    there = condition(full_prior().moved(map_), data).integrate(
        map_.centre + centres @ map_.matrix.T, map_.matrix @ factors
    )
    assert there[0] == pytest.approx(here[0] - map_.log_volume)
    assert there[1] == pytest.approx(here[1], abs=1e-9)
