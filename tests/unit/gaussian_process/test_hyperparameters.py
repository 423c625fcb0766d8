"""Hyperparameters as a record, as a vector, and as a run's surrogate keeps them."""

import numpy as np
import pytest

from vbstack.gaussian_process.hyperparameters import (
    Hyperparameters,
    as_surrogate,
    hyperparameters_of,
)
from vbstack.gaussian_process.prior import Prior
from vbstack.modes import MeanFunction
from vbstack.runs.surrogate import Surrogate

FIELDS = ("log_lengths", "log_output", "height", "centre", "log_widths")


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_vector_and_its_record_are_the_same_numbers(dimension):
    vector = np.random.default_rng(0).normal(size=3 * dimension + 2)
    record = Hyperparameters.from_vector(vector)
    assert record.dimension == dimension
    np.testing.assert_array_equal(record.vector, vector)
    again = Hyperparameters.from_vector(record.vector)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(record, name))


def test_every_number_of_a_vector_has_its_name():
    record = Hyperparameters.from_vector(np.arange(8.0))
    for name, expected in zip(FIELDS, ([0, 1], 2, 3, [4, 5], [6, 7]), strict=True):
        np.testing.assert_array_equal(getattr(record, name), expected)


def test_lengths_variance_and_mean_are_those_of_the_formula(hyperparameters):
    np.testing.assert_allclose(hyperparameters.lengths, np.exp([-0.7, -0.4]))
    assert hyperparameters.variance == pytest.approx(np.exp(1.6))
    np.testing.assert_allclose(hyperparameters.mean_precision, np.exp([-0.6, -1.2]))
    found = hyperparameters.mean(np.array([[0.1, -0.2], [1.1, 1.8]]))
    expected = [0.5, 0.5 - 0.5 * (np.exp(-0.6) + 4 * np.exp(-1.2))]
    np.testing.assert_allclose(found, expected)


def test_a_surrogate_gives_back_the_hyperparameters_that_it_was_made_of(process):
    data = process.data
    surrogate = as_surrogate(process.hyperparameters, data.inputs, data.values, data.noise_variance)
    np.testing.assert_array_equal(surrogate.inputs, data.inputs)
    np.testing.assert_array_equal(surrogate.values, data.values)
    np.testing.assert_array_equal(surrogate.noise_variance, data.noise_variance[None])
    (found,) = hyperparameters_of(surrogate)
    np.testing.assert_array_equal(found.vector, process.hyperparameters.vector)


def test_every_sample_of_a_surrogate_has_its_own_hyperparameters():
    vectors = np.random.default_rng(1).normal(size=(3, 8))
    surrogate = Surrogate(
        inputs=np.zeros((1, 2)),
        values=np.zeros(1),
        noise_variance=np.ones((3, 1)),
        log_lengths=vectors[:, :2],
        log_output=vectors[:, 2],
        mean="negative_quadratic",
        mean_parameters=vectors[:, 3:],
    )
    found = hyperparameters_of(surrogate)
    np.testing.assert_array_equal([one.vector for one in found], vectors)


@pytest.mark.parametrize(
    ("mean", "parameters", "height"), [("constant", [-1.5], -1.5), ("zero", [], 0.0)]
)
def test_a_mean_without_a_bend_has_infinite_widths_and_no_precision(
    mean: MeanFunction, parameters: list[float], height: float
):
    surrogate = Surrogate(
        inputs=np.zeros((1, 2)),
        values=np.zeros(1),
        noise_variance=np.ones((1, 1)),
        log_lengths=np.zeros((1, 2)),
        log_output=np.zeros(1),
        mean=mean,
        mean_parameters=np.array([parameters]),
    )
    (found,) = hyperparameters_of(surrogate)
    np.testing.assert_array_equal(np.exp(found.log_widths), np.inf)
    np.testing.assert_array_equal(found.mean_precision, 0.0)
    prior = Prior.of(found)
    np.testing.assert_array_equal(prior.precision, np.zeros((2, 2)))
    points = np.array([[0.0, 0.0], [3.0, -1e6]])
    np.testing.assert_array_equal(found.mean(points), height)
    np.testing.assert_array_equal(prior.mean(points), height)
