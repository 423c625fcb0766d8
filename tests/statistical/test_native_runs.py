"""Whole runs of the native engine against known answers."""

import numpy as np
import pytest

from tests.small_problems import (
    CENTRE,
    LOG_EVIDENCE,
    SPREAD,
    beta_problem,
    evaluations_of,
    gaussian,
    gaussian_problem,
    gaussian_run,
    native_run,
    noisy_gaussian_problem,
)
from vbstack import Problem, Screen, stack
from vbstack.engines.native.loop import run_native
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import hyperparameters_of
from vbstack.gaussian_process.quadrature import expected_log_joints
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.problem import Evaluation
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.journal import Journal


@pytest.fixture(scope="module")
def finished():
    return gaussian_run()


def test_a_gaussian_is_recovered(finished):
    assert finished.converged
    assert finished.elbo == pytest.approx(LOG_EVIDENCE, abs=0.01)
    mean, covariance = stack([finished], weights="naive").moments()
    np.testing.assert_allclose((mean - CENTRE) / SPREAD, 0, atol=1e-2)
    np.testing.assert_allclose(covariance / np.outer(SPREAD, SPREAD), np.eye(3), atol=1.5e-2)


def test_the_surrogate_kept_gives_the_runs_own_integrals(finished):
    surrogate = finished.surrogate
    (hyperparameters,) = hyperparameters_of(surrogate)
    data = TrainingData(surrogate.inputs, surrogate.values, surrogate.noise_variance[0])
    process = DenseProcess.condition(data, hyperparameters)
    values = expected_log_joints(process, finished.means, finished.sds)[0]
    np.testing.assert_allclose(values, finished.log_joint[0], rtol=1e-9)


def test_evaluations_known_beforehand_are_used(finished):
    known = Recorder(gaussian_problem(), 5, Journal(), precomputed=_first_evaluations(finished, 20))
    run = run_native(gaussian_problem(), np.zeros(3), 5, known, {"max_fun_evals": 40})
    assert run.surrogate is not None
    assert len(evaluations_of(run).values) == 40
    assert len(np.unique(evaluations_of(run).x, axis=0)) == 40
    assert run.surrogate.values.size == 40
    np.testing.assert_array_equal(evaluations_of(run).x[:20], evaluations_of(finished).x[:20])
    posterior = stack([run], screen=Screen(require_converged=False, max_variance=np.inf))
    assert np.isfinite(posterior.evidence.raw)


def _first_evaluations(run, count):
    pairs = zip(evaluations_of(run).x[:count], evaluations_of(run).values[:count], strict=True)
    evaluations = [Evaluation(tuple(x), float(value), None, 0.0) for x, value in pairs]
    assert Evaluations.of(evaluations, False).size == count
    return evaluations


def cut_off(x):
    return gaussian(x) if x[0] > -2 else -np.inf


def plateau(x):
    return 0.0


def steps(x):
    return float(np.floor(gaussian(x) / 2))


def spike(x):
    return 1e4 * gaussian(x)


def log_evidence_of_steps():
    """Spheres with 4 (k − 1) < r² ≤ 4 k, in units of SPREAD, have the value −k."""
    k = np.arange(1, 100.0)
    shells = 4 / 3 * np.pi * 8 * (k**1.5 - (k - 1) ** 1.5)
    return np.log(SPREAD.prod() * np.exp(-k) @ shells)


