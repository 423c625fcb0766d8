"""The exact references of the GMM and the ring."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.problems.gmm_and_ring import gmm, ring
from benchmarks.problems.reference_posterior import Reference


@pytest.mark.parametrize("make", [gmm, ring])
def test_exact_references_agree_with_exact_draws(make) -> None:
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
