"""Expectations of a low-rank process under Gaussians, and their gradients."""

import numpy as np
import pytest

from tests.unit.gaussian_process.examples import full_prior, gaussians
from vbstack.gaussian_process.low_rank import condition
from vbstack.gaussian_process.low_rank_quadrature import Quadrature
from vbstack.gaussian_process.training_data import TrainingData


@pytest.fixture(scope="module")
def process():
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(30, 2))
    values = -np.square(inputs).sum(axis=1) + np.sin(3 * inputs[:, 0])
    return condition(full_prior(), TrainingData(inputs, values, np.full(30, 1e-2)))


def test_the_values_are_those_of_the_process(process):
    centres, factors = gaussians(5)
    mean, covariance = process.integrate(centres, factors)
    j = np.diag(covariance)
    found = Quadrature.of(process)
    np.testing.assert_allclose(found.charged(centres, factors, 0.0)[0], mean, atol=1e-9)
    expected = mean - 2 * j
    np.testing.assert_allclose(found.charged(centres, factors, 2.0)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("charge", [0.0, 2.0])
def test_the_gradients_equal_finite_differences(process, charge):
    centres, factors = gaussians(3)
    quadrature = Quadrature.of(process)
    shares = np.array([0.2, 0.5, 0.3])
    start = np.r_[centres.ravel(), factors.ravel()]

    def total(v):
        parts = v[:6].reshape(3, 2), v[6:].reshape(3, 2, 2)
        return shares @ quadrature.charged(*parts, charge)[0]

    _, d_centres, d_factors = quadrature.charged(centres, factors, charge)
    found = np.r_[
        (shares[:, None] * d_centres).ravel(), (shares[:, None, None] * d_factors).ravel()
    ]
    moves = 1e-5 * np.eye(start.size)
    wanted = [(total(start + move) - total(start - move)) / 2e-5 for move in moves]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
