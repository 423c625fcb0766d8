"""Diagnostics on stacks whose answers are known by construction."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.small_problems import gaussian, gaussian_problem, native_run
from tests.synthetic import gaussian_entropy, make_run
from vbstack import Screen, StackedPosterior, load_runs, stack
from vbstack.analysis.diagnosis import diagnostics

SDS = np.array([1.0, 0.7])


def one_mode(centre, share=1.0, **details):
    """A run that found a Gaussian of total mass `share`: E[log joint] = log share − entropy."""
    value = np.log(share) - gaussian_entropy(SDS)
    return make_run([centre], SDS, value, elbo=float(np.log(share)), **details)


def left(**details):
    return one_mode([-20.0, 0.0], 0.3, **details)


def right(**details):
    return one_mode([20.0, 0.0], 0.7, **details)


def shifted(step, **details):
    """`right` with a centre of its own, so that it is not a copy."""
    return one_mode([20.0 + 0.01 * step, 0.0], 0.7, **details)


@pytest.fixture(scope="module")
def one_of_ten():
    """Two clusters: run 3 alone found the left one, with 30 % of the mass."""
    runs = [shifted(step) for step in range(10)]
    runs[3] = left()
    return diagnostics(stack(runs))


def test_a_cluster_that_one_of_ten_runs_found_rests_on_that_run(one_of_ten):
    d = one_of_ten
    run = d.runs[3]
    assert run.weight == pytest.approx(0.3, abs=0.01)
    assert run.alone == pytest.approx(0.3, abs=0.01)
    assert run.gain == pytest.approx(-np.log(0.7), abs=0.01)
    assert max(r.gain for r in d.runs if r.index != 3) < 0.01
    assert d.largest_gain == run.gain
    assert d.expected_gain == pytest.approx(-np.log(0.7) / 10, abs=0.003)
    assert d.single_run_mass == pytest.approx(0.3, abs=0.01)
    assert d.coverage.by_runs[9] == pytest.approx(0.7, abs=0.01)
    assert d.coverage.by_runs.sum() == pytest.approx(1)
    assert d.more_runs_needed
    assert "one run alone is worth" in d.verdict
    assert any("run 3 holds 30% of the stack, and no other run found 30%" in w for w in d.warnings)


def test_overlap_is_symmetric_and_tells_the_clusters_apart(one_of_ten):
    overlap = one_of_ten.coverage.overlap
    np.testing.assert_allclose(overlap, overlap.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(overlap), 1, atol=1e-5)
    others = np.delete(np.arange(10), 3)
    assert overlap[3, others].max() < 1e-6
    assert overlap[np.ix_(others, others)].min() > 0.95


def test_overlap_of_two_gaussians_is_the_analytic_one():
    """∫ min of two unit Gaussians at distance d is 2 Φ(−d/2)."""
    from scipy.stats import norm

    value = -gaussian_entropy([1.0, 1.0])
    runs = [make_run([[x, 0.0]], 1.0, value) for x in (0.0, 1.5)]
    overlap = diagnostics(stack(runs)).coverage.overlap
    assert overlap[0, 1] == pytest.approx(2 * norm.cdf(-0.75), abs=0.01)


def test_all_runs_in_one_mode_are_enough_and_nothing_is_claimed_beyond_them():
    d = diagnostics(stack([shifted(step) for step in range(10)]))
    assert d.enough
    assert not d.warnings
    assert d.coverage.by_runs[10] == pytest.approx(1, abs=1e-3)
    assert abs(d.largest_gain) < 0.01
    assert "cannot recover what every run missed" in d.verdict


def test_a_copy_is_named_and_does_not_count_as_a_second_discovery():
    runs = [shifted(step) for step in range(8)] + [left(), left()]
    d = diagnostics(stack(runs))
    assert d.single_run_mass == pytest.approx(0.3, abs=0.01)
    assert d.runs[8].gain == pytest.approx(0, abs=0.005)  # its copy takes over
    assert d.more_runs_needed
    assert any("run 9 is a copy of run 8" in w for w in d.warnings)


def test_a_useless_run_has_no_weight_and_no_gain():
    useless = make_run([[0.0, 30.0]], SDS, -200.0, elbo=-200.0)
    d = diagnostics(stack([*(shifted(step) for step in range(8)), useless]))
    assert d.runs[8].weight == 0
    assert d.runs[8].gain == pytest.approx(0, abs=0.005)
    assert d.runs[8].covered == pytest.approx(0, abs=1e-6)
    assert d.effective_runs < 8.01
    assert d.enough


def test_dropped_runs_are_listed_in_their_place_with_the_reason():
    runs = [shifted(0), shifted(1, converged=False), shifted(2)]
    d = diagnostics(stack(runs))
    assert [r.index for r in d.runs] == [0, 1, 2]
    assert d.runs[1].dropped == "did not converge"
    assert d.runs[1].weight == 0
    assert d.runs[1].elbo is None
    more = diagnostics(stack([shifted(0), *(shifted(s, converged=False) for s in range(1, 4))]))
    assert any("3 of 4 runs were dropped" in w for w in more.warnings)


def test_a_single_run_is_never_enough():
    d = diagnostics(stack([right()]))
    assert d.expected_gain == float("inf")
    assert d.more_runs_needed
    assert any("only one run" in w for w in d.warnings)
    assert d.learning_curve.sizes.tolist() == [1]


@pytest.mark.parametrize("weights", ["all", "runs", "naive"])
def test_every_kind_of_weights_has_diagnostics(weights):
    d = diagnostics(stack([left(), shifted(0), shifted(1)], weights=weights))
    expected = {"all": -np.log(0.7), "runs": -np.log(0.7)}.get(weights)
    if expected is not None:
        assert d.runs[0].gain == pytest.approx(expected, abs=0.01)
    else:  # a third for the left cluster: Σ w log(share/w) falls from 0.997 of the best
        whole = np.log(0.3 / (1 / 3)) / 3 + 2 * np.log(0.7 / (2 / 3)) / 3
        assert d.runs[0].gain == pytest.approx(whole - np.log(0.7), abs=0.02)


def test_the_learning_curve_ends_at_the_stack_and_begins_at_single_runs():
    posterior = stack([left(), shifted(0), shifted(1), shifted(2)])
    curve = diagnostics(posterior).learning_curve
    assert curve.sizes.tolist() == [1, 2, 3, 4]
    assert curve.raw.shape == (6, 4)
    np.testing.assert_allclose(curve.raw[:, -1], posterior.evidence.raw, atol=0.01)
    single = np.isclose(curve.raw[:, 0, None], np.log([0.3, 0.7]), atol=0.01).any(axis=1)
    assert single.all()
    np.testing.assert_array_equal(curve.raw, curve.elbo)


def test_noise_is_the_share_of_scatter_that_is_error():
    """g_j scatter with variance 0.16 by construction, of which all, or a quarter, is error."""
    rng = np.random.default_rng(1)
    errors = 0.4 * rng.standard_normal(200)

    def share(variance):
        value = -gaussian_entropy(SDS) + errors
        means = np.column_stack([1e3 * np.arange(200), np.zeros(200)])  # far apart: E log q equal
        run = make_run(means, SDS, value, variance=variance, noise_level=2)
        return diagnostics(stack([run])).noise_share

    assert share(0.16) == pytest.approx(min(1, 0.16 / errors.var()), abs=0.03)
    assert share(0.04) == pytest.approx(0.04 / errors.var(), abs=0.03)


def test_noisy_stacks_say_so_and_exact_ones_do_not():
    noisy = diagnostics(stack([shifted(s, noise_level=2) for s in range(3)]))
    assert any("log density is noisy" in w for w in noisy.warnings)
    assert diagnostics(stack([shifted(s) for s in range(3)])).noise_share is None


def test_the_same_seed_gives_the_same_diagnostics():
    posterior = stack([left(), right()], screen=Screen(require_converged=False))
    first, second = diagnostics(posterior, seed=3), diagnostics(posterior, seed=3)
    assert first.runs == second.runs
    np.testing.assert_array_equal(first.learning_curve.raw, second.learning_curve.raw)


def test_a_pooled_stack_is_judged_by_the_values_that_chose_its_weights(tmp_path):
    runs = load_runs(Path(__file__).parents[2] / "data" / "noisy_gmm.npz")
    posterior = stack(runs)
    assert posterior.evidence.method == "pooled"
    again = StackedPosterior.load(posterior.save(tmp_path / "stack.npz"))
    np.testing.assert_array_equal(again.link_log_joint, posterior.link_log_joint)
    found = diagnostics(again)
    assert found.noise_share is None
    assert any("evaluations of all runs together" in text for text in found.warnings)
    assert found.learning_curve.raw[0, -1] == pytest.approx(posterior.solution.lower, abs=0.1)


def test_runs_of_two_log_densities_are_noticed():
    """Half of the runs have a log density that is one nat higher: own and pooled values differ."""
    higher = replace(gaussian_problem(), log_density=lambda x: gaussian(x) + 1.0)
    options = {"max_fun_evals": 60}
    origin = np.zeros(3)
    same = [native_run(gaussian_problem(), origin, seed, options) for seed in (1, 2)]
    mixed = [same[0], native_run(higher, origin, 2, options)]
    keep = Screen(require_converged=False, max_variance=np.inf)
    for runs, expected in ((same, False), (mixed, True)):
        posterior = stack(runs, screen=keep)
        warned = [line for line in diagnostics(posterior).warnings if "disagree" in line]
        assert bool(warned) == expected
        assert ("Beware: the runs' own values" in posterior.summary()) == expected
