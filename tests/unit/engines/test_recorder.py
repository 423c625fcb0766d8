"""Many points at once: order, journal, replay, failures, time limits."""

import time
from typing import Any

import numpy as np
import pytest

from tests.small_problems import evaluations_of, gaussian_problem, native_run
from vbstack import EvaluationError, Problem
from vbstack.engines.attempts import Rule, one_after_the_other
from vbstack.engines.native.loop import run_native
from vbstack.engines.pyvbmc import run_pyvbmc
from vbstack.engines.recorder import Recorder, ReplayMismatch
from vbstack.runs.journal import Journal

POINTS = [np.array([x]) for x in (0.1, 0.2, 0.3, 0.4)]


def problem(log_density=lambda x, rng: float(x[0] + rng.uniform()), **details):
    box: dict[str, Any] = {"plausible_lower_bounds": [-1.0], "plausible_upper_bounds": [1.0]}
    return Problem(log_density=log_density, **box, **details)


def backwards(target, sizes, rule=None):
    """Evaluations that are finished in the opposite order."""

    def made(wanted):
        sizes.append(len(wanted))
        for one in reversed(wanted):
            yield from one_after_the_other(target, rule or Rule())([one])

    return made


def test_values_do_not_depend_on_the_order_in_which_evaluations_end(tmp_path):
    target = problem()
    sizes: list[int] = []
    single = Recorder(target, 7, Journal())
    expected = [single(x).value for x in POINTS]
    with Journal(tmp_path / "j") as journal:
        many = Recorder(target, 7, journal, makes_all=backwards(target, sizes))
        assert [one.value for one in many.many(POINTS)] == expected
    assert sizes == [4]
    with Journal(tmp_path / "j") as journal:
        again = Recorder(target, 7, journal, makes_all=backwards(target, sizes))
        assert [one.value for one in again.many(POINTS)] == expected
        assert again.replayed == 4
    assert sizes == [4]


def test_what_was_finished_when_a_run_was_killed_within_a_batch_is_not_made_again(tmp_path):
    target = problem()
    asked: list[int] = []

    def killed(wanted):
        made = backwards(target, [])(wanted)
        yield next(made)
        yield next(made)
        raise KeyboardInterrupt

    with Journal(tmp_path / "j") as journal, pytest.raises(KeyboardInterrupt):
        Recorder(target, 7, journal, makes_all=killed).many(POINTS)

    def noted(wanted):
        asked.extend(one.place for one in wanted)
        return one_after_the_other(target, Rule())(wanted)

    with Journal(tmp_path / "j") as journal:
        assert sorted(journal.by_place) == [2, 3]
        found = Recorder(target, 7, journal, makes_all=noted).many(POINTS)
    assert asked == [0, 1]
    assert found[:2] != found[2:]
    assert [one.value for one in found] == [
        one.value for one in Recorder(target, 7, Journal()).many(POINTS)
    ]


def test_other_points_than_the_journal_has_are_noticed_before_any_is_paid():
    target = problem()
    sizes: list[int] = []
    journal = Journal()
    Recorder(target, 7, journal).many(POINTS[:2])
    recorder = Recorder(target, 7, journal, makes_all=backwards(target, sizes))
    with pytest.raises(ReplayMismatch, match=r"evaluation 1 of the journal is at \[0.2\]"):
        recorder.many([POINTS[0], POINTS[2], POINTS[3]])
    assert sizes == []


def test_when_one_fails_the_others_are_finished_and_the_first_is_said():
    def fails(x):
        if x[0] in (0.2, 0.3):
            raise ZeroDivisionError(f"at {x[0]}")
        return 0.0

    target = problem(fails)
    journal = Journal()
    with pytest.raises(EvaluationError, match="at 0.2"):
        Recorder(target, 7, journal, makes_all=backwards(target, [])).many(POINTS)
    assert sorted(journal.by_place) == [0, 3]
    one_by_one = Journal()
    with pytest.raises(EvaluationError, match="at 0.2"):
        Recorder(target, 7, one_by_one).many(POINTS)
    assert sorted(one_by_one.by_place) == [0]
    floored = Recorder(target, 7, Journal(), "floor").many(POINTS)
    assert [one.value for one in floored] == [0.0, -np.inf, -np.inf, 0.0]


