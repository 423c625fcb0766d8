"""The box that starts, first points and looks are drawn from."""

import numpy as np
import pytest

from vbstack import Problem
from vbstack.runs.plausible import PlausibleBox


def box_of(**bounds):
    return PlausibleBox.of(Problem(log_density=len, **bounds).description())


def test_points_around_a_start_stay_within_reach_and_the_plausible_box():
    box = box_of(plausible_lower_bounds=[-4, -4], plausible_upper_bounds=[4, 4])
    rng = np.random.default_rng(0)
    points = box.around(np.array([3.5, 0.0]), 0.15, 1000, rng)
    assert (points.min(axis=0) >= [3.5 - 1.2, -1.2]).all()
    assert (points.max(axis=0) <= [4.0, 1.2]).all()
    everywhere = box.around(np.zeros(2), np.inf, 1000, rng)
    assert np.ptp(everywhere, axis=0).min() > 7.8
    outside = box.around(np.array([6.0, 0.0]), 0.1, 1000, rng)
    assert (outside[:, 0] >= 5.2).all()
    assert (outside[:, 0] <= 6.0).all()


def test_without_one_bound_points_are_uniform_bit_for_bit():
    low, high = np.array([-1.3, 0.2]), np.array([2.1, 0.7])
    box = box_of(
        plausible_lower_bounds=low,
        plausible_upper_bounds=high,
        lower_bounds=[-np.inf, 0],
        upper_bounds=[np.inf, 1],
    )
    share = np.random.default_rng(1).random((50, 2))
    assert (box.place(share) == low + (high - low) * share).all()
    expected = np.random.default_rng(2).uniform(low, high)
    assert (box.uniform(np.random.default_rng(2)) == expected).all()


def test_above_one_bound_each_order_of_magnitude_has_the_same_chance():
    box = box_of(
        plausible_lower_bounds=[1.01, -13],
        plausible_upper_bounds=[11, 4.99],
        lower_bounds=[1, -np.inf],
        upper_bounds=[np.inf, 5],
    )
    middle = box.place(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))
    expected = [[1.01, -13], [1 + np.sqrt(0.01 * 10), 5 - np.sqrt(18 * 0.01)], [11, 4.99]]
    assert middle == pytest.approx(np.array(expected), rel=1e-12)
    points = box.around(np.array([2.0, 4.0]), 0.2, 1000, np.random.default_rng(0))
    assert points[:, 0].min() == pytest.approx(1 + 10**-0.6, rel=0.01)
    assert points[:, 0].max() == pytest.approx(1 + 10**0.6, rel=0.02)
    assert (points[:, 1] < 5).all()
