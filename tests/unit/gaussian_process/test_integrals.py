"""Expectations under Gaussians: numerical integration, and the full and diagonal formulas."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.unit.gaussian_process.examples import diagonal_factors, full_prior, gaussians, grid
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.integrals import (
    diagonal_expected_mean,
    diagonal_kernel_mean_gradients,
    diagonal_kernel_means,
    diagonal_kernel_pairs,
    diagonal_kernel_self_pairs,
    expected_mean,
    kernel_means,
    kernel_pairs,
    one_kernel_mean,
)
from vbstack.gaussian_process.kernel import kernel
from vbstack.gaussian_process.prior import Prior

POINTS = np.random.default_rng(2).normal(size=(5, 2))


def test_kernel_integrals_agree_with_brute_force():
    prior, (centres, factors) = full_prior(), gaussians(3)
    grids = [grid(c, f) for c, f in zip(centres, factors, strict=True)]
    means = [w @ prior.kernel(x, POINTS) for x, w in grids]
    assert kernel_means(prior, centres, factors, POINTS) == pytest.approx(np.array(means))
    pairs = [[w @ prior.kernel(x, y) @ v for y, v in grids] for x, w in grids]
    assert kernel_pairs(prior, centres, factors) == pytest.approx(np.array(pairs))
    expected = [w @ prior.mean(x) for x, w in grids]
    assert expected_mean(prior, centres, factors) == pytest.approx(np.array(expected))


def test_diagonal_integrals_agree_with_brute_force(hyperparameters, mixture):
    h, means, sds = hyperparameters, mixture.means, mixture.sds
    grids = [grid(m, f, 40) for m, f in zip(means, diagonal_factors(sds), strict=True)]
    z, _ = diagonal_kernel_means(h, means, sds, POINTS)
    expected = np.array([w @ kernel(h, x, POINTS) for x, w in grids])
    np.testing.assert_allclose(z, expected.T, rtol=1e-6)
    pairs = [[w @ kernel(h, x, y) @ v for y, v in grids] for x, w in grids]
    assert diagonal_kernel_pairs(h, means, sds) == pytest.approx(np.array(pairs))
    bend, _, _ = diagonal_expected_mean(h, means, sds)
    assert h.height - bend == pytest.approx(np.array([w @ h.mean(x) for x, w in grids]))


@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_full_and_diagonal_formulas_agree_for_diagonal_gaussians(dimension):
    rng = np.random.default_rng(dimension)
    h = Hyperparameters.from_vector(0.5 * rng.normal(size=3 * dimension + 2))
    means = rng.normal(size=(4, dimension))
    sds = rng.uniform(0.1, 2.0, (4, dimension))
    points = rng.normal(size=(7, dimension))
    prior, factors = Prior.of(h), diagonal_factors(sds)
    z, tau2 = diagonal_kernel_means(h, means, sds, points)
    np.testing.assert_allclose(z.T, kernel_means(prior, means, factors, points), rtol=1e-10)
    np.testing.assert_allclose(tau2, h.lengths**2 + sds**2)
    pairs = kernel_pairs(prior, means, factors)
    np.testing.assert_allclose(diagonal_kernel_pairs(h, means, sds), pairs, rtol=1e-10)
    np.testing.assert_allclose(diagonal_kernel_self_pairs(h, sds)[0], np.diag(pairs), rtol=1e-10)
    bend, _, _ = diagonal_expected_mean(h, means, sds)
    np.testing.assert_allclose(
        h.height - bend, expected_mean(prior, means, factors), rtol=1e-10, atol=1e-12
    )


def test_one_full_gaussian_agrees_with_many(hyperparameters):
    means, factors = gaussians(3)
    many = kernel_means(Prior.of(hyperparameters), means, factors, POINTS)
    for mean, factor, expected in zip(means, factors, many, strict=True):
        z, solved, total = one_kernel_mean(hyperparameters, mean, factor @ factor.T, POINTS)
        np.testing.assert_allclose(z, expected, rtol=1e-10)
        np.testing.assert_allclose(
            total, np.diag(hyperparameters.lengths**2) + factor @ factor.T, rtol=1e-12
        )
        np.testing.assert_allclose(solved @ total, POINTS - mean, atol=1e-12)


def test_without_widths_the_mean_function_is_its_height(hyperparameters, mixture):
    flat = Hyperparameters(hyperparameters.log_lengths, 0.8, -2.0, np.zeros(2), np.full(2, np.inf))
    bend, d_means, d_sds = diagonal_expected_mean(flat, mixture.means, mixture.sds)
    for found in (bend, d_means, d_sds):
        np.testing.assert_array_equal(found, 0.0)
    factors = diagonal_factors(mixture.sds)
    np.testing.assert_array_equal(expected_mean(Prior.of(flat), mixture.means, factors), -2.0)


def test_diagonal_gradients_equal_finite_differences(hyperparameters, mixture):
    h, means, sds = hyperparameters, mixture.means, mixture.sds
    coefficients = np.random.default_rng(3).normal(size=(len(POINTS), len(means)))
    z, tau2 = diagonal_kernel_means(h, means, sds, POINTS)
    kernel_gradients = diagonal_kernel_mean_gradients(coefficients * z, means, sds, tau2, POINTS)
    _, *bend_gradients = diagonal_expected_mean(h, means, sds)

    def kernel_sum(v):
        new_means, new_sds = v.reshape(2, *means.shape)
        return float((coefficients * diagonal_kernel_means(h, new_means, new_sds, POINTS)[0]).sum())

    def bend_sum(v):
        new_means, new_sds = v.reshape(2, *means.shape)
        return float(diagonal_expected_mean(h, new_means, new_sds)[0].sum())

    at = np.array([means, sds]).ravel()
    for total, gradients in ((kernel_sum, kernel_gradients), (bend_sum, bend_gradients)):
        np.testing.assert_allclose(
            np.ravel(gradients), approx_fprime(at, total, 1e-7), rtol=1e-5, atol=1e-5
        )

    def pair_sum(v):
        return float(diagonal_kernel_self_pairs(h, v.reshape(sds.shape))[0].sum())

    np.testing.assert_allclose(
        diagonal_kernel_self_pairs(h, sds)[1].ravel(),
        approx_fprime(sds.ravel(), pair_sum, 1e-7),
        rtol=1e-5,
        atol=1e-5,
    )
