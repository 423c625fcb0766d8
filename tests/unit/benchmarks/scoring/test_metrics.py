"""ΔLML, MMTV and GsKL against closed forms; marginals of mixtures; moments of draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from benchmarks.problems.gmm_and_ring import gmm
from benchmarks.scoring.metrics import (
    Approximation,
    gskl,
    metrics,
    mixture_marginal,
    mmtv,
    of_draws,
    of_mixture,
)
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


def test_weighted_draws_have_weighted_moments() -> None:
    rng = np.random.default_rng(4)
    draws = rng.uniform(-6, 6, (40_000, 2))
    weights = np.exp(norm.logpdf(draws).sum(axis=1))
    found = of_draws(draws, 0.0, weights)
    # An effective sample of about 3,500 draws: four standard errors.
    np.testing.assert_allclose(found.mean, 0.0, atol=4 / np.sqrt(3500))
    np.testing.assert_allclose(found.covariance, np.eye(2), atol=4 * np.sqrt(2 / 3500))
