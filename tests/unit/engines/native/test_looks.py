"""Looks for other modes: which values surprise a run, and what it does then."""

import numpy as np
import pytest

from tests.small_problems import native_run
from vbstack import Problem
from vbstack.engines.native import evaluating, looks, loop
from vbstack.engines.native.policy import Policy
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal

POLICY = Policy.of({}, 2)
SD, CENTRES = 0.4, np.array([[-2.0, -2.0], [2.0, 2.0]])


def one_mode(x):
    return float(-0.5 * np.square((x - CENTRES[0]) / SD).sum())


def two_modes(x):
    return float(np.logaddexp(*(-0.5 * np.square((x - c) / SD).sum() for c in CENTRES)))


def problem_of(log_density, constraint=None):
    return Problem(
        log_density=log_density,
        plausible_lower_bounds=[-4, -4],
        plausible_upper_bounds=[4, 4],
        constraint=constraint,
    )


def calm_run(log_density):
    """The recorder and the last state of a run that began beside the first mode, without looks."""
    problem = problem_of(log_density)
    recorder = Recorder(problem, 3, Journal())
    settings = Policy.of({"looks": 0, "reach": 0.15}, 2)
    state, settled, _ = loop._explore(problem, CENTRES[0] + 0.5, 3, recorder, settings)
    assert settled
    return recorder, state


@pytest.fixture(scope="module")
def calm():
    return calm_run(two_modes)


def test_a_value_surprises_when_another_mode_is_nearer(calm):
    _, state = calm
    for x in ([3.0, 1.0], [1.5, 3.5], [2.0, 2.0]):
        assert looks._surprises(state, np.array(x), two_modes(np.array(x)), POLICY)
    for x in ([-3.5, -1.0], [-1.0, -3.0], [-2.0, -2.5]):
        assert not looks._surprises(state, np.array(x), two_modes(np.array(x)), POLICY)
    assert not looks._surprises(
        state, np.array([3.0, 1.0]), -1e4, POLICY
    )  # far below is no surprise


def test_a_climb_ends_on_the_other_mode_and_its_components_join(calm, monkeypatch):
    recorder, state = calm
    monkeypatch.setattr(looks, "_place", lambda *_: np.array([3.2, 0.8]))
    before = len(recorder)
    found, quiet, _ = looks.elsewhere(state, recorder, np.random.default_rng(0), POLICY, 2)
    assert found is not None
    assert quiet == 0
    points = recorder.evaluations().x[before:]
    assert np.square(points - CENTRES[1]).sum(axis=1).min() < (1.5 * SD) ** 2
    draws = found.map_.inverse(found.fitted.mixture.draws(1000, np.random.default_rng(1)))
    shares = [np.mean(draws[:, 0] < 0), np.mean(draws[:, 0] > 0)]
    assert min(shares) > 0.2


def test_far_points_of_one_mode_cost_an_evaluation_each_and_find_nothing():
    recorder, state = calm_run(one_mode)
    before = len(recorder)
    found = looks.elsewhere(state, recorder, np.random.default_rng(0), POLICY, 10)
    assert found == (None, 10, 0)
    assert len(recorder) == before + 10


@pytest.mark.parametrize(("left", "reserve"), [(8, 1), (63, 3), (24, 1), (14, 0)])
def test_a_look_leaves_budget_to_settle_and_a_climb_never_exceeds_it(monkeypatch, left, reserve):
    recorder, state = calm_run(two_modes)
    monkeypatch.setattr(looks, "_place", lambda *_: np.array([3.4, 0.6]))
    before = len(recorder)
    settings = Policy.of({"max_fun_evals": before + left, "look_reserve": reserve}, 2)
    looks.elsewhere(state, recorder, np.random.default_rng(0), settings, 2)
    needed = 4 + reserve * 4 * 5  # the look, three points around it; settling takes 4 iterations
    assert (len(recorder) > before) is (left >= needed)
    assert len(recorder) <= before + left


def test_looks_outside_the_support_cannot_have_met_a_mode(monkeypatch):
    def half(x):
        return one_mode(x) if x[0] < 0 else -np.inf

    recorder, state = calm_run(half)
    places = iter(np.array([[3.0, 0.0], [-3.0, 3.0], [2.0, 3.0]]))
    monkeypatch.setattr(looks, "_place", lambda *_: next(places))
    assert looks.elsewhere(state, recorder, np.random.default_rng(0), POLICY, 3) == (None, 3, 2)


def test_a_run_that_cannot_afford_looks_spends_its_iterations_on_other_evaluations(monkeypatch):
    """What a calm iteration saves for looks is what it made."""
    counts = []
    more = evaluating.more

    def counted(state, recorder, rng, policy, ways, region=None):
        counts.append(len(ways))
        more(state, recorder, rng, policy, ways, region)

    monkeypatch.setattr(evaluating, "more", counted)
    monkeypatch.setattr(looks, "affordable", lambda *_: False)
    native_run(problem_of(one_mode), CENTRES[0], 5)
    assert set(counts) == {POLICY.fun_evals_per_iter}


def test_looks_are_all_over_the_box_and_rather_in_its_middle(calm):
    recorder, state = calm
    rng = np.random.default_rng(0)
    x = np.array([looks._place(state, recorder, rng) for _ in range(2000)])
    assert np.ptp(x, axis=0).min() > 7.5
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=0.15)
    # The variance of a uniform coordinate is 1/12 of the squared width, of a Beta(2, 2) one 1/20.
    np.testing.assert_allclose(x.std(axis=0), 8 * np.sqrt((1 / 12 + 1 / 20) / 2), atol=0.08)


def share_of_the_other_mode(seed, **options):
    run = native_run(problem_of(two_modes), CENTRES[0], seed, {"reach": 0.15, **options})
    assert run.converged
    return float(run.weights[run.transform.inverse(run.means)[:, 0] > 0].sum())


def test_most_runs_beside_one_mode_find_the_other():
    """Without looks they do not: the test would fail if looks did nothing."""
    both = [abs(share_of_the_other_mode(seed) - 0.5) < 0.05 for seed in (5, 6, 7, 8)]
    assert sum(both) >= 2  # ten of twelve seeds do
    assert share_of_the_other_mode(6, looks=0) < 0.01
