"""Where the log density is finite, learnt from evaluations."""

from dataclasses import replace

import numpy as np
import pytest

from tests.synthetic import make_run
from vbstack import Evaluations, Mixture, stack
from vbstack.gaussian_process.dense import OUTSIDE_NATS
from vbstack.stacking.support import Support


def run_that_saw(values, x):
    run = make_run([[0.0, 0.0]], 1.0, -2.8)
    return replace(run, evaluations=Evaluations(x, values))


@pytest.fixture
def below():
    """A run that evaluated a Gaussian at 400 points, cut off where a ≥ b."""
    x = 1.5 * np.random.default_rng(0).standard_normal((400, 2))
    values = np.where(x[:, 0] < x[:, 1], -0.5 * np.square(x).sum(axis=1), -np.inf)
    return run_that_saw(values, x)


def test_without_minus_infinity_there_is_nothing_to_learn():
    x = np.random.default_rng(0).standard_normal((50, 2))
    assert Support.of([run_that_saw(-np.square(x).sum(axis=1), x)]) is None
    assert Support.of([make_run([[0.0, 0.0]], 1.0, 0.0)]) is None


def test_a_straight_edge_is_found_to_a_few_percent_and_carried_on(below):
    support = Support.of([below])
    assert support is not None
    assert support.evaluations == 400
    assert support.outside == int(below.evaluations.outside.sum())
    x = np.random.default_rng(1).standard_normal((4000, 2))
    truth = x[:, 0] < x[:, 1]
    assert np.mean(support.inside(x) != truth) < 0.03
    far = np.array([[-4.0, 4.0], [4.0, -4.0], [-5.0, 0.0], [5.0, 0.0]])
    assert support.inside(far).tolist() == [True, False, True, False]


def test_log_joints_are_lowered_by_the_share_of_a_component_outside(below):
    support = Support.of([below])
    assert support is not None
    run = make_run([[-1.5, 1.5], [0.0, 0.0], [1.5, -1.5]], 0.3, 0.0)
    lowered = support.lowering(Mixture.from_runs([run])) / OUTSIDE_NATS
    np.testing.assert_allclose(lowered, [0.0, 0.5, 1.0], atol=0.1)


def test_a_stack_is_cut_off_and_still_integrates_to_one(below):
    posterior = stack([below], evaluations="own")
    assert posterior.outside_mass == pytest.approx(0.5, abs=0.03)
    draws = posterior.sample(2000, seed=1)
    assert np.mean(draws[:, 0] < draws[:, 1]) > 0.96
    grid = np.linspace(-6, 6, 241)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    mass = np.exp(posterior.log_pdf(points)).sum() * (grid[1] - grid[0]) ** 2
    assert mass == pytest.approx(1.0, abs=0.02)
    # x2 − x1 of a standard Gaussian, given that it is positive, has the mean 2/√π.
    mean, covariance = posterior.moments()
    assert mean[1] - mean[0] == pytest.approx(2 / np.sqrt(np.pi), abs=0.08)
    assert covariance.shape == (2, 2)
    assert "outside the support" in posterior.summary()
    assert "it includes that penalty, which pooled evaluations correct" in posterior.summary()


def test_a_stack_without_a_support_says_nothing_of_a_penalty():
    posterior = stack([make_run([[0.0, 0.0]], 1.0, -2.8)], evaluations="own")
    assert "penalty" not in posterior.summary()
