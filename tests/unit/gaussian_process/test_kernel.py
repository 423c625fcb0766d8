"""The squared-exponential kernel."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from vbstack.gaussian_process.kernel import kernel, squared_exponential


def test_the_kernel_is_that_of_the_formula(hyperparameters):
    rng = np.random.default_rng(0)
    points, others = rng.normal(size=(5, 2)), rng.normal(size=(7, 2))
    distances = cdist(points / np.exp([-0.7, -0.4]), others / np.exp([-0.7, -0.4]))
    expected = np.exp(1.6) * np.exp(-0.5 * distances**2)
    np.testing.assert_allclose(kernel(hyperparameters, points, others), expected, rtol=1e-12)


def test_no_value_exceeds_the_variance_and_a_point_with_itself_has_it():
    """Far from the origin the squares cancel; their rounding may not show as more variance."""
    points = 1e6 + np.random.default_rng(1).normal(size=(20, 3))
    found = squared_exponential(points, points, 2.5)
    assert found.max() <= 2.5
    near = squared_exponential(points - 1e6, points - 1e6, 2.5)
    assert np.diag(near) == pytest.approx(2.5)


def test_a_kernel_matrix_can_be_factorised_in_place(hyperparameters):
    """LAPACK overwrites a matrix only where its columns are contiguous."""
    points = np.random.default_rng(2).normal(size=(6, 2))
    assert kernel(hyperparameters, points, points).flags.f_contiguous
