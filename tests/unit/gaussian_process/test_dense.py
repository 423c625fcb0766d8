"""The exact Gaussian process against finite differences, refactorisation and leaving out."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from vbstack.gaussian_process import dense
from vbstack.gaussian_process.dense import Data, DenseProcess


def test_the_hyperparameters_gradient_equals_finite_differences(process):
    data, priors = process.data, dense.Priors.of(process.data)
    value, gradient = dense.log_posterior(process.hyperparameters, data, priors)
    expected = approx_fprime(
        process.hyperparameters, lambda h: dense.log_posterior(h, data, priors)[0], 1e-6
    )
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)
    assert value - priors.log_density(process.hyperparameters)[0] == pytest.approx(
        process.log_likelihood
    )


def test_one_more_point_by_a_rank_one_step_equals_refactorisation(process):
    point, value = np.array([0.3, -0.4]), -1.2
    grown = process.including(point, value)
    again = Process.condition(grown.data, process.hyperparameters)
    np.testing.assert_allclose(grown.factor, again.factor, atol=1e-8)
    np.testing.assert_allclose(grown.alpha, again.alpha, rtol=1e-6)


def test_a_process_with_a_noisy_value_more_is_the_process_of_all():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (8, 2)), rng.standard_normal(8)
    h = np.array([-0.7, -0.4, 0.8, 0.5, 0.1, -0.2, 0.3, 0.6])
    data = Data.of(x, y, np.full(8, 2.0))
    some = Process.condition(Data.of(x[:7], y[:7], np.full(7, 2.0)), h).including(x[7], y[7], 2.0)
    every = Process.condition(data, h)
    np.testing.assert_allclose(some.factor, every.factor, atol=1e-10)
    np.testing.assert_allclose(some.alpha, every.alpha, atol=1e-10)
    assert data.top == pytest.approx(y.max() - 4.0)
    np.testing.assert_allclose(every.believed(), every.predict(x)[0])


def test_what_is_foreseen_of_a_value_is_what_the_process_without_it_predicts(process):
    which = np.arange(12) % 3 == 0
    expected = 0.0
    for n in np.flatnonzero(which):
        data = process.data
        kept = np.arange(12) != n
        rest = Data(data.inputs[kept], data.values[kept], data.noise[kept])
        without = Process.condition(rest, process.hyperparameters)
        mean, variance = without.predict(data.inputs[n : n + 1])
        sd = np.sqrt(variance[0] + data.noise[n])
        expected += norm(mean[0], sd).logpdf(data.values[n])
    assert process.foreseen(which) == pytest.approx(expected, rel=1e-6)


def test_a_round_bowl_is_guessed_from_a_few_values():
    """In six dimensions, where ten values say nothing about any one of them."""
    x = np.random.default_rng(2).uniform(-0.5, 0.5, (10, 6))
    data = Data.of(x, -0.5 * np.square((x - x[3]) / 0.1).sum(axis=1))
    guess = dense.bowl_guess(data)
    np.testing.assert_allclose(np.exp(guess[14:]), 0.1, rtol=1e-9)
    np.testing.assert_allclose(guess[8:14], x[3])
    # A fit from there sees the bowl, and promises nothing far away.
    far = np.full((1, 6), 2.0)
    assert dense.fit(data, [guess], 50).predict(far)[0][0] < -1000


def test_a_singular_kernel_is_met_with_more_noise():
    x = np.zeros((30, 2)) + 1e-9 * np.arange(30)[:, None]
    process = Process.condition(
        Data(x, np.arange(30.0), np.full(30, 1e-14)), np.array([3.0, 3.0, 6.0, 0, 0, 0, 0, 0])
    )
    assert np.isfinite(process.alpha).all()


def test_low_values_are_compressed_and_keep_their_order():
    values = np.array([0.0, -10.0, -40.0, -100.0, -1e6, -1e300])
    found = dense.compressed(values, 0.0, 2)
    np.testing.assert_array_equal(found[:3], values[:3])
    assert (np.diff(found) < 0).all()
    assert found[4] > -500
