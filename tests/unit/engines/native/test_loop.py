"""The loop: what it evaluates, when it ends, what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from tests.small_problems import (
    LOG_EVIDENCE,
    beta_problem,
    evaluations_of,
    gaussian,
    gaussian_problem,
    native_run,
    noisy_gaussian_problem,
)
from vbstack import Problem
from vbstack.engines.native import change_of_space, iteration, loop, mixture_fit, space
from vbstack.engines.native.acquisition import (
    exploratory,
    flattened_draw,
    mixture_draw,
    most_promising,
)
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.loop import run_native
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import training_data
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal


def test_settling_is_judged_in_one_space(process, mixture):
    old = space.unit_box(gaussian_problem(2))
    new = space.whitened(old, mixture.moments()[1])
    before = iteration.State(old, process, mixture_fit.Fitted(mixture, 1.0, 0.01))
    moved = mixture_fit.Fitted(space.mixture_in_space(mixture, old, new), 1.01, 0.01)
    assert loop._is_small(before, iteration.State(new, process, moved), 0.05)
    elsewhere = DiagonalMixture(mixture.weights, mixture.means + 1.0, mixture.sds)
    assert not loop._is_small(
        before, iteration.State(old, process, mixture_fit.Fitted(elsewhere, 1.0, 0.01)), 0.05
    )


@pytest.mark.parametrize(
    ("dimension", "way", "tests"),
    [(2, exploratory, [1, 1, 3, 1, 3, 5]), (5, mixture_draw, [0, 0, 2, 2, 4, 6])],
)
def test_the_calmer_a_run_the_more_its_mixture_is_tested(process, mixture, dimension, way, tests):
    map_, settings = space.unit_box(gaussian_problem(2)), Policy.of({}, dimension)
    elbos = [0.0, 0.01, 1.0, 1.02, 1.03]
    states = [iteration.State(map_, process, mixture_fit.Fitted(mixture, e, 0.01)) for e in elbos]
    for n, expected in enumerate(tests):
        for count in (4, 8):
            ways = loop._ways(gaussian_problem(dimension), states[:n], count, settings)
            some = min(expected, count)
            assert ways == [most_promising] * (count - some) + [way] * some


def test_with_noise_most_evaluations_are_draws():
    settings = Policy.of({}, 2, noisy=True)
    draws = [mixture_draw, mixture_draw, flattened_draw, flattened_draw]
    assert loop._ways(noisy_gaussian_problem(2), [], 5, settings) == [exploratory, *draws]
    assert loop._ways(noisy_gaussian_problem(2), [], 3, settings) == draws[1:]


@pytest.mark.parametrize(("centre", "width"), [(2.5, 0.06), (1.4, 0.25)])
def test_a_component_where_nothing_was_evaluated_is_looked_at_and_left(centre, width):
    """Also a wide one, of which only the centre is known."""

    def cliff(x):
        return float(-0.5 * x @ x - 100 * (x[0] > 2))

    problem = Problem(
        log_density=cliff, plausible_lower_bounds=[-4, -4], plausible_upper_bounds=[4, 4]
    )
    recorder = Recorder(problem, 1, Journal())
    rng = np.random.default_rng(0)
    for point in rng.uniform([-3, -3], [1.5, 3], (30, 2)):
        recorder(point)
    map_ = space.unit_box(problem)
    data = training_data(recorder, map_)
    process = hyperparameter_fit.fit(data, [hyperparameter_fit.first_guess(data)], 50)
    centres = map_.forward(np.array([[0.0, 0.0], [centre, 0.0]]))
    sds = np.array([[0.06, 0.06], [width, width]])
    blind = DiagonalMixture(np.array([0.7, 0.3]), centres, sds)
    state = iteration.State(map_, process, mixture_fit.evaluated(process, blind, rng))
    validated, passed = loop._validated(state, recorder, Policy.of({}, 2), rng)
    after = validated.fitted.mixture
    assert passed
    beyond = map_.inverse(after.means)[:, 0] > 2
    assert recorder.evaluations().values.min() < -100
    assert after.weights[beyond].sum() < 0.01


def test_what_cannot_be_run_is_refused_with_its_name():
    with pytest.raises(ValueError, match="not within the hard bounds"):
        native_run(beta_problem(), [0.0], seed=0)
    with pytest.raises(ValueError, match="plausible box of rate"):
        native_run(beta_problem(0.0, 1e-4), [0.5], seed=0)


@pytest.mark.parametrize("budget", [2, 9, 10, 11, 30])
def test_the_budget_is_spent_on_distinct_points_and_never_exceeded(budget):
    """Budgets smaller than the first ten points, equal to them, and with an iteration cut short."""
    calls: list[tuple[float, ...]] = []

    def counted(x):
        calls.append(tuple(x))
        return gaussian(x)

    problem = replace(gaussian_problem(), log_density=counted)
    run = native_run(problem, np.zeros(3), 5, {"max_fun_evals": budget, "final_components": 2})
    assert len(calls) == len(set(calls)) == budget
    assert calls[0] == (0.0, 0.0, 0.0)
    np.testing.assert_array_equal(evaluations_of(run).x, calls)
    assert run.surrogate is not None
    assert run.surrogate.values.size == budget
    assert not run.converged
    if budget > 2:  # two evaluations near each other do not know how little they know
        assert abs(run.elbo - LOG_EVIDENCE) < 3 * run.elbo_sd


def test_evaluations_known_beforehand_count_towards_the_budget():
    points = np.random.default_rng(0).uniform(-3, 4, (12, 3))
    known = [Evaluation(tuple(x), gaussian(x), None, 0.0) for x in points]
    recorder = Recorder(gaussian_problem(), 5, Journal(), precomputed=known)
    run = run_native(gaussian_problem(), np.zeros(3), 5, recorder, {"max_fun_evals": 12})
    assert recorder.made == []
    np.testing.assert_array_equal(evaluations_of(run).x, points)


def test_without_whitenings_the_space_is_never_changed(monkeypatch):
    """Five correlated parameters, whose space is changed otherwise."""
    precision = np.linalg.inv(0.9 + 0.1 * np.eye(5))
    problem = Problem(
        log_density=lambda x: -0.5 * float(x @ precision @ x),
        plausible_lower_bounds=[-3] * 5,
        plausible_upper_bounds=[3] * 5,
    )
    options = {"max_fun_evals": 80, "final_components": 2}
    usual = native_run(problem, np.zeros(5), 1, options).transform
    assert not np.allclose(usual.rotation, np.eye(5))

    def refuse(*_):
        pytest.fail("a change of space was tried")

    for name in ("improved", "straightened", "whitened"):
        monkeypatch.setattr(change_of_space, name, refuse)
    kept = native_run(problem, np.zeros(5), 1, {**options, "whitenings": 0}).transform
    np.testing.assert_array_equal(kept.rotation, np.eye(5))
    np.testing.assert_array_equal(kept.scale, np.ones(5))