def test_rejected_points_have_no_place():
    target = problem(constraint=lambda x: bool(x[0] != 0.2))
    recorder = Recorder(target, 7, Journal())
    found = recorder.many(POINTS)
    assert [np.isfinite(one.value) for one in found] == [True, False, True, True]
    assert len(recorder) == 3
    assert [one.x for one in recorder.rejected] == [(0.2,)]


def test_an_evaluation_that_hangs_has_failed():
    def hangs(x):
        time.sleep(5 if x[0] == 0.2 else 0)
        return 0.0

    begun = time.monotonic()
    with pytest.raises(EvaluationError, match=r"longer than evaluation_timeout=0.2 s .*x = \[0.2"):
        Recorder(problem(hangs), 7, Journal(), "retry", evaluation_timeout=0.2).many(POINTS)
    floor = Recorder(problem(hangs), 7, Journal(), "floor", evaluation_timeout=0.2).many(POINTS)
    assert time.monotonic() - begun < 4
    assert [one.value for one in floor] == [0.0, -np.inf, 0.0, 0.0]
    assert "evaluation_timeout" in floor[1].failure


@pytest.mark.parametrize("noisy", [False, True])
def test_the_first_points_of_pyvbmc_are_made_at_once_and_the_run_is_the_same(noisy):
    def density(x):
        value = -0.5 * float(x @ x)
        return (value, 1.0) if noisy else value

    box: dict[str, Any] = {"plausible_lower_bounds": [-2] * 2, "plausible_upper_bounds": [2] * 2}
    target = Problem(
        log_density=density, noisy=noisy, constraint=lambda x: bool(x[0] > -1.5), **box
    )
    options = {"max_fun_evals": 12, "max_iter": 1, "min_final_components": 2}
    start = np.zeros(2)
    sizes: list[int] = []
    one = run_pyvbmc(target, start, 3, Recorder(target, 3, Journal()), options)
    recorder = Recorder(target, 3, Journal(), makes_all=backwards(target, sizes))
    other = run_pyvbmc(target, start, 3, recorder, options)
    assert sizes[0] > 5
    assert set(sizes[1:]) <= {1}
    assert recorder.replayed == 0
    np.testing.assert_array_equal(evaluations_of(one).x, evaluations_of(other).x)
    np.testing.assert_array_equal(one.means, other.means)


@pytest.fixture(scope="module")
def batch_run():
    """The journal of a run that proposes batches, the run, and the size of each batch."""
    target, journal = gaussian_problem(), Journal()
    sizes: list[int] = []
    recorder = Recorder(target, 5, journal, makes_all=backwards(target, sizes))
    run = run_native(target, np.zeros(3), 5, recorder, {"batch": True})
    return journal, run, sizes


def test_a_run_that_proposes_batches_waits_a_few_times(batch_run):
    _, run, sizes = batch_run
    assert run.converged
    assert run.elbo == pytest.approx(0.87, abs=0.05)
    assert sizes[0] == 10
    assert evaluations_of(run).paid / len(sizes) > 4


def test_its_evaluations_may_be_made_one_after_the_other(batch_run):
    _, run, _ = batch_run
    other = native_run(gaussian_problem(), np.zeros(3), 5, {"batch": True})
    np.testing.assert_array_equal(run.means, other.means)
    np.testing.assert_array_equal(evaluations_of(run).x, evaluations_of(other).x)


def test_it_is_replayed_from_a_journal_with_gaps(batch_run):
    whole, run, _ = batch_run
    part = Journal()
    calls: list[int] = []
    for place in [*range(12), 13, 15, 16]:  # killed within the second batch
        part.append(whole.by_place[place], place)
    target = gaussian_problem()
    sizes: list[int] = []

    def counted(wanted):
        calls.extend(one.place for one in wanted)
        return backwards(target, sizes)(wanted)

    recorder = Recorder(target, 5, part, makes_all=counted)
    other = run_native(target, np.zeros(3), 5, recorder, {"batch": True})
    assert sorted(calls) == [12, 14, *range(17, evaluations_of(run).paid)]
    np.testing.assert_array_equal(run.means, other.means)
    np.testing.assert_array_equal(evaluations_of(run).x, evaluations_of(other).x)
