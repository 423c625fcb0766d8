"""What one does with a stack: sample, evaluate, summarise; and bad input."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests.synthetic import make_run, make_transform, random_run
from tests.unit.stacking.test_mixture import posterior as pyvbmc_posterior
from vbstack import Run, StackedPosterior, stack


@pytest.fixture(scope="module")
def stacked() -> StackedPosterior:
    rng = np.random.default_rng(0)
    return stack([random_run(rng, 2, names=("rate", "bias")) for _ in range(3)])


@pytest.fixture(scope="module")
def bounded() -> StackedPosterior:
    runs = [
        Run.from_pyvbmc(pyvbmc_posterior("probit", bounded=True, rotated=True, seed=s))
        for s in range(3)
    ]
    return stack(runs)


def test_sample_has_exactly_n_rows_and_follows_the_seed(stacked):
    for n in (0, 1, 1000):
        assert stacked.sample(n, seed=1).shape == (n, 2)
    np.testing.assert_array_equal(stacked.sample(50, seed=3), stacked.sample(50, seed=3))
    assert not np.array_equal(stacked.sample(50), stacked.sample(50))
    for bad in (-1, 2.5):
        with pytest.raises(ValueError, match="must be a whole number"):
            stacked.sample(bad)


@pytest.mark.parametrize("which", ["stacked", "bounded"])
def test_moments_equal_those_of_draws(which, request):
    posterior = request.getfixturevalue(which)
    mean, covariance = posterior.moments()
    x = posterior.sample(400_000, seed=0)
    error = x.std(axis=0) / np.sqrt(len(x))
    np.testing.assert_array_less(np.abs(x.mean(axis=0) - mean), 4.5 * error)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(x.T) / scale, covariance / scale, atol=0.015)


def test_draws_respect_the_bounds_and_the_density_vanishes_outside(bounded):
    x = bounded.sample(10_000, seed=0)
    link = bounded.runs[0].transform.link
    assert link.inside(x).all()
    outside = x[:3].copy()
    outside[0, 1], outside[1, 1], outside[2, 2] = -2.0, 3.5, np.inf
    assert np.all(np.isneginf(bounded.log_pdf(outside)))
    assert np.all(bounded.pdf(outside) == 0)


def test_the_density_integrates_to_one(stacked, bounded):
    """By importance sampling from a wide proposal; 4 standard errors."""
    rng = np.random.default_rng(0)
    mean, covariance = stacked.moments()
    factor = np.linalg.cholesky(4 * covariance)
    z = rng.standard_normal((200_000, 2))
    log_proposal = -0.5 * (z**2).sum(1) - np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    ratio = np.exp(stacked.log_pdf(mean + z @ factor.T) - log_proposal)
    assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / np.sqrt(len(z)))
    # Bounded: uniform points over the two bounded parameters, a wide Gaussian over the other.
    n = 400_000
    mean, covariance = bounded.moments()
    sd = 2 * np.sqrt(covariance[0, 0])
    x = np.column_stack([rng.normal(mean[0], sd, n), rng.uniform(-2, 3, n), rng.uniform(0, 50, n)])
    ratio = bounded.pdf(x) / (norm.pdf(x[:, 0], mean[0], sd) / (5 * 50))
    assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / np.sqrt(n))
    assert np.ndim(bounded.log_pdf(x[0])) == 0


@pytest.mark.parametrize("which", ["stacked", "bounded"])
def test_mode_is_a_peak(which, request):
    posterior = request.getfixturevalue(which)
    mode = posterior.mode()
    peak = posterior.log_pdf(mode)
    assert peak >= posterior.log_pdf(posterior.sample(20_000, seed=1)).max() - 1e-6


def test_moments_far_from_zero_do_not_cancel():
    mean, covariance = stack([make_run([[1e8]], 1.0, 0.0)]).moments()
    assert mean[0] == pytest.approx(1e8)
    assert covariance[0, 0] == pytest.approx(1.0)


def test_moments_of_wide_components_between_bounds():
    """Against numerical integration of one coordinate, five times as wide as the link's scale."""
    for kind in (3, 12, 13):
        transform = make_transform([kind], 0.0, 1.0)
        run = make_run([[0.3]], 5.0, 0.0, transform=transform)
        mean, covariance = stack([run]).moments()
        y = np.linspace(-60, 60, 400_001)
        weights = norm.pdf(y, 0.3, 5) / norm.pdf(y, 0.3, 5).sum()
        theta = transform.inverse(y[:, None])[:, 0]
        assert mean[0] == pytest.approx(weights @ theta, abs=1e-5)
        assert covariance[0, 0] == pytest.approx(
            weights @ theta**2 - (weights @ theta) ** 2, abs=1e-5
        )


