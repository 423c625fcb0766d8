"""Where the next evaluation is made."""

from dataclasses import replace

import numpy as np
import pytest

from tests.small_problems import gaussian_problem
from vbstack.engines.native import mixture_fit, space
from vbstack.engines.native.acquisition import (
    Candidates,
    exploratory,
    flattened_draw,
    missing,
    mixture_draw,
    most_promising,
    promise,
)
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import shaped
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.dense import DenseProcess

POLICY = Policy.of({}, 2)


def test_candidates_with_one_more_value_are_those_of_the_process_with_it(process, mixture):
    point, value = np.array([0.3, -0.4]), -1.2
    again = DenseProcess.condition(process.including(point, value).data, process.hyperparameters)
    map_ = space.unit_box(gaussian_problem(2))
    fitted = mixture_fit.Fitted(mixture, 0.0, 0.1)
    before = Candidates.of(process, fitted, map_, np.random.default_rng(1), POLICY)
    assert np.abs(before.points).max() <= 2.5 + 1e-12
    after = before.including(process, point, value)
    mean, variance = again.predict(before.points)
    np.testing.assert_allclose(after.mean, mean, atol=1e-6)
    np.testing.assert_allclose(after.variance, variance, atol=1e-6)


def test_mass_may_be_missing_only_where_the_target_may_exceed_the_mixture():
    """A far mode, the same where the mixture has it, and a place that is only uncertain."""
    mean, sd = np.array([-4.0, -4.0, -9.0]), np.array([1.0, 1.0, 3.0])
    log_q = np.array([-16.0, -3.9, -20.0])
    far, held, unsure = missing(mean, sd**2, log_q, elbo=0.0)
    assert far == pytest.approx(-4 + 1)
    assert held == -np.inf
    assert unsure == pytest.approx(2 * np.log(3) - 9 + 3)


def test_an_exploratory_point_is_at_the_mode_that_the_mixture_lacks():
    """Two bumps of which the mixture has one: the most promising point stays there."""
    means = np.array([[-0.8, 0.0], [0.8, 0.0]])

    def two_bumps(x):
        return np.logaddexp(*(-0.5 * np.square((x - m) / 0.3).sum(axis=1) for m in means))

    inputs = np.random.default_rng(8).uniform(-2.5, 2.5, (80, 2))
    data = shaped(inputs, two_bumps(inputs))
    process = hyperparameter_fit.fit(data, [hyperparameter_fit.first_guess(data)], 50)
    mixture = DiagonalMixture(np.ones(1), means[:1], np.full((1, 2), 0.3))
    fitted = mixture_fit.evaluated(process, mixture, np.random.default_rng(0))
    candidates = Candidates.of(
        process, fitted, space.unit_box(gaussian_problem(2)), np.random.default_rng(1), POLICY
    )
    promising, explored = (
        way(candidates, process, mixture, np.random.default_rng(2))
        for way in (most_promising, exploratory)
    )
    assert promising[0] < 0 < explored[0]
    for point, score in ((promising, promise), (explored, missing)):
        best = candidates.best(process, mixture, np.random.default_rng(2), score)
        np.testing.assert_array_equal(point, best)
    # Where nothing may be missing, an exploratory point is one like the others.
    content = replace(candidates, elbo=1e3)
    assert np.array_equal(
        exploratory(content, process, mixture, np.random.default_rng(2)),
        most_promising(content, process, mixture, np.random.default_rng(2)),
    )


def test_mixture_draws_prefer_what_the_surrogate_does_not_know(mixture, process):
    rng = np.random.default_rng(0)
    fitted = mixture_fit.evaluated(process, mixture, rng)
    candidates = Candidates.of(process, fitted, space.unit_box(gaussian_problem(2)), rng, POLICY)
    points = np.array([mixture_draw(candidates, process, mixture, rng) for _ in range(400)])
    plain = mixture.draws(400, rng)
    unknown, usual = (np.sqrt(process.predict(x)[1]).mean() for x in (points, plain))
    assert unknown > 1.1 * usual
    # Weighted by 1/s they are draws of the mixture again.
    weights = 1 / np.sqrt(process.predict(points)[1])
    mean, covariance = mixture.moments()
    shift = (weights @ points / weights.sum() - mean) / np.sqrt(np.diag(covariance))
    assert np.abs(shift).max() < 0.2


def test_flattened_draws_have_the_density_that_is_said(process):
    """Their moments against those of s e^((f̄ + s)/3) on a grid; q is wide enough to hold it."""
    rng = np.random.default_rng(0)
    steep = replace(process.hyperparameters, log_widths=np.full(2, np.log(0.3)))
    process = DenseProcess.condition(process.data, steep)
    mixture = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.5))
    fitted = mixture_fit.evaluated(process, mixture, rng)
    candidates = Candidates.of(process, fitted, space.unit_box(gaussian_problem(2)), rng, POLICY)
    points = np.array([flattened_draw(candidates, process, mixture, rng) for _ in range(1000)])
    axis = np.linspace(-2.5, 2.5, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mean, variance = process.predict(grid)
    density = np.sqrt(variance) * np.exp((mean + np.sqrt(variance)) / 3)
    expected = density @ grid / density.sum()
    spread = np.sqrt(density @ np.square(grid - expected) / density.sum())
    np.testing.assert_allclose((points.mean(axis=0) - expected) / spread, 0, atol=0.12)
    np.testing.assert_allclose(points.std(axis=0) / spread, 1, atol=0.12)
