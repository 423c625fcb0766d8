"""`Caution`: the charge for errors of own log-joints, its bound, and what it does to weights."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.archived_runs import archive
from tests.synthetic import gaussian_entropy, make_run, random_run
from vbstack import Mixture, Run, StackedPosterior, load_runs, stack
from vbstack.stacking.caution import STANDARD_ERRORS, Caution
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights, optimise

SEEDS = st.integers(0, 10_000)


def random_runs(seed: int, count: int = 3, size: int = 4) -> list[Run]:
    """Runs in two dimensions with dense covariances of their log-joints, of any size."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(count):
        root = rng.normal(0, rng.uniform(0.01, 1.0), (size, size))
        runs.append(random_run(rng, 2, size, log_joint_covariance=(root @ root.T)[None]))
    return runs


def caution_of(runs: list[Run], standard_errors: float = 2.0) -> Caution:
    caution = Caution.of(runs, standard_errors)
    assert caution is not None
    return caution


def problem_of(runs: list[Run], kind: Any = "all", draws: int = 16) -> SampleProblem:
    mixture = Mixture.from_runs(runs)
    sample = Sample.draw(mixture, np.full(mixture.size, draws), np.random.default_rng(0))
    free = FreeWeights.of(kind, mixture, [0.0] * len(runs))
    return free.problem(sample, mixture.rewards(own_log_joints(runs)), caution_of(runs))


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_the_charge_is_what_the_worst_errors_of_the_ellipsoid_take(seed):
    """Errors A u with |u| ≤ β √M lower the expected log-joint by at most P(w), and by P(w)."""
    runs, rng = random_runs(seed), np.random.default_rng(seed)
    caution = caution_of(runs, 1.5)
    w = rng.dirichlet(np.ones(12))
    roots = [np.linalg.cholesky(r.expected_log_joint_covariance + 1e-12 * np.eye(4)) for r in runs]
    projected = np.concatenate([w[4 * m : 4 * m + 4] @ root for m, root in enumerate(roots)])
    radius = 1.5 * np.sqrt(3)
    u = rng.normal(size=(1000, 12))
    u *= radius / np.linalg.norm(u, axis=1, keepdims=True)
    assert (u @ projected).max() <= caution.charge(w) + 1e-5
    worst = radius * projected / np.linalg.norm(projected)
    assert worst @ projected == pytest.approx(caution.charge(w), abs=1e-5)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_the_charge_is_linear_in_its_slope_and_convex(seed):
    runs, rng = random_runs(seed), np.random.default_rng(seed)
    caution = caution_of(runs)
    w, v = rng.dirichlet(np.ones(12), 2)
    assert caution.slope(w) @ w == pytest.approx(caution.charge(w))
    assert caution.slope(w) @ v <= caution.charge(v) + 1e-9
    step = 1e-6 * (v - w)
    change = caution.charge(w + step) - caution.charge(w - step)
    assert change == pytest.approx(2 * caution.slope(w) @ step, rel=1e-3, abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["all", "runs"]))
def test_the_gap_bounds_the_shortfall_of_the_cautious_problem(seed, kind):
    problem = problem_of(random_runs(seed), kind)
    start = np.full(problem.size, 1 / problem.size)
    short = maximise(problem, start, 1e-9, max_gradients=8)
    long = maximise(problem, start, 1e-9, max_gradients=2500)
    # Single-precision densities: 1e-5 is a thousand times their rounding in a value of order one.
    assert long.value - short.value <= short.gap + 1e-5
    others = np.random.default_rng(seed).dirichlet(np.full(problem.size, 0.3), 50)
    assert max(problem.value(v) for v in others) <= short.value + short.gap + 1e-5


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_the_cautious_problem_is_concave(seed):
    problem = problem_of(random_runs(seed))
    a, b = np.random.default_rng(seed).dirichlet(np.full(problem.size, 0.3), 2)
    middle = problem.value(0.5 * (a + b))
    assert middle >= 0.5 * (problem.value(a) + problem.value(b)) - 1e-5


