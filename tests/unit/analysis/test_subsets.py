"""What subsets of the runs are worth, on modes so far apart that everything has a closed form.

A run that found a mode of mass s has the log-joint log s − h, h the entropy of its Gaussian. The
best stack of some runs is then worth log Σ s, with weights s / Σ s.
"""

import numpy as np
import pytest

from tests.synthetic import gaussian_entropy, make_run
from vbstack import stack
from vbstack.analysis.subsets import Subsets, learning_curve, leave_one_out_gains
from vbstack.stacking.solver import SampleOptimum

SHARES = np.array([0.1, 0.2, 0.3, 0.4])
ENTROPY = gaussian_entropy([1.0, 0.5])


def apart(shares=SHARES, **details):
    """A run for each share, each in a place of its own."""
    return [
        make_run([[100.0 * m, 0.0]], [1.0, 0.5], log_share - ENTROPY, elbo=log_share, **details)
        for m, log_share in enumerate(np.log(shares).tolist())
    ]


@pytest.fixture(scope="module")
def subsets():
    return Subsets.of(stack(apart()))


@pytest.mark.parametrize("members", [[0], [3], [0, 2], [1, 2, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("kind", ["all", "runs"])
def test_the_best_stack_of_some_runs_has_their_mass_and_nothing_else(members, kind):
    subsets = Subsets.of(stack(apart(), weights=kind))
    elbo, weights = subsets.best(members)
    inside = np.zeros(4)
    inside[members] = SHARES[members]
    assert elbo == pytest.approx(np.log(inside.sum()), abs=0.005)
    np.testing.assert_allclose(weights, inside / inside.sum(), atol=0.02)
    assert (weights[inside == 0] == 0).all()


def test_naive_subsets_give_every_run_the_same_weight():
    subsets = Subsets.of(stack(apart(), weights="naive"))
    elbo, weights = subsets.best([1, 3])
    np.testing.assert_allclose(weights, [0, 0.5, 0, 0.5])
    assert elbo == pytest.approx(np.log(SHARES[[1, 3]]).mean() + np.log(2), abs=0.005)


def test_weights_are_fitted_again_and_not_only_scaled():
    """Two runs share a place: without one of them the other takes its weight over."""
    twins = [make_run([[0.0, 0.0]], 1.0, np.log(0.5) - gaussian_entropy([1.0, 1.0])) for _ in "ab"]
    far = make_run([[50.0, 0.0]], 1.0, np.log(0.5) - gaussian_entropy([1.0, 1.0]))
    elbo, weights = Subsets.of(stack([*twins, far])).best([0, 2])
    assert elbo == pytest.approx(0.0, abs=0.005)
    np.testing.assert_allclose(weights, [0.5, 0.0, 0.5], atol=0.02)


def test_an_exact_subset_has_no_cap_and_a_noisy_one_is_capped_by_its_own_median(subsets):
    raw, capped = subsets.estimates(np.arange(4))
    assert capped == raw
    noisy = Subsets.of(stack(apart(noise_level=2)))
    assert noisy.capped
    members = np.array([1, 2, 3])
    raw, capped = noisy.estimates(members)
    shares = SHARES[members]
    log_joint = np.log(shares) - ENTROPY
    excess = shares @ log_joint / shares.sum() - np.median(log_joint)
    assert excess > 0.03
    assert raw - capped == pytest.approx(excess, abs=0.01)


def test_the_gain_of_a_run_is_what_is_lost_without_it(subsets):
    np.testing.assert_allclose(leave_one_out_gains(subsets), -np.log1p(-SHARES), atol=0.005)


def test_a_single_run_cannot_be_left_out():
    assert leave_one_out_gains(Subsets.of(stack(apart([1.0])))).tolist() == [np.inf]


def test_a_learning_curve_is_made_of_nested_subsets(subsets):
    curve = learning_curve(subsets, seed=3)
    assert curve.sizes.tolist() == [1, 2, 3, 4]
    assert curve.raw.shape == curve.elbo.shape == (6, 4)
    np.testing.assert_array_equal(curve.raw[:, -1], curve.raw[0, -1])
    assert curve.raw[0, -1] == pytest.approx(0.0, abs=0.005)
    masses = np.exp(curve.raw)
    steps = np.diff(masses, axis=1)  # each step adds the mass of one run
    nearest = np.abs(steps[..., None] - SHARES).min(axis=-1)
    assert nearest.max() < 0.01
    assert np.ptp(curve.raw[:, 0]) > 0.1  # the orders differ


def test_the_numbers_of_runs_on_a_learning_curve_are_few_and_spread_evenly_in_logarithm():
    curve = learning_curve(Subsets.of(stack(apart([0.05] * 20))), seed=0)
    assert curve.sizes.tolist() == [1, 2, 3, 4, 7, 12, 20]
    np.testing.assert_allclose(curve.raw.mean(axis=0), np.log(0.05 * curve.sizes), atol=0.01)


def test_the_same_seed_gives_the_same_draws_and_another_gives_others():
    posterior = stack(apart())
    values = [Subsets.of(posterior, seed).best([0, 2])[0] for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]


def test_weights_that_fresh_draws_contradict_are_not_believed(subsets, monkeypatch):
    """As a wide component with few draws can make them: ten nats on A, far less on B."""

    def fooled(problem, start, *_):
        weights = np.zeros_like(start)
        weights[0] = 1.0  # the smallest mode alone: log 0.1
        return SampleOptimum(weights, problem.value(start) + 10.0, 0.0, 1)

    monkeypatch.setattr("vbstack.analysis.subsets.maximise", fooled)
    elbo, weights = subsets.best([0, 1, 2, 3])
    assert elbo == pytest.approx(0.0, abs=0.1)
    assert weights.max() < 0.6
