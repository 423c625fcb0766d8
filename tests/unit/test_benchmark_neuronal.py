"""The NEURON model: two ways to solve it, its protocol and its truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("neuron", reason="the extra `bench` is not installed")

from benchmarks import neuronal
from benchmarks.neuronal_cell import MIRROR, ONSET, STEP, STIMULI, _clamp, load_cell
from benchmarks.neuronal_modes import modes_of
from benchmarks.neuronal_recording import TRUTH, likelihood_times
from benchmarks.neuronal_truth import Proposal, Target, Weighted

OTHER = np.array([110.0, 0.01, 25.0, 0.008, 1.4])


@pytest.mark.parametrize("theta", [TRUTH, OTHER])
def test_modes_equal_neuron(theta: np.ndarray) -> None:
    times = likelihood_times()
    stepped = load_cell(None).recording(theta, times)
    np.testing.assert_allclose(modes_of(None).recording(theta, times), stepped, atol=1e-7)


def test_mirroring_equals_the_whole_protocol() -> None:
    cell = load_cell(None)
    times = np.arange(200.0, 2800.0, 1.0)
    mirrored = cell.recording(TRUTH, times)
    extra = [_clamp(cell.h, cell.soma, s + MIRROR, d, -i) for s, d, i in STIMULI]
    cell.h.finitialize(TRUTH[1])
    cell.context.psolve(2700.0)
    whole = np.array(cell.voltage)
    for clamp in extra:
        clamp.amp = 0.0
    expected = np.interp(times, ONSET + STEP * np.arange(whole.size), whole)
    np.testing.assert_allclose(mirrored, expected, atol=1e-6)


def test_steady_state_is_ohms_law_of_the_segments() -> None:
    # Long after the step began, all the current leaves through the leaks.
    cell = load_cell(None)
    response = cell.response(TRUTH)
    at = round((STIMULI[1][0] + 590 - ONSET) / STEP)
    modes = modes_of(None)
    scale = np.where(modes.dendritic, TRUTH[4] * (1 + TRUTH[3] * modes.distances), 1.0)
    total = 1e-8 * TRUTH[2] * (scale * modes.areas).sum()  # µS
    # The soma is the most depolarised point: nA/µS is the mean voltage weighted by leak.
    assert response[at] > STIMULI[1][2] / total
    assert response[at] < 3 * STIMULI[1][2] / total


def test_joint_has_the_prior_and_its_bounds() -> None:
    joint = neuronal.log_joint()
    inside, outside = TRUTH.copy(), TRUTH.copy()
    outside[3] = 0.0
    values = joint(np.array([inside, outside]))
    prior = joint.box.log_priors(inside).sum()
    assert values[0] == pytest.approx(prior + joint.likelihood(inside), rel=1e-12)
    assert values[1] == -np.inf
    assert Target(joint).log_joint(inside) == pytest.approx(values[0], abs=1e-3)


def test_importance_sampling_of_a_bent_target() -> None:
    # log p = log N(x1; 0, 1) + log N(x2 − x1²; 0, 1) + 3: evidence e³, mean (0, 1).
    def log_target(x: np.ndarray) -> float:
        return float(norm.logpdf(x[0]) + norm.logpdf(x[1] - x[0] ** 2) + 3.0)

    rng = np.random.default_rng(0)
    bent = rng.standard_normal((4000, 2))
    bent[:, 1] += bent[:, 0] ** 2
    sample = Weighted.of(log_target, Proposal.fitted(bent), 4000, rng)  # type: ignore[arg-type]
    error = np.sqrt(1 / sample.size)
    assert sample.size > 1000
    assert np.log(np.exp(sample.log_weights).mean()) == pytest.approx(3.0, abs=4 * error)
    np.testing.assert_allclose(sample.weights @ sample.points, [0.0, 1.0], atol=4 * 1.8 * error)
    draws = sample.resampled(4000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), [0.0, 1.0], atol=4 * 1.8 * error + 0.05)
