"""The NEURON model: two ways to solve it, its protocol and its truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

pytest.importorskip("neuron", reason="the extra `bench` is not installed")

from benchmarks import neuronal
from benchmarks.neuronal_cell import MIRROR, ONSET, STEP, STIMULI, _clamp, load_cell
from benchmarks.neuronal_modes import modes_of
from benchmarks.neuronal_recording import TRUTH, likelihood_times
from benchmarks.neuronal_truth import Proposal, Target

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


def test_proposal_is_a_normalised_mixture_that_samples_itself() -> None:
    rng = np.random.default_rng(0)
    bent = rng.standard_normal((4000, 2))
    bent[:, 1] += bent[:, 0] ** 2
    proposal = Proposal.fitted(bent)
    expected = np.mean(
        [
            multivariate_normal(m, f @ f.T).pdf(bent[:50])
            for m, f in zip(*_parts(proposal), strict=True)
        ],
        axis=0,
    )
    np.testing.assert_allclose(np.exp(proposal.log_density(bent[:50])), expected, rtol=1e-9)
    draws = proposal.sample(200_000, rng)
    # ∫ N(x; 0, 1) dx = 1 by importance sampling from it: five standard errors.
    ratio = multivariate_normal(np.zeros(2)).pdf(draws) / np.exp(proposal.log_density(draws))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size)


def _parts(proposal: Proposal) -> tuple[np.ndarray, np.ndarray]:
    return proposal.means, proposal.factors
