"""The final fit of a run: the best of a few fits, the others with a small share of the weight."""

import numpy as np
import pytest

from tests.small_problems import gaussian_problem
from vbstack.engines.native import final_fit, growth, mixture_fit, space
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


def test_the_better_of_both_fits_is_extended_and_kept(ridge):
    """The ridge is no Gaussian: eight components are worth more than one."""
    one = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.array([[0.6, 0.2]]))
    single, many = (
        final_fit.final(
            state_of(ridge, one),
            Policy.of({**options, "largest_variance": 1.0}, 2),
            np.random.default_rng(2),
        )
        for options in ({"final_components": 1, "final_growth": 0}, {"final_components": 8})
    )
    assert single.fitted.mixture.size == 1
    assert 8 <= many.fitted.mixture.size <= 8 + 10  # ten at most are added
    assert many.fitted.elbo > single.fitted.elbo + 0.03


def test_components_are_not_split_when_there_are_enough(bowl):
    settings = Policy.of({"final_components": 3, "final_growth": 0}, 2)
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
    start = growth.split(three_narrow(), 6, np.random.default_rng(1))

    def fitted(largest_variance):
        settings = Policy.of({"largest_variance": largest_variance}, 2)
        return final_fit._penalised(ridge, start, settings, np.random.default_rng(0), 2)[1].mixture

    every = fitted(np.inf)
    variances = quadrature.variances(ridge, every.means, every.sds)[0]
    limit = float(np.median(variances))
    known = variances <= limit
    assert 0 < known.sum() < every.size
    some = fitted(limit)
    np.testing.assert_array_equal(some.means, every.means[known])
    np.testing.assert_allclose(some.weights, every.weights[known] / every.weights[known].sum())


def test_a_fit_that_the_surrogate_does_not_know_at_all_is_worth_nothing(ridge):
    settings = Policy.of({"largest_variance": 0.0}, 2)
    start = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.2))
    worth, fitted = final_fit._penalised(ridge, start, settings, np.random.default_rng(0), 2)
    assert worth == -np.inf
    assert fitted.mixture.size == 1


def test_a_penalised_fit_is_worth_its_elbo_less_the_penalty(ridge):
    settings = Policy.of({"penalty": 2.0}, 2)
    one = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.2))
    start = growth.split(one, 2, np.random.default_rng(1))
    worth, fitted = final_fit._penalised(ridge, start, settings, np.random.default_rng(0), 2)
    mixture = fitted.mixture
    spread = quadrature.standard_deviations(ridge, mixture.means, mixture.sds)
    assert worth == pytest.approx(fitted.elbo - 2 * mixture.weights @ spread)
