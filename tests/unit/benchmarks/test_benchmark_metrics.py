"""ΔLML, MMTV and GsKL against closed forms; marginals of mixtures; kernel densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from benchmarks.metrics import (
    Approximation,
    gaussian_sum,
    gskl,
    kernel_density,
    metrics,
    mixture_marginal,
    mmtv,
    of_draws,
    of_mixture,
)
from benchmarks.problems import gmm, ring
from benchmarks.reference import Reference
from tests.synthetic import identity, random_run
from vbstack import Mixture, Run, Transform

GRID = np.linspace(-12.0, 12.0, 20_001)


def run_of(bounded: bool) -> Run:
    """Three dimensions; probit links, a rotation and a scale when bounded."""
    rng = np.random.default_rng(3)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    transform = Transform(
        kinds=np.full(3, 12),
        lower=np.array([-4.0, 0.0, 1.0]),
        upper=np.array([4.0, 1.0, 7.0]),
        centre=np.array([0.1, -0.2, 0.3]),
        width=np.array([0.5, 0.8, 0.4]),
        scale=np.array([1.0, 0.7, 1.2]),
        rotation=rotation,
    )
    return random_run(rng, 3, transform=transform if bounded else identity(3))


def test_mmtv_of_two_gaussians_is_closed_form() -> None:
    # TV(N(0,1), N(δ,1)) = 2Φ(δ/2) − 1, here with δ = 0.8 and 0 in two parameters.
    grids, densities = np.tile(GRID, (2, 1)), np.tile(norm.pdf(GRID), (2, 1))
    found = mmtv(grids, densities, lambda d, x: norm.pdf(x, 0.8 if d == 0 else 0.0))
    assert found == pytest.approx((2 * ndtr(0.4) - 1) / 2, abs=1e-7)


def test_mmtv_counts_mass_outside_the_grid() -> None:
    found = mmtv(GRID[None], norm.pdf(GRID)[None], lambda _, x: norm.pdf(x, 50.0))
    assert found == pytest.approx(1.0, abs=1e-9)


def test_gskl_of_gaussians_is_closed_form() -> None:
    # One dimension: KL(p‖q) = log(σq/σp) + (σp² + δ²)/2σq² − ½, summed both ways, over 2.
    sp, sq, delta = 1.3, 0.7, 0.4
    forward = np.log(sq / sp) + (sp**2 + delta**2) / (2 * sq**2) - 0.5
    backward = np.log(sp / sq) + (sq**2 + delta**2) / (2 * sp**2) - 0.5
    found = gskl(np.array([0.0]), np.array([[sp**2]]), np.array([delta]), np.array([[sq**2]]))
    assert found == pytest.approx((forward + backward) / 2, rel=1e-12)


def test_gskl_is_the_same_in_any_linear_coordinates() -> None:
    rng = np.random.default_rng(0)
    a, b, change = rng.standard_normal((3, 4, 4))
    p, q = a @ a.T + np.eye(4), b @ b.T + np.eye(4)
    mean = rng.standard_normal(4)
    first = gskl(np.zeros(4), p, mean, q)
    second = gskl(np.zeros(4), change @ p @ change.T, change @ mean, change @ q @ change.T)
    assert second == pytest.approx(first, rel=1e-8)
    assert gskl(mean, p, mean, p) == pytest.approx(0.0, abs=1e-12)


def test_metrics_of_the_truth_itself_are_zero() -> None:
    truth = gmm().reference
    assert truth is not None
    same = Approximation(
        truth.log_evidence,
        truth.mean,
        truth.covariance,
        lambda d, x: np.interp(x, truth.grids[d], truth.densities[d]),
    )
    found = metrics(same, truth)
    assert found.delta_lml == 0.0
    assert found.mmtv == pytest.approx(0.0, abs=1e-9)
    assert found.gskl == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("bounded", [False, True])
def test_marginal_of_a_mixture_agrees_with_its_draws_and_moments(bounded: bool) -> None:
    run = run_of(bounded)
    mixture = Mixture.from_runs([run])
    approximation = of_mixture(mixture, run.weights, 0.0)
    draws = mixture.sample(run.weights, 200_000, np.random.default_rng(1))
    for d in range(run.dimension):
        low, high = draws[:, d].min(), draws[:, d].max()
        x = np.linspace(low - (high - low), high + (high - low), 40_001)
        density = approximation.marginal(d, x)
        assert np.trapezoid(density, x) == pytest.approx(1.0, abs=2e-3)
        mean = np.trapezoid(x * density, x)
        sd = np.sqrt(approximation.covariance[d, d])
        assert mean == pytest.approx(approximation.mean[d], abs=2e-3 * sd)
        # Kolmogorov–Smirnov distance of 200,000 draws: 1.95/√n is its 0.1 % point.
        cdf = np.cumsum(density) * (x[1] - x[0])
        empirical = np.searchsorted(np.sort(draws[:, d]), x) / len(draws)
        assert np.abs(cdf - empirical).max() < 1.95 / np.sqrt(len(draws)) + 2e-3


def test_marginal_is_zero_outside_hard_bounds() -> None:
    run = run_of(True)
    outside = np.array([run.transform.lower[0] - 1.0, run.transform.upper[0] + 1.0])
    found = mixture_marginal(Mixture.from_runs([run]), run.weights, 0, outside)
    assert np.array_equal(found, np.zeros(2))


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


def test_weighted_draws_have_weighted_moments() -> None:
    rng = np.random.default_rng(4)
    draws = rng.uniform(-6, 6, (40_000, 2))
    weights = np.exp(norm.logpdf(draws).sum(axis=1))
    found = of_draws(draws, 0.0, weights)
    # An effective sample of about 3,500 draws: four standard errors.
    np.testing.assert_allclose(found.mean, 0.0, atol=4 / np.sqrt(3500))
    np.testing.assert_allclose(found.covariance, np.eye(2), atol=4 * np.sqrt(2 / 3500))


@pytest.mark.parametrize("make", [gmm, ring])
def test_exact_references_agree_with_exact_draws(make: Callable[[], Any]) -> None:
    target = make()
    truth: Reference = target.reference
    draws = target.sample(400_000, np.random.default_rng(5))
    standard_errors = np.sqrt(np.diag(truth.covariance) / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - truth.mean) < 4.5 * standard_errors)
    np.testing.assert_allclose(np.cov(draws, rowvar=False), truth.covariance, rtol=0.02, atol=0.3)
    for d in range(2):
        assert np.trapezoid(truth.densities[d], truth.grids[d]) == pytest.approx(1.0, abs=1e-6)
        edges = truth.grids[d][::50]
        counts, _ = np.histogram(draws[:, d], edges)
        step = truth.grids[d][1] - truth.grids[d][0]
        expected = np.add.reduceat(truth.densities[d][:-1], np.arange(0, 50 * counts.size, 50))
        error = np.abs(counts / len(draws) - expected * step)
        assert error.max() < 5 * np.sqrt(0.05 / len(draws)) + 1e-3


def test_ring_evidence_is_the_known_value() -> None:
    assert ring().log_evidence == pytest.approx(2.5337, abs=5e-5)


def test_gaussian_sum_of_one_is_its_density() -> None:
    x = np.linspace(-3, 3, 7)
    found = gaussian_sum(x, np.array([1.0]), np.array([0.5]), np.array([2.0]))
    np.testing.assert_allclose(found, norm.pdf(x, 0.5, 2.0), rtol=1e-14)
