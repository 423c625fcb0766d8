"""Gaussian integrals under a process: exact cases, brute force, and the runs' own values."""

from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import multivariate_normal

from benchmarks.folders import ARCHIVES
from tests.synthetic import make_transform
from vbstack import load_runs
from vbstack.gaussian_process.low_rank import Prior, condition, integrate_own, log_evidence

NOISY_RUNS = Path(__file__).parents[2] / "data" / "noisy_gmm.npz"


def prior(dimension=2, *, variance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dimension, dimension))
    return Prior(
        variance=variance,
        whitener=np.eye(dimension) + 0.3 * rng.normal(size=(dimension, dimension)),
        height=-1.5,
        centre=rng.normal(size=dimension),
        precision=root @ root.T,
    )


def gaussians(size, dimension=2, seed=1):
    rng = np.random.default_rng(seed)
    factors = 0.4 * np.eye(dimension) + 0.15 * rng.normal(size=(size, dimension, dimension))
    return rng.normal(size=(size, dimension)), factors


def grid(centre, factor, order=24):
    """Gauss–Hermite points and weights of N(centre, F Fᵀ) in two dimensions."""
    nodes, weights = hermegauss(order)
    z = np.array([(a, b) for a in nodes for b in nodes])
    return centre + z @ factor.T, np.outer(weights, weights).ravel() / weights.sum() ** 2


def test_kernel_integrals_agree_with_brute_force():
    process, (centres, factors) = prior(), gaussians(3)
    points = np.random.default_rng(2).normal(size=(5, 2))
    grids = [grid(c, f) for c, f in zip(centres, factors, strict=True)]
    means = [w @ process.kernel(x, points) for x, w in grids]
    assert process.kernel_means(centres, factors, points) == pytest.approx(np.array(means))
    pairs = [[w @ process.kernel(x, y) @ v for y, v in grids] for x, w in grids]
    assert process.kernel_pairs(centres, factors) == pytest.approx(np.array(pairs))
    expected = [w @ process.mean(x) for x, w in grids]
    assert process.expected_mean(centres, factors) == pytest.approx(np.array(expected))


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
    mean, covariance = condition(flat, inputs, values, np.full(len(values), 1e-6)).integrate(
        centres, factors
    )
    assert mean == pytest.approx(truth, abs=1e-3)
    assert np.all(np.abs(mean - truth) < 5 * np.sqrt(np.diag(covariance)) + 1e-4)


def test_a_right_mean_function_needs_no_evaluations():
    process, (centres, factors) = prior(), gaussians(3)
    inputs = np.array([[0.3, -0.2]])
    mean, _ = condition(process, inputs, process.mean(inputs), np.array([1.0])).integrate(
        centres, factors
    )
    assert mean == pytest.approx(process.expected_mean(centres, factors), abs=1e-12)


def test_points_are_narrow_gaussians():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(30, 2))
    process = condition(prior(), inputs, rng.normal(size=30), np.full(30, 0.5))
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
    twice = condition(prior(), np.repeat(inputs, 2, axis=0), np.repeat(values, 2), np.full(40, 2.0))
    once = condition(prior(), inputs, values, np.full(20, 1.0))
    for a, b in zip(twice.integrate(*gaussians(4)), once.integrate(*gaussians(4)), strict=True):
        assert a == pytest.approx(b, abs=1e-8)


def test_evidence_and_posterior_equal_the_textbook_ones():
    rng = np.random.default_rng(6)
    inputs, values, noise = rng.normal(size=(25, 2)), rng.normal(size=25), rng.uniform(0.1, 1, 25)
    process = prior()
    total = process.kernel(inputs, inputs) + np.diag(noise)
    residual = values - process.mean(inputs)
    log_evidence = -0.5 * (
        residual @ np.linalg.solve(total, residual)
        + np.linalg.slogdet(total)[1]
        + 25 * np.log(2 * np.pi)
    )
    found = condition(process, inputs, values, noise)
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-8)
    points = rng.normal(size=(4, 2))
    cross = process.kernel(points, inputs)
    mean, variance = found.predict(points)
    assert mean == pytest.approx(process.mean(points) + cross @ np.linalg.solve(total, residual))
    assert variance == pytest.approx(
        4.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(total, cross.T))
    )


