"""The NEURON model: two ways to solve it, its protocol and its truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("neuron", reason="the extra `bench` is not installed")

from benchmarks.problems.neuronal import problem as neuronal
from benchmarks.problems.neuronal.cell import MIRROR, ONSET, STEP, STIMULI, _clamp, load_cell
from benchmarks.problems.neuronal.log_joint_by_modes import LogJointByModes
from benchmarks.problems.neuronal.modes import modes_of
from benchmarks.problems.neuronal.recording import TRUTH, likelihood_times
from benchmarks.problems.neuronal.truth import Ridge, Weighted

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
    assert LogJointByModes(joint).log_joint(inside) == pytest.approx(values[0], abs=1e-3)


def test_importance_sampling_along_a_bent_ridge() -> None:
    # log gradient a ~ N(−5, ½²), others | a ~ N((a², a, 0, 1), ¼), times e³; the proposal is off.
    def log_target(z: np.ndarray) -> np.ndarray:
        a = z[:, 3]
        centres = np.column_stack([a**2, a, 0 * a, 1 + 0 * a])
        others = norm.logpdf(z[:, [0, 1, 2, 4]], centres, 0.5).sum(axis=1)
        return norm.logpdf(a, -5.0, 0.5) + others + 3.0

    nodes = np.linspace(-8.0, -2.0, 16)
    ones = np.ones_like(nodes)
    ridge = Ridge(
        nodes,
        norm.logpdf(nodes, -4.9, 0.55),
        np.column_stack([nodes**2 + 0.1, nodes, 0 * ones, ones]),
        np.tile(0.5 * np.eye(4), (16, 1, 1)),
    )
    rng = np.random.default_rng(0)
    points, log_proposal = ridge.sample(4000, rng)
    sample = Weighted.of(log_target(points), points, log_proposal)
    assert sample.size > 2500
    assert sample.log_evidence == pytest.approx(3.0, abs=4 * np.sqrt(1 / sample.size))
    expected = np.array([25.25, -5.0, 0.0, -5.0, 1.0])
    sds = np.sqrt([25.4, 0.5, 0.25, 0.25, 0.25])
    error = 4.5 * sds / np.sqrt(sample.size)
    assert np.all(np.abs(sample.weights @ points - expected) < error)
    assert np.all(np.abs(sample.resampled(4000, rng).mean(axis=0) - expected) < 1.5 * error)
