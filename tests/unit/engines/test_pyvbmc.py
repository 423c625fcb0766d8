"""What pyvbmc is told about points outside the support."""

import numpy as np

from tests.small_problems import gaussian_problem
from vbstack.engines.pyvbmc import _finite_values
from vbstack.runs.evaluations import Evaluations


def values_at(x, values):
    return _finite_values(
        Evaluations(np.array(x, dtype=float), np.array(values)), gaussian_problem()
    )


def test_outside_the_support_the_value_falls_from_the_nearest_one_inside():
    problem = gaussian_problem()
    width = problem.plausible_upper_bounds - problem.plausible_lower_bounds
    near, far = np.zeros(width.size), np.zeros(width.size)
    near[0], far[0] = 0.01 * width[0], 3 * width[0]
    inside = np.zeros(width.size)
    found = values_at([inside, -width, near, far], [-1.0, -50.0, -np.inf, -np.inf])
    assert found[:2].tolist() == [-1.0, -50.0]
    assert np.allclose(found[2:], [-1.0 - 2.4, -1.0 - 10.0])  # 2 + 40 · 0.01; at most ten


def test_while_nothing_is_inside_the_value_is_low():
    d = gaussian_problem().dimension
    assert values_at(np.zeros((2, d)), [-np.inf, -np.inf]).tolist() == [-1000.0, -1000.0]