def test_a_kernel_far_below_the_noise_leaves_the_mean():
    faint = prior(variance=1e-9)
    process = condition(faint, np.zeros((1, 2)), np.ones(1), np.ones(1), tolerance=1e-3)
    mean, _ = process.integrate(*gaussians(3))
    assert mean == pytest.approx(faint.expected_mean(*gaussians(3)), abs=1e-6)


def test_fewer_pivots_only_add_uncertainty():
    rng = np.random.default_rng(7)
    inputs = rng.normal(size=(200, 2))
    data = inputs, rng.normal(size=200), np.full(200, 1.0)
    _, full = condition(prior(), *data).integrate(*gaussians(4))
    rough = condition(prior(), *data, max_rank=12)
    assert len(rough.pivots) == 12
    assert np.all(np.diag(rough.integrate(*gaussians(4))[1]) >= np.diag(full) - 1e-9)
    near = condition(prior(), *data, tolerance=1e-3)
    assert len(near.pivots) < 100
    assert np.diag(near.integrate(*gaussians(4))[1]) == pytest.approx(np.diag(full), rel=0.02)


def test_a_prior_moves_with_the_affine_map_of_its_run():
    """Integrals in a rotated and scaled link space are those of the run's space, less log |A|."""
    angle = 0.7
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    map_ = make_transform([0, 0], -np.inf, np.inf, [1.0, -2.0], [20.0, 5.0], [0.5, 1.7], rotation)
    rng = np.random.default_rng(8)
    u, values, noise = rng.normal(size=(30, 2)), rng.normal(size=30), np.full(30, 0.3)
    centres, factors = gaussians(4)
    here = condition(prior(), u, values, noise).integrate(centres, factors)
    y = map_.centre + u @ map_.matrix.T
    there = condition(prior().moved(map_), y, values - map_.log_volume, noise).integrate(
        map_.centre + centres @ map_.matrix.T, map_.matrix @ factors
    )
    assert there[0] == pytest.approx(here[0] - map_.log_volume)
    assert there[1] == pytest.approx(here[1], abs=1e-9)


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
    clean, _ = condition(flat, inputs, truth, noise).predict(points)
    gains, predicted = [], []
    for _ in range(1000):
        process = condition(flat, inputs, truth + rng.normal(size=30), noise, tolerance=1e-4)
        mean, _ = process.predict(points)
        shares = np.exp(mean) / np.exp(mean).sum()
        gains.append(shares @ (mean - clean))
        predicted.append(process.average(points, shares)[2])
    error = np.std(np.array(gains) - predicted) / np.sqrt(len(gains))
    assert np.mean(gains) == pytest.approx(np.mean(predicted), abs=4 * error)
    assert np.mean(gains) > 5 * error


def test_the_dense_log_evidence_is_the_log_density_of_the_values():
    rng = np.random.default_rng(5)
    prior = Prior(2.0, np.diag([1.0, 0.5]), -1.0, np.zeros(2), 0.1 * np.eye(2))
    inputs, noise = rng.normal(size=(30, 2)), np.full(30, 0.3)
    values = rng.normal(size=30)
    matrix = prior.kernel(inputs, inputs) + np.diag(noise)
    expected = multivariate_normal(prior.mean(inputs), matrix).logpdf(values)
    assert log_evidence(prior, inputs, values, noise) == pytest.approx(expected, rel=1e-10)
    complete = condition(prior, inputs, values, noise).log_evidence
    assert complete == pytest.approx(expected, rel=1e-8)
