"""Gaussian integrals under a process: exact cases, brute force, and the runs' own values."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from benchmarks.folders import ARCHIVES
from tests.unit.gaussian_process.examples import diagonal_factors, full_prior, gaussians
from vbstack import load_runs
from vbstack.gaussian_process.hyperparameters import hyperparameters_of
from vbstack.gaussian_process.integrals import expected_mean
from vbstack.gaussian_process.low_rank import condition, dense_log_likelihood, leave_one_out
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.runs.surrogate import Surrogate

Array = NDArray[np.float64]

NOISY_RUNS = Path(__file__).parents[2] / "data" / "noisy_gmm.npz"


def integrate_own(surrogate: Surrogate, means: Array, sds: Array) -> tuple[Array, Array]:
    """A run's I_sk (Ns, K) and J_sjk (Ns, K, K) once more, from its surrogate and components."""
    results = []
    samples = zip(hyperparameters_of(surrogate), surrogate.noise_variance, strict=True)
    for hyperparameters, noise in samples:
        noise = np.broadcast_to(noise, surrogate.values.shape)
        data = TrainingData(surrogate.inputs, surrogate.values, noise)
        process = condition(Prior.of(hyperparameters), data)
        results.append(process.integrate(means, diagonal_factors(sds)))
    return np.array([mean for mean, _ in results]), np.array([c for _, c in results])


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_process_on_a_known_quadratic_reproduces_its_gaussian_integrals(dimension):
    """f = −½ |x|² + 1: exact evaluations, a kernel without the right mean, E_j f known."""
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(60 * dimension, dimension)) * 1.5
    values = 1 - 0.5 * np.square(inputs).sum(axis=1)
    flat = Prior(1e4, np.eye(dimension) / 4, 0.0, np.zeros(dimension), np.zeros((dimension,) * 2))
    centres, factors = gaussians(4, dimension)
    centres *= 0.5
    truth = 1 - 0.5 * (np.square(centres).sum(axis=1) + np.square(factors).sum(axis=(1, 2)))
    process = condition(flat, TrainingData(inputs, values, np.full(len(values), 1e-6)))
    mean, covariance = process.integrate(centres, factors)
    assert mean == pytest.approx(truth, abs=1e-3)
    assert np.all(np.abs(mean - truth) < 5 * np.sqrt(np.diag(covariance)) + 1e-4)
    np.testing.assert_allclose(process.expected(centres, factors), mean, rtol=1e-12)


def test_a_right_mean_function_needs_no_evaluations():
    prior, (centres, factors) = full_prior(), gaussians(3)
    inputs = np.array([[0.3, -0.2]])
    data = TrainingData(inputs, prior.mean(inputs), np.array([1.0]))
    mean, _ = condition(prior, data).integrate(centres, factors)
    assert mean == pytest.approx(expected_mean(prior, centres, factors), abs=1e-12)


def test_points_are_narrow_gaussians():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(30, 2))
    data = TrainingData(inputs, rng.normal(size=30), np.full(30, 0.5))
    process = condition(full_prior(), data)
    points = rng.normal(size=(6, 2))
    mean, variance = process.predict(points)
    narrow, covariance = process.integrate(points, np.broadcast_to(1e-7 * np.eye(2), (6, 2, 2)))
    assert mean == pytest.approx(narrow, abs=1e-9)
    assert variance == pytest.approx(np.diag(covariance), abs=1e-9)
    shares = rng.dirichlet(np.ones(6))
    average, spread, _ = process.average(points, shares)
    assert average == pytest.approx(shares @ mean)
    # The part that no feature reaches is left out: here all of the kernel is reached nearby.
    assert spread <= shares @ covariance @ shares + 1e-9


def test_a_duplicate_with_noise_is_a_point_with_half_the_noise():
    rng = np.random.default_rng(5)
    inputs, values = rng.normal(size=(20, 2)), rng.normal(size=20)
    doubled = np.repeat(inputs, 2, axis=0), np.repeat(values, 2)
    twice = condition(full_prior(), TrainingData(*doubled, np.full(40, 2.0)))
    once = condition(full_prior(), TrainingData(inputs, values, np.full(20, 1.0)))
    for a, b in zip(twice.integrate(*gaussians(4)), once.integrate(*gaussians(4)), strict=True):
        assert a == pytest.approx(b, abs=1e-8)


def test_likelihood_and_posterior_equal_the_textbook_ones():
    rng = np.random.default_rng(6)
    inputs, values, noise = rng.normal(size=(25, 2)), rng.normal(size=25), rng.uniform(0.1, 1, 25)
    prior = full_prior()
    total = prior.kernel(inputs, inputs) + np.diag(noise)
    residual = values - prior.mean(inputs)
    log_likelihood = -0.5 * (
        residual @ np.linalg.solve(total, residual)
        + np.linalg.slogdet(total)[1]
        + 25 * np.log(2 * np.pi)
    )
    found = condition(prior, TrainingData(inputs, values, noise))
    assert found.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)
    points = rng.normal(size=(4, 2))
    cross = prior.kernel(points, inputs)
    mean, variance = found.predict(points)
    assert mean == pytest.approx(prior.mean(points) + cross @ np.linalg.solve(total, residual))
    assert variance == pytest.approx(
        4.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(total, cross.T))
    )