@pytest.mark.parametrize(
    ("log_density", "truth", "budget", "converges"),
    [
        (cut_off, LOG_EVIDENCE, 80, True),  # it cuts at six standard deviations
        (plateau, np.inf, 80, False),
        (steps, log_evidence_of_steps(), 100, True),
        (spike, LOG_EVIDENCE - 3 * np.log(100), 80, False),  # eighty evaluations are too few for it
    ],
)
def test_a_difficult_log_density_is_integrated_or_the_run_says_that_it_has_not_converged(
    log_density, truth, budget, converges
):
    problem = Problem(
        log_density=log_density, plausible_lower_bounds=[-3] * 3, plausible_upper_bounds=[4] * 3
    )
    recorder = Recorder(problem, 1, Journal(), on_error="floor")
    run = run_native(problem, np.array([3.9, 3.9, -2.9]), 1, recorder, {"max_fun_evals": budget})
    assert run.converged == converges
    assert abs(run.elbo - truth) < 0.1 or not converges
    assert len(evaluations_of(run).values) == budget or converges
    assert run.evaluations is not None
    assert run.evaluations.outside.any() == (log_density is cut_off)
    assert run.floored == 0  # −inf is a value, not a failure
    assert np.isfinite(run.elbo)
    assert np.isfinite(run.expected_log_joint).all()
    assert (np.diagonal(run.expected_log_joint_covariance) > 0).all()


def test_a_plateau_with_bounds_is_uniform_and_its_evidence_is_the_volume():
    problem = Problem(
        log_density=plateau,
        lower_bounds=[-3] * 3,
        upper_bounds=[4] * 3,
        plausible_lower_bounds=[-2] * 3,
        plausible_upper_bounds=[3] * 3,
    )
    run = native_run(problem, [3.9, 3.9, -2.9], seed=1)
    assert run.converged
    assert run.elbo == pytest.approx(3 * np.log(7), abs=0.01)
    mean, covariance = stack([run], weights="naive").moments()
    np.testing.assert_allclose(mean, 0.5, atol=0.02)
    np.testing.assert_allclose(covariance, 49 / 12 * np.eye(3), atol=0.06)


def test_a_run_ends_with_a_reliable_fit_of_a_good_part_of_a_thin_ring():
    def ring(x):
        return float(-0.5 * ((np.hypot(x[0] - 1, x[1] + 2) - 8) / 0.1) ** 2)

    problem = Problem(
        log_density=ring, plausible_lower_bounds=[-10, -10], plausible_upper_bounds=[10, 10]
    )
    for seed in (1, 2):
        start = np.random.default_rng(seed).uniform(-10, 10, 2)
        run = native_run(problem, start, seed)
        covered = np.exp(run.elbo - 2.5337)  # of the whole ring's mass
        assert run.converged
        assert 0.3 < covered < 1


def test_a_spike_is_found_from_far_away():
    problem = Problem(
        log_density=spike, plausible_lower_bounds=[-3] * 3, plausible_upper_bounds=[4] * 3
    )
    run = native_run(problem, np.full(3, 3.9), seed=1)
    assert run.converged
    assert run.elbo == pytest.approx(LOG_EVIDENCE - 3 * np.log(100), abs=0.05)


def test_one_bounded_parameter_with_its_mass_at_the_bound():
    run = native_run(beta_problem(), [0.5], seed=3)
    assert run.converged
    assert run.elbo == pytest.approx(0.0, abs=0.03)
    assert len(np.unique(evaluations_of(run).x)) == len(evaluations_of(run).x)
    mean, _ = stack([run], weights="naive").moments()
    assert mean[0] == pytest.approx(0.2, abs=0.01)


def test_a_noisy_gaussian_is_found_and_its_error_known():
    """Ten runs: ELBOs near the log evidence, by about as much as they say."""
    problem = noisy_gaussian_problem()
    runs = [native_run(problem, CENTRE, seed) for seed in range(10)]
    assert sum(run.converged for run in runs) >= 8
    assert all(run.is_noisy and evaluations_of(run).sds is not None for run in runs)
    errors = np.array([run.elbo - LOG_EVIDENCE for run in runs])
    sds = np.array([run.elbo_sd for run in runs])
    assert abs(errors.mean()) < 0.3
    assert np.sqrt(np.mean((errors / sds) ** 2)) < 2.0
    posterior = stack(runs)
    np.testing.assert_allclose((posterior.moments()[0] - CENTRE) / SPREAD, 0, atol=0.3)