def test_the_charge_of_tied_weights_and_of_a_face_is_that_of_all():
    runs = random_runs(3)
    mixture, caution = Mixture.from_runs(runs), caution_of(runs)
    basis = FreeWeights.of("runs", mixture, [0.0] * 3).basis
    v = np.array([0.2, 0.5, 0.3])
    assert caution.tied(basis).charge(v) == pytest.approx(caution.charge(basis @ v))
    keep = np.array([1, 2, 8, 11])
    w = np.zeros(12)
    w[keep] = [0.1, 0.2, 0.3, 0.4]
    # Two runs are left, whose errors are fewer than those of three.
    expected = caution.charge(w) * np.sqrt(2 / 3)
    assert caution.face(keep).charge(w[keep]) == pytest.approx(expected)


def test_log_joints_without_error_cost_nothing():
    runs = [random_run(np.random.default_rng(m), 2, variance=0.0) for m in range(2)]
    caution = caution_of(runs)
    w = np.full(10, 0.1)
    assert caution.charge(w) == 0
    assert not caution.slope(w).any()


def overrated_runs() -> list[Run]:
    """Two runs of one Gaussian; the second has a component beside it that is 1.5 nats too high,
    with a standard error of 0.7."""
    entropy = gaussian_entropy([1.0, 1.0])
    covariance = np.diag([1e-6, 0.5])
    first = make_run([[0.0, 0.0]], 1.0, -entropy)
    second = make_run(
        [[0.0, 0.0], [5.0, 0.0]],
        1.0,
        [-entropy, -entropy - 1.5 + 1.5],
        [0.98, 0.02],
        log_joint_covariance=covariance[None],
    )
    return [first, second]


def test_an_overrated_component_with_a_large_error_loses_its_weight():
    plain = stack(overrated_runs(), evaluations="own", caution=0.0)
    cautious = stack(overrated_runs(), evaluations="own")
    assert plain.weights[2] > 0.45
    assert cautious.weights[2] < 0.5 * plain.weights[2]
    assert cautious.solution.gap <= 0.02
    errors = np.sqrt(2) * STANDARD_ERRORS * cautious.evidence.gp_sd
    assert cautious.solution.charge == pytest.approx(errors)


def test_the_reported_elbo_is_without_the_charge():
    """Σ w I + H of the cautious weights: what naive stacking of the same weights reports."""
    cautious = stack(overrated_runs(), evaluations="own", seed=1)
    e, w = cautious.evidence, cautious.weights
    own = cautious.mixture.original_log_joint(own_log_joints(overrated_runs()))
    assert e.raw == pytest.approx(w @ own + e.entropy)
    assert e.raw == pytest.approx(cautious.solution.lower)
    assert cautious.solution.charge > 0.01


def test_without_caution_the_weights_are_exactly_those_of_the_plain_objective():
    runs = random_runs(5)
    posterior = stack(runs, evaluations="own", caution=0, seed=4)
    mixture = Mixture.from_runs(runs)
    solution = optimise(
        mixture,
        own_log_joints(runs),
        FreeWeights.of("all", mixture, [run.elbo for run in runs]),
        tolerance=0.02,
        max_draws=512,
        final_draws=128,
        rng=np.random.default_rng(4),
    )
    np.testing.assert_array_equal(posterior.weights, solution.weights)
    assert posterior.solution.charge == 0
    assert not np.array_equal(stack(runs, evaluations="own", seed=4).weights, solution.weights)


def test_pooled_stacks_ignore_caution():
    runs = load_runs(archive("ring_surrogates"))
    first, second = (stack(runs, evaluations="pooled", caution=c, seed=2) for c in (0.0, "auto"))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert first.evidence == second.evidence
    assert second.solution.charge == 0


def test_naive_stacks_have_naive_weights_with_caution_too():
    posterior = stack(random_runs(6), weights="naive", evaluations="own")
    np.testing.assert_allclose(posterior.weights, posterior.mixture.naive_weights)
    assert posterior.solution.charge == 0


def test_the_papers_algorithm_is_never_cautious():
    runs = random_runs(7)
    posterior = stack(runs, evaluations="own", solver="adam")
    assert posterior.settings.standard_errors == posterior.solution.charge == 0
    with pytest.raises(ValueError, match=r"caution=2.0 needs solver='certified'"):
        stack(runs, solver="adam", caution=2)


def test_caution_and_charge_are_saved(tmp_path):
    saved = stack(random_runs(8), evaluations="own", caution=1)
    again = StackedPosterior.load(saved.save(tmp_path / "posterior.npz"))
    assert again.settings.caution == 1.0
    assert again.solution.charge == saved.solution.charge > 0
    assert "taken off for errors of own log-joints" in again.summary()
