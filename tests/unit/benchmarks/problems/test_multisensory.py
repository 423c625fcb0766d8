"""The multisensory model against a plain restatement, its truth against the stored one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from benchmarks.folders import REFERENCES
from benchmarks.problems.multisensory.model import BOX, Session, read_session, simulated
from benchmarks.problems.multisensory.problem import benchmark
from benchmarks.problems.multisensory.truth import draws_of, integrate, moments_of
from benchmarks.problems.reference_posterior import Reference


def test_prior_is_pyvbmc_spline_trapezoid() -> None:
    from pyvbmc.priors import SplineTrapezoidal

    theirs = SplineTrapezoidal(BOX.lower, BOX.plausible_lower, BOX.plausible_upper, BOX.upper)
    x = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, (50, 6))
    np.testing.assert_allclose(
        BOX.log_priors(x).sum(axis=1), np.ravel(theirs.log_pdf(x)), atol=1e-12
    )


def trials(n: int = 60) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    disparity = rng.choice([-10.0, -5.0, 0.0, 5.0, 10.0], n)
    level = rng.integers(1, 4, n)
    return level, disparity + 3.0, np.full(n, 3.0), rng.integers(0, 2, n)


def test_counts_give_the_likelihood_of_the_trials_one_by_one() -> None:
    level, s_vest, s_vis, common = trials()
    x = np.array([4.0, 6.0, 9.0, 5.0, 0.05, 11.0])
    s = np.hypot(x[level - 1], x[3])
    d = s_vest - s_vis
    p = 0.5 * x[4] + (1 - x[4]) * (ndtr((d + x[5]) / s) - ndtr((d - x[5]) / s))
    expected = np.log(np.where(common == 1, p, 1 - p)).sum() + BOX.log_priors(x).sum()
    found = Session.from_trials(level, s_vest, s_vis, common).log_densities(x[None])
    assert found[0] == pytest.approx(expected, rel=1e-12)


def test_outside_the_hard_bounds_is_impossible() -> None:
    outside = np.array([[4.0, 4.0, 9.0, 5.0, 0.6, 10.0], [0.5, 4.0, 9.0, 5.0, 0.03, 10.0]])
    assert np.all(simulated().log_densities(outside) == -np.inf)


def test_a_session_survives_a_csv(tmp_path: Path) -> None:
    level, s_vest, s_vis, common = trials()
    table = np.column_stack([level, s_vest, s_vis, common])
    path = tmp_path / "session.csv"
    np.savetxt(path, table, delimiter=",", header="coherence,s_vest,s_vis,reported_common",
               comments="", fmt="%g")  # fmt: skip
    found, expected = read_session(path), Session.from_trials(level, s_vest, s_vis, common)
    np.testing.assert_array_equal(found.common, expected.common)
    np.testing.assert_array_equal(found.separate, expected.separate)


def test_a_wrong_csv_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "session.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="session.csv: the columns are"):
        read_session(path)


def test_quadrature_agrees_with_the_stored_reference_and_its_own_draws() -> None:
    session = simulated()
    integral = integrate(session, 2)
    stored = Reference.load(REFERENCES / "multisensory.npz")
    assert integral.log_evidence == pytest.approx(stored.log_evidence, abs=5e-3)
    mean, covariance = moments_of(integral)
    sds = np.sqrt(np.diag(stored.covariance))
    assert np.all(np.abs(mean - stored.mean) < 0.02 * sds)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sds, rtol=0.02)
    draws = draws_of(session, integral, 4000, np.random.default_rng(0))
    assert np.all(np.abs(draws.mean(axis=0) - stored.mean) < 5 * sds / np.sqrt(4000) + 0.01 * sds)


def test_evidence_by_importance_sampling_from_the_stored_draws() -> None:
    # An independent check of the quadrature: a wide Gaussian fitted to the draws as the proposal.
    stored = Reference.load(REFERENCES / "multisensory.npz")
    proposal = multivariate_normal(stored.mean, 1.5 * stored.covariance)
    x = proposal.rvs(100_000, random_state=3)
    log_weights = simulated().log_densities(x) - proposal.logpdf(x)
    weights = np.exp(log_weights - log_weights.max())
    found = np.log(weights.mean()) + log_weights.max()
    error = weights.std() / weights.mean() / np.sqrt(len(x))
    assert abs(found - stored.log_evidence) < 4 * error
    assert error < 0.02


def test_noise_of_the_problem_follows_the_generator() -> None:
    problem = benchmark(noise_sd=3.0).problem()
    x = np.array([4.0, 4.0, 9.0, 5.0, 0.03, 10.0])
    first, sd = problem.evaluate(x, np.random.default_rng(1))
    again, _ = problem.evaluate(x, np.random.default_rng(1))
    other, _ = problem.evaluate(x, np.random.default_rng(2))
    assert sd == 3.0
    assert first == again != other
