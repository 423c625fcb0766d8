"""Expected log-joints of a process: numerical integration, closed forms, finite differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.unit.gaussian_process.examples import diagonal_factors, grid
from vbstack.gaussian_process import quadrature
from vbstack.gaussian_process.dense import JITTER, DenseProcess
from vbstack.gaussian_process.low_rank import condition
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData


def test_expected_log_joints_equal_numerical_integration(process, mixture):
    """Gauss–Hermite quadrature with forty nodes in each direction."""
    values, _, _ = quadrature.expected_log_joints(process, mixture.means, mixture.sds)
    for k, factor in enumerate(diagonal_factors(mixture.sds)):
        points, shares = grid(mixture.means[k], factor, 40)
        assert values[k] == pytest.approx(shares @ process.predict(points)[0], abs=1e-8)


def test_variances_are_the_diagonal_of_the_covariance_and_far_away_those_of_the_prior(
    process, mixture
):
    covariance = quadrature.covariance(process, mixture.means, mixture.sds)
    values = quadrature.variances(process, mixture.means, mixture.sds)[0]
    np.testing.assert_allclose(values, np.diag(covariance), rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    elsewhere = TrainingData(np.full((1, 2), 50.0), np.zeros(1), np.full(1, JITTER))
    far = DenseProcess.condition(elsewhere, process.hyperparameters)
    lengths2 = process.hyperparameters.lengths**2
    expected = process.hyperparameters.variance * np.prod(
        np.sqrt(lengths2 / (lengths2 + 2 * 0.3**2))
    )
    sds = np.full((1, 2), 0.3)
    assert quadrature.covariance(far, np.zeros((1, 2)), sds)[0, 0] == pytest.approx(expected)


def test_standard_deviations_are_the_roots_of_the_variances(process, mixture):
    found = quadrature.standard_deviations(process, mixture.means, mixture.sds)
    values = quadrature.variances(process, mixture.means, mixture.sds)[0]
    np.testing.assert_allclose(found**2, values)


def test_a_dense_process_and_one_of_low_rank_have_the_same_integrals(process, mixture):
    pooled = condition(Prior.of(process.hyperparameters), process.data)
    mean, covariance = pooled.integrate(mixture.means, diagonal_factors(mixture.sds))
    values, _, _ = quadrature.expected_log_joints(process, mixture.means, mixture.sds)
    np.testing.assert_allclose(values, mean, atol=1e-6)
    found = quadrature.covariance(process, mixture.means, mixture.sds)
    np.testing.assert_allclose(found, covariance, atol=1e-6)


def test_expectations_under_one_full_gaussian_are_those_of_components_where_it_is_diagonal(
    process, mixture
):
    means, sds = mixture.means, mixture.sds
    values, slopes, _ = quadrature.expected_log_joints(process, means, sds)
    for k in range(mixture.size):
        one = quadrature.gaussian_expectations(process, means[k], np.diag(sds[k] ** 2))
        assert one.value == pytest.approx(values[k], rel=1e-9)
        np.testing.assert_allclose(one.slope, slopes[k], rtol=1e-7, atol=1e-9)

        def slope(mean, k=k):
            return quadrature.expected_log_joints(process, mean[None], sds[k : k + 1])[1][0]

        expected = approx_fprime(means[k], slope, 1e-6)
        np.testing.assert_allclose(one.curvature, expected, rtol=1e-4, atol=1e-4)
