"""What pyvbmc is told about points outside the support."""

import numpy as np

from tests.small_problems import gaussian_problem
from vbstack.engines.pyvbmc import _substitutes
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.plausible import PlausibleBox


def test_outside_the_support_the_value_falls_from_the_nearest_one_inside():
    problem = gaussian_problem()
    width = problem.plausible_upper_bounds - problem.plausible_lower_bounds
    inside, near, far = np.zeros(width.size), np.zeros(width.size), np.zeros(width.size)
    near[0], far[0] = 0.01 * width[0], 3 * width[0]
    made = Evaluations(np.array([inside, -width, near]), np.array([-1.0, -50.0, -np.inf]))
    found = _substitutes(np.array([near, far]), made, PlausibleBox.of(problem.description()))
    assert np.allclose(found, [-1.0 - 2.4, -1.0 - 10.0])  # 2 + 40 · 0.01; at most ten


def test_while_nothing_is_inside_the_value_is_low():
    problem = gaussian_problem()
    x = np.zeros((2, problem.dimension))
    nothing = Evaluations(x, np.full(2, -np.inf))
    assert _substitutes(x, nothing, PlausibleBox.of(problem.description())).tolist() == [
        -1000.0,
        -1000.0,
    ]
