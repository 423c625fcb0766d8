"""Short climbs in a box: closed-form maxima, bounds, and objectives that fail somewhere."""

from collections import deque

import numpy as np
import pytest

from vbstack.numerics.lbfgs import climb

CURVATURE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 50.0]])
TOP = np.array([0.3, -0.7, 1.1])


def quadratic(x):
    away = x - TOP
    return -0.5 * float(away @ CURVATURE @ away), -CURVATURE @ away


def climbed(objective, start, lower, upper, **options):
    options = {"steps": 40, "tolerance": 1e-12, "reach": np.inf, **options}
    return climb(objective, start, lower, upper, deque(maxlen=8), **options)


def test_a_quadratic_is_climbed_to_its_top():
    x, value = climbed(quadratic, np.zeros(3), np.full(3, -9.0), np.full(3, 9.0))
    assert np.allclose(x, TOP, atol=1e-5)
    assert value == pytest.approx(0, abs=1e-9)


def test_the_box_holds_and_what_is_free_is_still_best():
    upper = np.array([9.0, 9.0, 0.5])
    x, _ = climbed(quadratic, np.zeros(3), np.full(3, -9.0), upper)
    # With x2 = ½ fixed the others solve the remaining equations.
    rest = TOP[:2] - np.linalg.solve(CURVATURE[:2, :2], CURVATURE[:2, 2] * (0.5 - TOP[2]))
    assert x[2] == 0.5
    assert np.allclose(x[:2], rest, atol=1e-5)


def test_it_backs_away_from_where_the_objective_is_minus_infinity():
    def cliff(x):
        value, slope = quadratic(x)
        return (value, slope) if x[2] < 1.05 else (-np.inf, np.zeros(3))

    start = np.zeros(3)
    x, value = climbed(cliff, start, np.full(3, -9.0), np.full(3, 9.0))
    assert x[2] < 1.05
    assert value > quadratic(start)[0]


def test_no_step_is_longer_than_its_reach_and_large_gains_are_not_counted():
    visited = []

    def watched(x):
        visited.append(np.array(x))
        return quadratic(x)

    box = np.full(3, -9.0), np.full(3, 9.0)
    far = np.array([8.0, 8.0, 8.0])
    climbed(watched, far, *box, steps=2, reach=0.25)
    assert np.abs(np.diff(visited, axis=0)).max() <= 0.25 + 1e-12
    counted = len(visited)
    visited.clear()
    climbed(watched, far, *box, steps=2, reach=0.25, large=1.0)
    assert len(visited) > counted


def test_a_useless_memory_is_forgotten():
    """Curvature of another objective sends the first step far off; the slope alone then helps."""
    memory = deque([(np.array([1.0, 0.0, 0.0]), np.array([1e-9, 0.0, 0.0]))], maxlen=8)
    box = np.full(3, -1e12), np.full(3, 1e12)
    x, _ = climb(quadratic, np.zeros(3), *box, memory, steps=60, tolerance=1e-12, reach=np.inf)
    assert np.allclose(x, TOP, atol=1e-4)


def test_a_narrow_ridge_is_climbed_from_nearby():
    def narrow(x):
        return -0.5e8 * float(x @ x), -1e8 * x

    x, _ = climbed(narrow, np.array([1e-4, 0.0]), np.full(2, -1.0), np.full(2, 1.0))
    assert np.abs(x).max() < 1e-6
