"""The exact Gaussian process against refactorisation and leaving out."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from vbstack.gaussian_process.dense import JITTER, DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.kernel import kernel
from vbstack.gaussian_process.training_data import TrainingData


def test_one_more_point_by_a_rank_one_step_equals_refactorisation(process):
    point, value = np.array([0.3, -0.4]), -1.2
    grown = process.including(point, value)
    again = DenseProcess.condition(grown.data, process.hyperparameters)
    np.testing.assert_allclose(grown.factor, again.factor, atol=1e-8)
    np.testing.assert_allclose(grown.alpha, again.alpha, rtol=1e-6)


def test_a_process_with_a_noisy_value_more_is_the_process_of_all(hyperparameters):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (8, 2)), rng.standard_normal(8)
    data = TrainingData(x, y, np.full(8, JITTER + 2.0**2), np.full(8, 2.0))
    most = DenseProcess.condition(data.at(np.arange(7)), hyperparameters)
    some = most.including(x[7], y[7], 2.0)
    every = DenseProcess.condition(data, hyperparameters)
    np.testing.assert_allclose(some.factor, every.factor, atol=1e-10)
    np.testing.assert_allclose(some.alpha, every.alpha, atol=1e-10)
    for name in ("inputs", "values", "noise_variance", "sds"):
        np.testing.assert_array_equal(getattr(some.data, name), getattr(data, name))


def test_exact_values_are_their_own_estimates_and_noisy_ones_are_smoothed(process):
    np.testing.assert_array_equal(process.estimates(), process.data.values)
    exact = process.data
    noise = exact.noise_variance + 2.0**2
    noisy = TrainingData(exact.inputs, exact.values, noise, np.full(12, 2.0))
    smooth = DenseProcess.condition(noisy, process.hyperparameters)
    np.testing.assert_allclose(smooth.estimates(), smooth.predict(noisy.inputs)[0])
    assert not np.allclose(smooth.estimates(), noisy.values)


def test_the_log_likelihood_is_the_log_density_of_the_values(process):
    h, data = process.hyperparameters, process.data
    matrix = kernel(h, data.inputs, data.inputs) + np.diag(data.noise_variance)
    expected = multivariate_normal(h.mean(data.inputs), matrix).logpdf(data.values)
    assert process.log_likelihood == pytest.approx(expected)


def test_the_predictive_density_of_a_value_is_that_of_the_process_without_it(process):
    which = np.arange(12) % 3 == 0
    expected = 0.0
    for n in np.flatnonzero(which):
        data = process.data
        rest = data.at(np.arange(12) != n)
        without = DenseProcess.condition(rest, process.hyperparameters)
        mean, variance = without.predict(data.inputs[n : n + 1])
        sd = np.sqrt(variance[0] + data.noise_variance[n])
        expected += norm(mean[0], sd).logpdf(data.values[n])
    assert process.predictive_log_density(which) == pytest.approx(expected, rel=1e-6)


def test_a_singular_kernel_is_met_with_more_noise():
    x = np.zeros((30, 2)) + 1e-9 * np.arange(30)[:, None]
    h = Hyperparameters.from_vector(np.array([3.0, 3.0, 6.0, 0, 0, 0, 0, 0]))
    process = DenseProcess.condition(TrainingData(x, np.arange(30.0), np.full(30, 1e-14)), h)
    assert np.isfinite(process.alpha).all()
    assert (process.data.noise_variance > 1e-14).all()
