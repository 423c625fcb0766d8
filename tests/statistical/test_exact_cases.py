"""Stacks whose answer is known, and what must not change an answer."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from tests.synthetic import gaussian_entropy, make_run, make_transform, random_run
from vbstack import Mixture, Screen, stack
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.mixture import own_log_joints


def test_identical_runs_give_the_runs_own_elbo():
    rng = np.random.default_rng(0)
    run = random_run(rng, 2, size=6)
    mixture = Mixture.from_runs([run])
    own = fresh_elbos(mixture, own_log_joints([run]), [run.weights], 20_000, rng)
    for kind in ("naive", "runs"):
        evidence = stack([run] * 4, weights=kind).evidence
        error = 4 * np.hypot(evidence.entropy_sd, own.standard_error(0))
        assert evidence.raw == pytest.approx(own.values[0], abs=error)
    best = stack([run] * 4, weights="all").evidence
    assert best.raw >= own.values[0] - 3 * np.hypot(best.entropy_sd, own.standard_error(0))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_disjoint_gaussians_share_the_weight_by_their_evidence(dimension):
    """w = softmax(I_j + h_j), ELBO = logsumexp(I_j + h_j)."""
    log_joint, sds = np.array([1.3, 0.2]), ([0.7] * dimension, [1.6] * dimension)
    runs = [
        make_run(np.full((1, dimension), 100.0 * j), [sds[j]], log_joint[j], elbo=log_joint[j])
        for j in range(2)
    ]
    scores = log_joint + [gaussian_entropy(s) for s in sds]
    for kind in ("all", "runs"):
        posterior = stack(runs, weights=kind, tolerance=1e-4, final_draws=4096)
        np.testing.assert_allclose(posterior.weights, softmax(scores), atol=1e-3)
        assert posterior.evidence.raw == pytest.approx(logsumexp(scores), abs=1e-3)


@pytest.mark.parametrize("distance", [1e2, 1e5, 1e8, 1e10, 1e12])
def test_components_may_be_any_distance_apart(distance):
    """Expanded squares would cancel: 1e8 standard deviations squared exceed double precision."""
    runs = [make_run([[0.0]], 1.0, 1.3), make_run([[distance]], 1.0, 0.2)]
    posterior = stack(runs)
    np.testing.assert_allclose(posterior.weights, softmax([1.3, 0.2]), atol=0.05)
    expected = logsumexp([1.3, 0.2]) + gaussian_entropy([1.0])
    assert posterior.evidence.raw == pytest.approx(expected, abs=0.02)


def test_a_component_that_its_run_gave_no_weight_can_earn_it():
    run = make_run([[0.0], [10.0]], 1.0, [0.0, 5.0], weights=[1.0, 0.0])
    posterior = stack([run])
    assert posterior.evidence.raw == pytest.approx(
        np.log1p(np.exp(5)) + gaussian_entropy([1.0]), abs=0.02
    )


def test_mass_near_a_bound_survives_stacking_with_another_link():
    """θ saturates at the last number below the bound; the run's own space does not."""
    logit = make_transform([3], 0.0, 1.0)
    probit = make_transform([12], 0.0, 1.0)
    edge = make_run([[45.0]], 1.0, 0.0, transform=logit)
    other = make_run([[-3.0]], 1.0, -40.0, transform=probit)
    alone, mixed = stack([edge]).evidence, stack([edge, other]).evidence
    assert mixed.raw == pytest.approx(alone.raw, abs=0.05)


def test_a_long_thin_ridge_is_stacked():
    half = np.sqrt(0.5)
    ridge = make_transform(
        [0, 0], -np.inf, np.inf, scale=[1, 1e-8], rotation=[[half, -half], [half, half]]
    )
    run = make_run([[0.0, 0.0], [1.0, 0.5]], 1.0, 0.0, transform=ridge)
    assert stack([run]).solution.status == "certified"


def test_one_run_naive_is_the_identity_and_all_weights_only_raise_the_elbo():
    run = random_run(np.random.default_rng(4), 3, size=8)
    naive, best = stack([run], weights="naive"), stack([run], weights="all")
    np.testing.assert_allclose(naive.weights, run.weights, atol=1e-15)
    assert best.evidence.raw >= naive.evidence.raw - 3 * naive.evidence.entropy_sd


@pytest.mark.parametrize("kind", ["all", "runs"])
def test_permuting_the_runs_changes_nothing_beyond_monte_carlo_error(kind):
    rng = np.random.default_rng(8)
    runs = [random_run(rng, 2) for _ in range(5)]
    first, second = stack(runs, weights=kind), stack(runs[::-1], weights=kind)
    error = 4 * np.hypot(first.evidence.entropy_sd, second.evidence.entropy_sd)
    gap = max(first.solution.gap, second.solution.gap)
    assert first.evidence.raw == pytest.approx(second.evidence.raw, abs=error + gap)


@pytest.mark.parametrize("kind", ["all", "runs"])
def test_a_useless_run_gets_no_weight_and_changes_nothing(kind):
    rng = np.random.default_rng(9)
    runs = [random_run(rng, 2) for _ in range(4)]
    useless = make_run(rng.normal(30, 1, (5, 2)), 0.5, -60.0, elbo=-60.0)
    without, with_it = stack(runs, weights=kind), stack([*runs, useless], weights=kind)
    assert with_it.run_weights[-1] < 1e-6
    error = 4 * np.hypot(without.evidence.entropy_sd, with_it.evidence.entropy_sd)
    gap = max(without.solution.gap, with_it.solution.gap)
    assert with_it.evidence.raw == pytest.approx(without.evidence.raw, abs=error + gap)


def test_adam_reaches_the_same_neighbourhood_and_its_gap_says_how_far_it_is():
    rng = np.random.default_rng(10)
    runs = [random_run(rng, 2) for _ in range(4)]
    certified, adam = stack(runs), stack(runs, solver="adam")
    shortfall = certified.evidence.raw - adam.evidence.raw
    error = 3 * np.hypot(certified.evidence.entropy_sd, adam.evidence.entropy_sd)
    assert shortfall >= -certified.solution.gap - error
    assert shortfall <= adam.solution.gap + error
    assert adam.solution.solver == "adam"
    assert adam.solution.iterations < 500


def test_components_of_different_runs_are_one_mixture():
    """Two half posteriors in two runs stack to the same as both halves in one run."""
    halves = [make_run([[-2.0]], 0.8, 0.5), make_run([[1.0]], 1.1, 0.3)]
    whole = make_run([[-2.0], [1.0]], [[0.8], [1.1]], [0.5, 0.3])
    apart, together = stack(halves), stack([whole])
    error = 4 * np.hypot(apart.evidence.entropy_sd, together.evidence.entropy_sd)
    assert apart.evidence.raw == pytest.approx(together.evidence.raw, abs=error + 0.01)


def test_more_weights_cannot_hurt():
    """naive ≤ runs ≤ all, up to gaps and Monte Carlo error."""
    rng = np.random.default_rng(12)
    runs = [random_run(rng, 3, variance=1e-4) for _ in range(6)]
    values = [stack(runs, weights=kind, screen=Screen(max_variance=1)) for kind in (
        "naive", "runs", "all")]  # fmt: skip
    for worse, better in itertools.pairwise(values):
        slack = better.solution.gap + 3 * np.hypot(
            worse.evidence.entropy_sd, better.evidence.entropy_sd
        )
        assert better.evidence.raw >= worse.evidence.raw - slack