def test_a_kernel_far_below_the_noise_leaves_the_mean():
    faint = full_prior(variance=1e-9)
    data = TrainingData(np.zeros((1, 2)), np.ones(1), np.ones(1))
    mean, _ = condition(faint, data, tolerance=1e-3).integrate(*gaussians(3))
    assert mean == pytest.approx(expected_mean(faint, *gaussians(3)), abs=1e-6)


def test_fewer_pivots_only_add_uncertainty():
    rng = np.random.default_rng(7)
    inputs = rng.normal(size=(200, 2))
    data = TrainingData(inputs, rng.normal(size=200), np.full(200, 1.0))
    _, full = condition(full_prior(), data).integrate(*gaussians(4))
    rough = condition(full_prior(), data, max_rank=12)
    assert len(rough.pivots) == 12
    assert np.all(np.diag(rough.integrate(*gaussians(4))[1]) >= np.diag(full) - 1e-9)
    near = condition(full_prior(), data, tolerance=1e-3)
    assert len(near.pivots) < 100
    assert np.diag(near.integrate(*gaussians(4))[1]) == pytest.approx(np.diag(full), rel=0.02)


@pytest.mark.parametrize(
    "path", [NOISY_RUNS, ARCHIVES / "gmm_surrogates.npz"], ids=lambda p: p.stem
)
def test_runs_own_values_are_reproduced(path):
    """pyvbmc's I_sk and J_sjk of real runs, noisy and exact, from the stored surrogates."""
    for run in load_runs(path):
        assert run.surrogate is not None
        mean, covariance = integrate_own(run.surrogate, run.means, run.sds)
        assert np.abs(mean - run.log_joint).max() < 1e-6
        assert np.abs(covariance - run.log_joint_covariance).max() < 1e-6


def test_selection_is_what_softmax_shares_gain_from_noise():
    """Stein's lemma against 1000 noise draws; the tolerance is four standard errors."""
    rng = np.random.default_rng(9)
    inputs = np.linspace(-2, 2, 30)[:, None]
    flat = Prior(4.0, np.array([[1.5]]), 0.0, np.zeros(1), np.zeros((1, 1)))
    truth, points = np.sin(2 * inputs[:, 0]), np.linspace(-1.8, 1.8, 40)[:, None]
    noise = np.full(30, 1.0)
    clean, _ = condition(flat, TrainingData(inputs, truth, noise)).predict(points)
    gains, predicted = [], []
    for _ in range(1000):
        data = TrainingData(inputs, truth + rng.normal(size=30), noise)
        process = condition(flat, data, tolerance=1e-4)
        mean, _ = process.predict(points)
        shares = np.exp(mean) / np.exp(mean).sum()
        gains.append(shares @ (mean - clean))
        predicted.append(process.average(points, shares)[2])
    error = np.std(np.array(gains) - predicted) / np.sqrt(len(gains))
    assert np.mean(gains) == pytest.approx(np.mean(predicted), abs=4 * error)
    assert np.mean(gains) > 5 * error


def test_the_dense_log_likelihood_is_the_log_density_of_the_values():
    rng = np.random.default_rng(5)
    prior = Prior(2.0, np.diag([1.0, 0.5]), -1.0, np.zeros(2), 0.1 * np.eye(2))
    inputs, noise = rng.normal(size=(30, 2)), np.full(30, 0.3)
    values = rng.normal(size=30)
    matrix = prior.kernel(inputs, inputs) + np.diag(noise)
    expected = multivariate_normal(prior.mean(inputs), matrix).logpdf(values)
    data = TrainingData(inputs, values, noise)
    assert dense_log_likelihood(prior, data) == pytest.approx(expected, rel=1e-10)
    complete = condition(prior, data).log_likelihood
    assert complete == pytest.approx(expected, rel=1e-8)


def test_values_are_predicted_without_themselves():
    rng = np.random.default_rng(4)
    prior, inputs = full_prior(), rng.normal(size=(12, 2))
    noise = np.linspace(0.01, 0.1, 12)
    data = TrainingData(inputs, rng.normal(size=12), noise)
    found = leave_one_out(condition(prior, data), data)
    for i in (0, 5, 11):
        mean, variance = condition(prior, data.at(np.arange(12) != i)).predict(inputs[i : i + 1])
        expected = (data.values[i] - mean[0]) / np.sqrt(variance[0] + noise[i])
        assert found[i] == pytest.approx(expected, rel=1e-6)
