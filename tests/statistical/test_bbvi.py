"""BBVI: its gradient against finite differences, its answer on a Gaussian."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines import bbvi
from benchmarks.baselines.methods import space_of
from benchmarks.problems.gmm_and_ring import gmm

MEAN, SD, LOG_EVIDENCE = np.array([0.3, -0.2]), np.array([0.15, 0.3]), 1.5


def log_target(x: np.ndarray) -> np.ndarray:
    z = (x - MEAN) / SD
    return LOG_EVIDENCE - 0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi * SD.prod())


def test_score_is_the_gradient_of_log_q() -> None:
    rng = np.random.default_rng(0)
    p = bbvi.Parameters(*(rng.standard_normal(s) for s in (3, (3, 2), (3, 2))))
    x, c = rng.standard_normal((5, 2)), rng.standard_normal(5)
    flat = p.packed()
    _, combined = bbvi.score(p, x)
    numeric = np.empty_like(flat)
    for i in range(flat.size):
        step = 1e-5 * (np.arange(flat.size) == i)
        up = bbvi.score(bbvi.Parameters.unpacked(flat + step, 3), x)[0]
        down = bbvi.score(bbvi.Parameters.unpacked(flat - step, 3), x)[0]
        numeric[i] = c @ (up - down) / 2e-5
    np.testing.assert_allclose(combined(c), numeric, atol=1e-7)


def test_gaussian_target_is_found() -> None:
    fit = bbvi.climb(log_target, 2, 5, 6000, 10, 0.01, np.random.default_rng(1))
    p = fit.parameters
    mean = p.weights @ p.means
    variance = p.weights @ (np.exp(2 * p.log_sds) + (p.means - mean) ** 2)
    assert fit.elbo == pytest.approx(LOG_EVIDENCE, abs=0.05)
    np.testing.assert_allclose(mean, MEAN, atol=0.1 * SD.min())
    np.testing.assert_allclose(np.sqrt(variance), SD, rtol=0.1)


def test_the_best_of_the_grid_is_taken_and_repeatable() -> None:
    first = bbvi.best_fit(log_target, 2, 5, 500, seed=3)
    again = bbvi.best_fit(log_target, 2, 5, 500, seed=3)
    np.testing.assert_array_equal(first.parameters.packed(), again.parameters.packed())
    assert first.draws in bbvi.DRAWS
    assert first.rate in bbvi.RATES


def test_budget_is_the_papers() -> None:
    assert bbvi.budget_of(2, noisy=False) == 8000
    assert bbvi.budget_of(6, noisy=True) == 24_000


def test_approximation_lives_in_the_original_space() -> None:
    link, centre, width = space_of(gmm())
    fit = bbvi.climb(log_target, 2, 4, 20, 10, 0.01, np.random.default_rng(0))
    found = bbvi.approximation_of(fit, link, centre, width)
    expected = centre + width * (fit.parameters.weights @ fit.parameters.means)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-9, atol=1e-12)
