"""The evaluations of a run as its surrogate sees them."""

import numpy as np
import pytest

from tests.small_problems import beta_problem
from vbstack import Problem
from vbstack.engines.native import space
from vbstack.engines.native.training import compressed, shaped, training_data
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process.dense import JITTER
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal


def test_low_values_are_compressed_and_keep_their_order():
    values = np.array([0.0, -10.0, -40.0, -100.0, -1e6, -1e300])
    found = compressed(values, 0.0, 2)
    np.testing.assert_array_equal(found[:3], values[:3])
    assert (np.diff(found) < 0).all()
    assert found[4] > -500


def test_low_values_are_compressed_below_the_best_and_only_they_have_noise():
    inputs, values = np.zeros((5, 2)), np.array([3.0, 0.0, -16.9, -27.0, -1e6])
    data = shaped(inputs, values)
    assert data.sds is None
    np.testing.assert_array_equal(data.values, compressed(values, 3.0, 2))
    np.testing.assert_allclose(data.noise_variance[:4], JITTER)
    beyond = 3.0 - data.values[4] - 40.0
    assert data.noise_variance[4] == pytest.approx(JITTER + (0.1 * beyond) ** 2)


def test_noisy_values_keep_their_noise():
    inputs, values, sds = np.zeros((3, 2)), np.array([0.0, -22.0, -22.0]), np.array([1, 2, 0.5])
    data = shaped(inputs, values, sds)
    np.testing.assert_array_equal(data.sds, sds)
    np.testing.assert_allclose(data.noise_variance, JITTER + sds**2)


def test_training_data_are_the_evaluations_in_the_space_of_the_map(mixture):
    problem = Problem(
        log_density=lambda x: float(-0.5 * x @ x),
        lower_bounds=[-np.inf, 0.0],
        upper_bounds=[np.inf, 4.0],
        plausible_lower_bounds=[-3.0, 0.5],
        plausible_upper_bounds=[5.0, 2.0],
    )
    points = np.random.default_rng(0).uniform([-3.0, 0.5], [5.0, 2.0], (8, 2))
    known = [Evaluation(tuple(x), float(-0.5 * x @ x), None, 0.0) for x in points[:3]]
    recorder = Recorder(problem, 0, Journal(), precomputed=known)
    for point in points[3:]:
        recorder(point)
    box = space.unit_box(problem)
    for map_ in (box, space.whitened(box, mixture.moments()[1])):
        data = training_data(recorder, map_)
        u = map_.forward(points)
        np.testing.assert_allclose(data.inputs, u)
        expected = -0.5 * np.square(points).sum(axis=1) + map_.log_jacobian(u)
        np.testing.assert_allclose(data.values, expected)


def test_a_point_on_a_hard_bound_is_left_out():
    problem = beta_problem()
    recorder = Recorder(problem, 0, Journal())
    for x in (0.2, 0.0, 0.7):
        recorder(np.array([x]))
    map_ = space.unit_box(problem)
    data = training_data(recorder, map_)
    np.testing.assert_allclose(data.inputs, map_.forward(np.array([[0.2], [0.7]])))
