"""The real-world problems: models against plain restatements, truths against stored ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal, multivariate_t

from benchmarks import multisensory
from benchmarks.metrics import metrics, of_draws
from benchmarks.multisensory_model import BOX, Session, read_session, simulated
from benchmarks.multisensory_truth import draws_of, integrate, moments_of
from benchmarks.neuronal_noise import Noise, Whitener
from benchmarks.neuronal_recording import (
    SHIPPED,
    likelihood_times,
    quiet_parts,
    read_recording,
    stimulus_changes,
)
from benchmarks.reference import REFERENCES, Reference
from benchmarks.targets import TARGETS
from benchmarks.targets_many import MANY


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
    problem = multisensory.problem(noise_sd=3.0)
    x = np.array([4.0, 4.0, 9.0, 5.0, 0.03, 10.0])
    first, sd = problem.evaluate(x, np.random.default_rng(1))
    again, _ = problem.evaluate(x, np.random.default_rng(1))
    other, _ = problem.evaluate(x, np.random.default_rng(2))
    assert sd == 3.0
    assert first == again != other


def test_whitener_is_a_multivariate_normal() -> None:
    times = np.array([0.0, 0.5, 1.0, 7.0, 30.0])
    noise = Noise(0.02, 15.0, 80.0)
    residual = np.array([0.01, 0.02, -0.01, 0.0, 0.03])
    expected = multivariate_normal(np.zeros(5), noise.covariance(times)).logpdf(residual)
    assert Whitener.of(noise, times).log_density(residual) == pytest.approx(expected, rel=1e-9)


def test_noise_is_recovered_from_long_quiet_stretches() -> None:
    noise = Noise(0.02, 15.0, 80.0)
    rng = np.random.default_rng(0)
    times = np.arange(0.0, 250.0, 0.5)
    found = Noise.estimate([noise.sample(times, rng) for _ in range(20)], 0.5)
    # 5 s of noise with 15 ms of memory: about 170 independent stretches, so 5 to 15 %.
    assert found.sd == pytest.approx(0.02, rel=0.2)
    assert found.decay == pytest.approx(15.0, rel=0.35)
    assert found.period == pytest.approx(80.0, rel=0.2)


def test_the_likelihood_looks_where_the_stimulus_changes() -> None:
    times = likelihood_times()
    assert np.all(np.diff(times) > 0)
    for change in stimulus_changes():
        assert np.sum((times >= change) & (times < change + 60)) >= 120
    recording = read_recording(SHIPPED)
    for begin, end in quiet_parts():
        quiet = recording.voltage[(recording.times >= begin) & (recording.times < end)]
        assert abs(quiet).max() < 0.1  # mV; the responses are up to 5


def test_a_recording_with_gaps_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.csv"
    path.write_text("t_ms,v_mV\n0,0\n0.5,0\n2.0,0\n")
    with pytest.raises(ValueError, match="equally spaced"):
        read_recording(path)


def test_a_reference_survives_its_file(tmp_path: Path) -> None:
    stored = Reference.load(REFERENCES / "multisensory.npz")
    again = Reference.load(stored.save(tmp_path / "copy.npz"))
    assert again.log_evidence == stored.log_evidence
    assert again.how == stored.how
    np.testing.assert_array_equal(again.draws, stored.draws)
    few = stored.sample(100, np.random.default_rng(0))
    assert len(np.unique(few, axis=0)) == 100
    assert len(stored.sample(len(stored.draws) + 5, np.random.default_rng(0))) > len(stored.draws)


@pytest.mark.parametrize("name", sorted(TARGETS | MANY))
def test_closed_form_targets_agree_with_their_own_draws(name: str) -> None:
    target = (TARGETS | MANY)[name]()
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


@pytest.mark.parametrize("name", sorted(MANY))
def test_targets_of_many_dimensions_are_normalised(name: str) -> None:
    """E_g[p/g] = Z for draws of a wide Student t."""
    target = MANY[name]()
    truth = target.reference
    assert truth is not None
    wide = multivariate_t(truth.mean, truth.covariance, 5)
    draws = wide.rvs(200_000, random_state=np.random.default_rng(0))
    ratios = np.exp(target.log_densities(draws) - wide.logpdf(draws))
    error = ratios.std() / np.sqrt(len(ratios))
    assert error < 0.02
    assert ratios.mean() == pytest.approx(1.0, abs=4 * error)
