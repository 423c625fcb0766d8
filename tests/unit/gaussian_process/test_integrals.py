"""Integrals of the process against Gaussians: quadrature and closed forms."""

import numpy as np
import pytest

from vbstack.gaussian_process import integrals
from vbstack.gaussian_process.dense import Data, DenseProcess


def test_integrals_equal_numerical_integration(process, mixture):
    """Gauss–Hermite quadrature with forty nodes in each direction."""
    values, _, _ = integrals.integrals(process, mixture.means, mixture.sds)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    share = np.outer(weights, weights).ravel() / (2 * np.pi)
    for k in range(mixture.size):
        expected = share @ process.predict(mixture.means[k] + mixture.sds[k] * grid)[0]
        assert values[k] == pytest.approx(expected, abs=1e-8)


def test_variances_are_the_diagonal_of_the_covariance_and_that_of_a_prior_is_known(
    process, mixture
):
    covariance = integrals.covariance(process, mixture.means, mixture.sds)
    values = integrals.variances(process, mixture.means, mixture.sds)[0]
    np.testing.assert_allclose(values, np.diag(covariance), rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    far = Process.condition(Data.of(np.full((1, 2), 50.0), np.zeros(1)), process.hyperparameters)
    lengths2 = process.lengths**2
    expected = process.variance * np.prod(np.sqrt(lengths2 / (lengths2 + 2 * 0.3**2)))
    sds = np.full((1, 2), 0.3)
    assert integrals.covariance(far, np.zeros((1, 2)), sds)[0, 0] == pytest.approx(expected)
