"""The log posterior of hyperparameters, and the guesses that a fit starts from."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from vbstack.engines.native.training import shaped
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.hyperparameter_fit import Hyperpriors


def test_the_hyperparameters_gradient_equals_finite_differences(process):
    data, hyperpriors = process.data, Hyperpriors.of(process.data)
    vector = process.hyperparameters.vector
    value, gradient = hyperparameter_fit.log_posterior(vector, data, hyperpriors)
    expected = approx_fprime(
        vector, lambda v: hyperparameter_fit.log_posterior(v, data, hyperpriors)[0], 1e-6
    )
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)
    prior, _ = hyperpriors.log_density(vector)
    assert value - prior == pytest.approx(process.log_likelihood)


def test_a_fit_is_at_least_as_good_as_the_best_of_its_starts(process):
    data, hyperpriors = process.data, Hyperpriors.of(process.data)
    starts = [process.hyperparameters, hyperparameter_fit.first_guess(data)]
    fitted = hyperparameter_fit.fit(data, starts, 50).hyperparameters.vector
    assert (fitted >= hyperpriors.lower).all()
    assert (fitted <= hyperpriors.upper).all()
    found, *begun = (
        hyperparameter_fit.log_posterior(vector, data, hyperpriors)[0]
        for vector in (fitted, *(hyperpriors.clipped(start.vector) for start in starts))
    )
    assert found > max(begun)


def test_a_gaussian_is_guessed_by_its_moments(process):
    mean, sds = np.array([0.2, -0.1]), np.array([0.3, 2.0])
    guess = hyperparameter_fit.gaussian_guess(process.data, mean, sds)
    np.testing.assert_array_equal(guess.centre, mean)
    np.testing.assert_allclose(np.exp(guess.log_widths), sds)
    np.testing.assert_allclose(guess.lengths, 2 * sds)
    assert guess.height == process.data.values.max()


def test_a_round_bowl_is_guessed_from_a_few_values():
    """In six dimensions, where ten values say nothing about any one of them."""
    x = np.random.default_rng(2).uniform(-0.5, 0.5, (10, 6))
    data = shaped(x, -0.5 * np.square((x - x[3]) / 0.1).sum(axis=1))
    guess = hyperparameter_fit.bowl_guess(data)
    np.testing.assert_allclose(np.exp(guess.log_widths), 0.1, rtol=1e-9)
    np.testing.assert_allclose(guess.centre, x[3])
    # A fit from there sees the bowl, and promises nothing far away.
    far = np.full((1, 6), 2.0)
    assert hyperparameter_fit.fit(data, [guess], 50).predict(far)[0][0] < -1000
