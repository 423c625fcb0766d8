"""The final fit of a run."""

import numpy as np
import pytest

from tests.small_problems import gaussian_problem
from vbstack.engines.native import final_fit, mixture_fit, space
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.iteration import State
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import shaped
from vbstack.gaussian_process import quadrature
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters


@pytest.fixture
def bowl():
    """A process whose mean is a Gaussian's log density but for the constant.

    That Gaussian has the mean (0.5, 0) and the standard deviations 1 and 0.5.
    """
    x = np.random.default_rng(1).uniform(-2, 2, (40, 2))
    values = -0.5 * np.square((x - [0.5, 0.0]) / [1.0, 0.5]).sum(axis=1)
    hyperparameters = Hyperparameters(
        log_lengths=np.ones(2),
        log_output=0.0,
        height=0.0,
        centre=np.array([0.5, 0.0]),
        log_widths=np.log([1.0, 0.5]),
    )
    return DenseProcess.condition(shaped(x, values), hyperparameters)


def state_of(process, mixture):
    rng = np.random.default_rng(0)
    map_ = space.unit_box(gaussian_problem(2))
    return State(map_, process, mixture_fit.evaluated(process, mixture, rng))


def three_narrow():
    """Three components that hold only a part of the bowl."""
    means = np.array([[-0.5, 0.0], [0.5, 0.0], [1.5, 0.0]])
    return DiagonalMixture(np.full(3, 1 / 3), means, np.full((3, 2), 0.2))


def test_the_final_fit_of_a_gaussian_surrogate_is_the_gaussian(bowl):
    before = state_of(bowl, three_narrow())
    settings = Policy.of({"final_components": 6}, 2)
    after = final_fit.final(before, settings, np.random.default_rng(2))
    log_evidence = np.log(2 * np.pi) + np.log(0.5)
    assert before.fitted.elbo < log_evidence - 0.2
    assert log_evidence - 0.01 < after.fitted.elbo < log_evidence + 1e-3
    mean, covariance = after.fitted.mixture.moments()
    np.testing.assert_allclose(mean, [0.5, 0.0], atol=0.02)
    np.testing.assert_allclose(covariance, np.diag([1.0, 0.25]), atol=0.03)
    assert after.process is before.process
    assert after.map_ is before.map_


def test_more_components_are_worth_more_where_the_surrogate_is_no_gaussian(ridge):
    one = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.array([[0.6, 0.2]]))
    single, many = (
        final_fit.final(
            state_of(ridge, one),
            Policy.of({**options, "largest_variance": 1.0}, 2),
            np.random.default_rng(2),
        )
        for options in ({"final_components": 1}, {"final_components": 8})
    )
    assert single.fitted.mixture.size == 1
    assert 2 <= many.fitted.mixture.size <= 8
    assert many.fitted.elbo > single.fitted.elbo + 0.03


def test_no_components_are_added_when_there_are_enough(bowl):
    settings = Policy.of({"final_components": 3}, 2)
    last = final_fit.final(state_of(bowl, three_narrow()), settings, np.random.default_rng(2))
    assert last.fitted.mixture.size == 3


def test_no_component_stays_where_the_surrogate_does_not_know(ridge):
    """A component that lies far beyond the evaluations is left out."""
    rng = np.random.default_rng(3)
    unreliable = DiagonalMixture(
        np.array([0.4, 0.4, 0.2]),
        np.array([[-0.5, 0.0], [0.5, 0.0], [9.0, 5.0]]),
        np.full((3, 2), 0.2),
    )
    settings = Policy.of({"final_components": 5}, 2)
    mixture = final_fit.final(state_of(ridge, unreliable), settings, rng).fitted.mixture
    spread = quadrature.variances(ridge, mixture.means, mixture.sds)[0]
    assert spread.max() <= settings.largest_variance
    assert np.abs(mixture.means).max() < 3


def test_a_fit_loses_the_components_that_the_surrogate_does_not_know(ridge):
    def fitted(largest_variance):
        options = {"largest_variance": largest_variance, "final_components": 6}
        before = state_of(ridge, three_narrow())
        last = final_fit.final(before, Policy.of(options, 2), np.random.default_rng(0))
        return last.fitted.mixture

    every = fitted(np.inf)
    variances = quadrature.variances(ridge, every.means, every.sds)[0]
    limit = float(np.median(variances))
    known = variances <= limit
    assert 0 < known.sum() < every.size
    some = fitted(limit)
    np.testing.assert_array_equal(some.means, every.means[known])
    np.testing.assert_allclose(some.weights, every.weights[known] / every.weights[known].sum())
    assert fitted(0.0).size == 1  # the heaviest stays where none is known


def test_a_penalty_keeps_components_where_the_surrogate_knows_more(ridge):
    def doubt(penalty):
        options = {"penalty": penalty, "largest_variance": np.inf, "final_components": 8}
        before = state_of(ridge, three_narrow())
        last = final_fit.final(before, Policy.of(options, 2), np.random.default_rng(0))
        mixture = last.fitted.mixture
        return mixture.weights @ quadrature.standard_deviations(ridge, mixture.means, mixture.sds)

    assert doubt(20.0) < 0.9 * doubt(0.0)
