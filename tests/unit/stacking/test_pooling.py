"""Pooling the runs' evaluations: exact cases, fallbacks, and files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.folders import ARCHIVES
from benchmarks.problems import PROBLEMS
from tests.synthetic import make_run, make_transform
from vbstack import (
    Evidence,
    Mixture,
    StackedPosterior,
    diagnostics,
    load_runs,
    pool,
    stack,
)
from vbstack.runs.files import read_file, write_file
from vbstack.stacking.corrections import corrections
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.pooling import gather, near_the_top, why_not_pool

NOISY_RUNS = Path(__file__).parents[2] / "data" / "noisy_gmm.npz"


@pytest.fixture(scope="module")
def noisy():
    return load_runs(NOISY_RUNS)


@pytest.fixture(scope="module")
def pooled_stack(noisy):
    return stack(noisy, tolerance=0.1)


def true_log_joint(runs):
    """E_j[log p] (K,) of the GMM's components, from 512 draws each."""
    mixture = Mixture.from_runs(runs)
    z = np.random.default_rng(0).standard_normal((512, 2))
    points = mixture.centres[:, None] + np.einsum("kde,ne->knd", mixture.factors, z)
    values = PROBLEMS["gmm"]().log_densities(points.reshape(-1, 2))
    return values.reshape(mixture.size, -1).mean(axis=1)


def test_a_single_run_keeps_its_own_values(noisy):
    run = noisy[0]
    pooled = pool([run])
    assert np.array_equal(pooled.link_log_joint, own_log_joints([run]))
    assert np.array_equal(pooled.covariance(), run.expected_log_joint_covariance)
    evidence = stack([run], tolerance=0.1).evidence
    assert evidence.method == "own"
    assert "only one run" in evidence.reason


def test_pooled_log_joints_are_nearer_the_truth_than_the_runs_own(noisy):
    truth, mixture, pooled = true_log_joint(noisy), Mixture.from_runs(noisy), pool(noisy)
    weights = mixture.naive_weights
    own = np.sqrt(weights @ np.square(own_log_joints(noisy) - truth))
    ours = np.sqrt(weights @ np.square(pooled.link_log_joint - truth))
    assert ours < 0.85 * own
    scores = (pooled.link_log_joint - truth) / np.sqrt(np.diag(pooled.covariance()))
    assert np.sqrt(weights @ scores**2) < 1.6
    assert np.linalg.eigvalsh(pooled.covariance()).min() > -1e-8
    some = np.array([5, 0, 17])
    assert np.allclose(pooled.covariance(some), pooled.covariance()[np.ix_(some, some)], rtol=1e-9)


def test_pooled_values_of_exact_runs_agree_with_their_own_within_their_error():
    runs = load_runs(ARCHIVES / "gmm_surrogates.npz")
    mixture, pooled = Mixture.from_runs(runs), pool(runs)
    own = np.concatenate([np.diag(run.expected_log_joint_covariance) for run in runs])
    heavy = mixture.own_weights > 1e-3
    sd = np.sqrt(own + np.diag(pooled.covariance()))
    scores = (pooled.link_log_joint - own_log_joints(runs)) / (sd + 0.01)
    assert np.abs(scores[heavy]).max() < 4


def test_evaluations_of_dropped_runs_count(noisy):
    without, extra = pool(noisy[:2]), pool(noisy[:2], noisy[2:])
    assert extra.link_log_joint.shape == without.link_log_joint.shape
    total = sum(len(run.evaluations.values) for run in noisy)
    assert extra.evaluations + extra.left_out == total
    weights = Mixture.from_runs(noisy[:2]).naive_weights
    assert weights @ extra.covariance() @ weights < weights @ without.covariance() @ weights
    failed = replace(noisy[2], converged=False)
    posterior = stack([*noisy[:2], failed], tolerance=0.1)
    assert len(posterior.runs) == 2
    assert posterior.evidence.pooled != stack(noisy[:2], tolerance=0.1).evidence.pooled


def test_far_low_density_evaluations_are_left_out(noisy):
    evaluations = noisy[0].evaluations
    values = evaluations.values.copy()
    values[3] = -5000.0
    spoiled = [replace(noisy[0], evaluations=replace(evaluations, values=values)), *noisy[1:]]
    everything = gather(spoiled)
    assert everything.size == sum(len(run.evaluations.values) for run in noisy)
    assert near_the_top(everything, spoiled)[0].values.min() > -60
    clean = pool(noisy)
    assert np.abs(pool(spoiled).link_log_joint - clean.link_log_joint).max() < 1.5


def test_a_noisy_stack_pools_and_says_so(noisy, pooled_stack):
    evidence = pooled_stack.evidence
    assert evidence.method == "pooled"
    assert evidence.log_evidence == evidence.pooled == evidence.pooled_elbo + evidence.divergence
    assert evidence.sd == evidence.pooled_sd > 0
    assert evidence.selection > 0
    assert evidence.pooled_elbo + evidence.selection == pytest.approx(pooled_stack.solution.lower)
    assert "(pooled: every component is scored" in pooled_stack.summary()
    own = stack(noisy, evaluations="own", tolerance=0.1)
    assert own.evidence.method == "own"
    assert own.evidence.pooled is None
    assert "own ones were asked for" in own.evidence.reason
    assert own.evidence.raw > evidence.pooled_elbo


