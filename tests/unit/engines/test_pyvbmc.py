"""What pyvbmc is told about points outside the support, and of parameters with one bound."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma

from tests.small_problems import gaussian_problem
from vbstack import Problem, Screen, launch, stack
from vbstack.engines.native.space import unit_box
from vbstack.engines.pyvbmc import _Answers, _substitutes, _with_logarithms
from vbstack.engines.recorder import Recorder
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.journal import Journal
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


def test_what_pyvbmc_sees_of_one_bound_is_the_logarithm_with_its_jacobian():
    """log f(exp z) + z for a rate, and −inf as a substitute in the same space."""
    problem = Problem(
        lambda x: -np.inf if x[0] > 100 else float(-x[0] + np.log(x[1])),
        lower_bounds=[0, 0],
        upper_bounds=[None, 1],
        plausible_lower_bounds=[0.1, 0.1],
        plausible_upper_bounds=[3, 0.9],
    )
    recorder = Recorder(problem, 1, Journal())
    answers = _Answers(recorder, PlausibleBox.of(problem.description()))
    value = answers(np.array([[np.log(2.0), 0.5]]))
    assert isinstance(value, float)
    assert value == pytest.approx(-2.0 + np.log(0.5) + np.log(2.0))
    assert recorder.made[0].x == pytest.approx((2.0, 0.5))
    assert answers(np.array([[9.0, 0.5]])) == pytest.approx(value - 10.0)


def test_both_engines_share_the_link_of_one_bound():
    problem = Problem(
        len, lower_bounds=[0, -1], upper_bounds=[None, 1], plausible_lower_bounds=0.1,
        plausible_upper_bounds=0.9,
    )  # fmt: skip
    box = PlausibleBox.of(problem.description())
    native = unit_box(problem)
    kinds = np.array([0, 12])  # of pyvbmc: it sees the first parameter without bounds
    theirs = replace(
        native, kinds=kinds, lower=np.array([-np.inf, -1.0]), upper=np.array([np.inf, 1.0])
    )
    ours = _with_logarithms(theirs, box.link)
    assert ours.link.same_as(native.link)
    u = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(ours.inverse(u), box.link.inverse(theirs.inverse(u)))


@pytest.mark.slow
def test_runs_of_both_engines_behind_one_bound_are_pooled(tmp_path):
    """A gamma law of one parameter: what pyvbmc brings back is in the users' units."""
    law = gamma(2.0, scale=3.0)
    problem = Problem(
        lambda x: float(law.logpdf(x[0])),
        lower_bounds=0,
        plausible_lower_bounds=1.0,
        plausible_upper_bounds=12.0,
    )
    settings: dict[str, Any] = {"seed": 1, "executor": "here", "progress": False}
    runs = [
        launch(problem, 1, store=tmp_path / engine, engine=engine, **settings)[0]
        for engine in ("native", "pyvbmc")
    ]
    assert runs[0].transform.link.same_as(runs[1].transform.link)
    for run in runs:
        assert run.evaluations is not None
        assert run.surrogate is not None
        x = run.evaluations.x
        np.testing.assert_array_less(0, x)
        np.testing.assert_allclose(run.evaluations.values, law.logpdf(x[:, 0]))
        seen = run.transform.inverse(run.surrogate.inputs)
        expected = law.logpdf(seen[:, 0]) + run.transform.log_jacobian(run.surrogate.inputs)
        high = expected > expected.max() - 5
        np.testing.assert_allclose(run.surrogate.values[high], expected[high], atol=1e-6)
    posterior = stack(runs, screen=Screen(require_converged=False))
    assert posterior.evidence.method == "pooled"
    assert posterior.evidence.log_evidence == pytest.approx(0.0, abs=0.02)
    assert posterior.moments()[0][0] == pytest.approx(6.0, rel=0.02)
    assert posterior.sample(10_000, seed=0).min() > 0
    assert posterior.mode()[0] == pytest.approx(3.0, rel=0.15)
