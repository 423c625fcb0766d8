"""Densities of one parameter: of mixtures and of weighted draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.problems.marginal_densities import gaussian_sum, kernel_density


def test_kernel_density_of_normal_draws_is_normal() -> None:
    draws = np.random.default_rng(2).standard_normal(20_000)
    mesh, density = kernel_density(draws, np.ones(draws.size))
    assert np.trapezoid(density, mesh) == pytest.approx(1.0, abs=1e-3)
    assert 0.5 * np.trapezoid(np.abs(density - norm.pdf(mesh)), mesh) < 0.02


def test_repeated_and_weighted_draws_give_the_same_density() -> None:
    rng = np.random.default_rng(2)
    draws = rng.standard_normal(2000)
    plain = kernel_density(draws, np.ones(draws.size))
    for same in (
        kernel_density(np.repeat(draws, 3), np.ones(3 * draws.size)),
        kernel_density(draws, np.full(draws.size, 0.1)),
    ):
        np.testing.assert_allclose(same[1], plain[1], atol=1e-12)


def test_gaussian_sum_of_one_is_its_density() -> None:
    x = np.linspace(-3, 3, 7)
    found = gaussian_sum(x, np.array([1.0]), np.array([0.5]), np.array([2.0]))
    np.testing.assert_allclose(found, norm.pdf(x, 0.5, 2.0), rtol=1e-14)