def test_own_estimates_of_a_pooled_stack_rest_on_own_values(noisy, pooled_stack):
    mixture, evidence = Mixture.from_runs(noisy), pooled_stack.evidence
    expected = float(pooled_stack.weights @ mixture.original_log_joint(own_log_joints(noisy)))
    assert evidence.expected_log_joint == pytest.approx(expected)
    assert evidence.raw == pytest.approx(evidence.expected_log_joint + evidence.entropy)


def test_runs_without_surrogates_fall_back_and_say_so(noisy):
    bare = [replace(run, surrogate=None) for run in noisy]
    assert "no run has a surrogate" in why_not_pool(bare)
    evidence = stack(bare, tolerance=0.1).evidence
    assert evidence.method == "own"
    assert "no run has a surrogate" in evidence.reason
    with pytest.raises(ValueError, match="no run has a surrogate.*evaluations='own'"):
        stack(bare, evaluations="pooled")
    silent = [noisy[0], replace(noisy[1], surrogate=None, evaluations=None)]
    assert "run 1 has neither" in why_not_pool(silent)
    # One run without a surrogate but with its evaluations can still be pooled with the others.
    assert why_not_pool([noisy[0], bare[1]]) == ""


def test_runs_with_another_link_cannot_be_pooled(noisy):
    bounded = make_transform([3, 3], -20, 20)
    assert "no affine map" in why_not_pool([noisy[0], replace(noisy[1], transform=bounded)])


def test_exact_runs_with_surrogates_are_pooled_and_judged_without_optimism():
    runs = load_runs(ARCHIVES / "gmm_surrogates.npz")
    ours, own = stack(runs, seed=1), stack(runs, evaluations="own", seed=1)
    evidence: Any = ours.evidence
    assert evidence.method == "pooled"
    assert evidence.elbo == evidence.pooled_elbo
    assert 0 < evidence.elbo_sd == evidence.pooled_elbo_sd <= evidence.pooled_sd == evidence.sd
    assert evidence.sd >= evidence.divergence
    assert own.evidence.method == "own"
    assert not any("noisy" in text for text in diagnostics(ours).warnings)

    def true_elbo(posterior):
        x = posterior.sample(20_000, seed=2)
        values = PROBLEMS["gmm"]().log_densities(x) - posterior.log_pdf(x)
        return values.mean(), values.std() / np.sqrt(len(x))

    (true, error), (true_own, _) = true_elbo(ours), true_elbo(own)
    assert abs(evidence.elbo - true) < 3 * np.hypot(error, evidence.elbo_sd)
    assert true > true_own - 3 * error


def test_exact_runs_without_surrogates_keep_their_own_values_and_say_why():
    evidence = stack([make_run([[0.0]], 1.0, -1.0), make_run([[1.0]], 1.0, -1.0)]).evidence
    assert evidence.method == "own"
    assert evidence.pooled is None
    assert "not pooled: run 0 has neither a surrogate" in evidence.reason
    with pytest.raises(ValueError, match="evaluations='everyone' is not known"):
        stack([make_run([[0.0]], 1.0, -1.0)], evaluations="everyone")  # type: ignore[arg-type]


def test_files_of_pooled_and_of_older_posteriors_load(tmp_path, pooled_stack):
    path = pooled_stack.save(tmp_path / "pooled.npz")
    assert StackedPosterior.load(path).evidence == pooled_stack.evidence
    arrays, header = read_file(path, "posterior")
    header = {name: value for name, value in header.items() if name not in ("format", "schema")}
    for name in (
        *("pooled", "pooled_sd", "pooled_elbo", "pooled_elbo_sd", "selection", "divergence"),
        *("log_evidence", "sd", "method", "reason", "elbo", "elbo_sd", "not_pooled", "verified"),
    ):
        del header["evidence"][name]
    older = StackedPosterior.load(write_file(tmp_path / "older.npz", "posterior", arrays, header))
    assert isinstance(older.evidence, Evidence)
    assert older.evidence.pooled is None


def test_one_draw_with_a_made_up_value_hardly_moves_the_divergence(pooled_stack):
    pooled, mixture = pool(pooled_stack.runs), Mixture.from_runs(pooled_stack.runs)

    class Misled:
        average = pooled.average

        def predict(self, y):
            mean, variance = pooled.predict(y)
            mean[0] += 40.0
            return mean, variance

    processes: list[Any] = [pooled, Misled()]
    found = [
        corrections(mixture, pooled_stack.weights, process, np.random.default_rng(0))
        for process in processes
    ]
    assert found[1].divergence == pytest.approx(found[0].divergence, abs=0.05)