def test_log_pdf_names_bad_points(stacked):
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(n, 2\)"):
        stacked.log_pdf([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="NaN in row 1"):
        stacked.log_pdf([[0.0, 0.0], [np.nan, 0.0]])


def test_weights_components_and_summary_agree(stacked):
    components = stacked.components
    assert stacked.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        stacked.run_weights, [stacked.weights[components.run == m].sum() for m in range(3)]
    )
    assert components.centres.shape == (15, 2)
    summary = stacked.summary()
    for text in ("rate", "bias", "Log evidence", "naive stacking", "certified", "mode"):
        assert text in summary


def test_settings_are_checked(stacked):
    runs = list(stacked.runs)
    for settings, message in (
        ({"tolerance": 0}, "tolerance=0"),
        ({"final_draws": 1}, "final_draws=1"),
        ({"final_draws": np.nan}, "final_draws=nan"),
        ({"max_draws": 2}, "max_draws=2"),
        ({"solver": "sgd"}, "solver='sgd'"),
        ({"weights": "some"}, "weights='some'"),
    ):
        with pytest.raises(ValueError, match=message):
            stack(runs, **settings)


def test_runs_may_come_from_a_generator_but_not_alone(stacked):
    generator: Any = (run for run in stacked.runs)
    again = stack(generator)
    np.testing.assert_array_equal(again.weights, stacked.weights)
    with pytest.raises(TypeError, match=r"pass \[run\]"):
        stack(stacked.runs[0])


def test_the_same_seed_gives_the_same_posterior(stacked):
    again = stack(list(stacked.runs))
    np.testing.assert_array_equal(stacked.weights, again.weights)
    assert stacked.evidence == again.evidence


def test_exhausted_draws_are_said():
    rng = np.random.default_rng(3)
    runs = [random_run(rng, 8, size=40) for _ in range(4)]
    posterior = stack(runs, tolerance=1e-5, max_draws=8)
    assert posterior.solution.status.startswith("not certified to the tolerance: max_draws")
    assert posterior.solution.gap > 1e-5


def test_noisy_stacks_report_the_capped_evidence():
    rng = np.random.default_rng(5)
    runs = [random_run(rng, 2, noise_level=2) for _ in range(4)]
    evidence = stack(runs).evidence
    assert evidence.noisy
    assert evidence.method == "own"
    assert evidence.log_evidence == evidence.capped_components <= evidence.raw
    assert evidence.capped_runs <= evidence.raw
    assert "noisy" in evidence.reason
    exact = stack([random_run(rng, 2) for _ in range(2)]).evidence
    assert exact.log_evidence == exact.elbo == exact.raw
    assert exact.method == "own"


def test_evidence_adds_up():
    """Parts, caps and errors of a two-component stack that can be written down."""
    runs = [
        make_run([[0.0]], 1.0, 2.0, variance=0.04),
        make_run([[100.0]], 1.0, 1.0, variance=0.09),
    ]
    e = stack(runs, weights="naive", final_draws=2048).evidence
    entropy = 0.5 * (1 + np.log(2 * np.pi)) + np.log(2)
    assert e.expected_log_joint == pytest.approx(1.5)
    assert e.entropy == pytest.approx(entropy, abs=5e-3)
    assert e.gp_sd == pytest.approx(np.sqrt(0.25 * 0.04 + 0.25 * 0.09))
    assert e.total_sd == pytest.approx(np.hypot(e.entropy_sd, e.gp_sd))
    assert e.raw == pytest.approx(e.expected_log_joint + e.entropy)
    best = stack(runs, final_draws=2048).evidence
    assert best.capped_components == pytest.approx(1.5 + best.entropy)
    assert best.capped_runs == pytest.approx(1.5 + best.entropy)
