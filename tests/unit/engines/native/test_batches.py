"""All points of an iteration at once: how they are chosen, and what looks among them lead to."""

import numpy as np
import pytest

from tests.small_problems import native_run
from vbstack import Problem
from vbstack.engines.native import evaluating, iteration, looks, loop, space
from vbstack.engines.native.acquisition import exploratory, mixture_draw, most_promising
from vbstack.engines.native.policy import Policy
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal

SD = 0.4
CENTRES = np.array([[-2.0, -2.0], [2.0, 2.0], [-2.0, 2.5]])
BATCHES = Policy.of({"batch": True}, 2)


def modes(count):
    def log_density(x):
        return float(
            np.logaddexp.reduce([-0.5 * np.square((x - c) / SD).sum() for c in CENTRES[:count]])
        )

    return log_density


def problem_of(log_density):
    return Problem(
        log_density=log_density, plausible_lower_bounds=[-4, -4], plausible_upper_bounds=[4, 4]
    )


def calm(count):
    """The recorder and the last state of a run beside the first of some modes, without looks."""
    problem = problem_of(modes(count))
    recorder = Recorder(problem, 3, Journal())
    settings = Policy.of({"looks": 0, "reach": 0.15, "batch": True}, 2)
    state, settled, _ = loop._explore(problem, CENTRES[0] + 0.5, 3, recorder, settings)
    assert settled
    return recorder, state


@pytest.fixture(scope="module")
def one_mode():
    """The recorder and the state after ten evaluations."""
    problem = problem_of(modes(1))
    recorder, rng = Recorder(problem, 3, Journal()), np.random.default_rng(0)
    evaluating.first(problem, CENTRES[0] + 0.5, recorder, rng, Policy.of({"reach": 0.3}, 2))
    return recorder, iteration.first_state(recorder, space.unit_box(problem), rng, BATCHES)


def test_points_of_a_batch_differ_and_none_is_evaluated(one_mode):
    recorder, state = one_mode
    made = len(recorder)
    ways = [most_promising, most_promising, exploratory, mixture_draw, most_promising]
    points = evaluating.chosen(state, recorder, np.random.default_rng(1), BATCHES, ways)
    assert len(recorder) == made
    apart = np.linalg.norm(np.array(points)[:, None] - np.array(points), axis=2)
    assert apart[~np.eye(5, dtype=bool)].min() > 0.02


def test_a_believed_value_lowers_the_variance_and_leaves_the_mean(one_mode):
    recorder, state = one_mode
    choice = evaluating._Choice.of(state, recorder, np.random.default_rng(2), BATCHES, None)
    candidates = choice.candidates
    place = int(np.argmax(candidates.variance))
    after = choice.with_prediction(candidates.points[place], 0.0)
    np.testing.assert_allclose(after.candidates.mean, candidates.mean, atol=1e-10)
    assert np.all(after.candidates.variance <= candidates.variance + 1e-12)
    assert after.candidates.variance[place] < 0.1 * candidates.variance[place]
    mean, variance = after.process.predict(candidates.points)
    np.testing.assert_allclose(mean, candidates.mean, atol=1e-4)
    np.testing.assert_allclose(variance, after.candidates.variance, atol=1e-6)


def test_looks_of_one_batch_may_find_two_modes(monkeypatch):
    recorder, state = calm(3)
    found = recorder.many([CENTRES[1] + 0.4, CENTRES[0], CENTRES[2] - 0.4, CENTRES[1] - 0.3])
    looked = looks.met(state, recorder, np.random.default_rng(3), BATCHES, found)
    # The second is at the mode that is known, the fourth at one that an earlier climb explains.
    assert (looked.in_vain, looked.outside) == (2, 0)
    assert looked.state is not None
    mixture = looked.state.fitted.mixture
    x = looked.state.map_.inverse(mixture.means)
    shares = [mixture.weights[np.linalg.norm(x - c, axis=1) < 1.2].sum() for c in CENTRES]
    np.testing.assert_allclose(shares, [1 / 3] * 3, atol=0.15)


def test_there_are_as_many_looks_as_the_budget_has(one_mode):
    recorder, state = one_mode
    needed = 1 + 2 + 3 * BATCHES.settled_iterations * BATCHES.fun_evals_per_iter
    for left, count in ((0, 0), (1, 1), (3, 3), (50, 8)):
        limit = len(recorder) + needed + left
        policy = Policy.of({"batch": True, "max_fun_evals": limit}, 2)
        assert looks.affordable(recorder, policy) == (left >= 1)
        places = looks.places(state, recorder, np.random.default_rng(4), policy, 8)
        assert len(places) == count


def test_a_budget_is_never_exceeded():
    for limit in (4, 10, 13, 22, 41):
        run = native_run(
            problem_of(modes(2)), CENTRES[0], 5, {"batch": True, "max_fun_evals": limit}
        )
        assert run.evaluations is not None
        assert run.evaluations.paid <= limit
