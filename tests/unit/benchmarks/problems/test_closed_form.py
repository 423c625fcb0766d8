"""Closed forms: densities, draws, moments and marginals agree, and they are normalised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_t

from benchmarks.problems.closed_form import CLOSED_FORM
from benchmarks.scoring.metrics import metrics, of_draws

MANY_DIMENSIONS = ("bent", "contaminated", "copula", "hyperbolic", "skew_normal")


@pytest.mark.parametrize("name", sorted(CLOSED_FORM))
def test_closed_form_targets_agree_with_their_own_draws(name: str) -> None:
    target = CLOSED_FORM[name]()
    truth = target.reference
    assert truth is not None
    draws = target.sample(40_000, np.random.default_rng(0))
    spread = np.sqrt(np.diag(truth.covariance))
    np.testing.assert_allclose((draws.mean(axis=0) - truth.mean) / spread, 0, atol=0.03)
    found = metrics(of_draws(draws, 0.0), truth)
    assert found.mmtv < 0.03
    assert found.gskl < 0.01
    # E_p[g/p] = 1/Z for any normalised g within the support: here the uniform density on a box.
    half = 0.25 * np.minimum(spread, 1.0)
    inside = np.all(np.abs(draws - truth.mean) < half, axis=1)
    if inside.sum() > 50:  # in two and three dimensions
        density = np.exp(target.log_densities(draws[inside]))
        estimate = (1 / density).sum() / np.prod(2 * half) / len(draws)
        assert estimate == pytest.approx(1.0, abs=4 / np.sqrt(inside.sum()))


@pytest.mark.parametrize("name", MANY_DIMENSIONS)
def test_targets_of_many_dimensions_are_normalised(name: str) -> None:
    """E_g[p/g] = Z for draws of a wide Student t."""
    target = CLOSED_FORM[name]()
    truth = target.reference
    assert truth is not None
    wide = multivariate_t(truth.mean, truth.covariance, 5)
    draws = wide.rvs(200_000, random_state=np.random.default_rng(0))
    ratios = np.exp(target.log_densities(draws) - wide.logpdf(draws))
    error = ratios.std() / np.sqrt(len(ratios))
    assert error < 0.02
    assert ratios.mean() == pytest.approx(1.0, abs=4 * error)
