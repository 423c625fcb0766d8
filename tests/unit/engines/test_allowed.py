"""The constraint of a problem is asked before points are chosen, and costs no evaluation."""

import numpy as np
import pytest

from vbstack import EvaluationError, Evaluations, Problem, RunStore, fit, load_runs, save_runs
from vbstack.engines.allowed import check_plausible_box
from vbstack.engines.native.loop import run_native
from vbstack.engines.recorder import Recorder
from vbstack.launching.settings import LaunchSettings
from vbstack.runs.journal import Journal
from vbstack.stacking.support import Support


def problem(constraint, calls=None):
    def log_density(x):
        if calls is not None:
            calls.append(x)
        return float(-0.5 * x @ x)

    return Problem(
        log_density=log_density,
        constraint=constraint,
        plausible_lower_bounds=[-2.0, -2.0],
        plausible_upper_bounds=[2.0, 2.0],
    )


def ordered(x):
    return x[0] < x[1]


def test_a_run_pays_for_allowed_points_only_and_uses_its_whole_budget(tmp_path):
    calls: list[np.ndarray] = []
    target = problem(ordered, calls)
    recorder = Recorder(target, 1, Journal())
    start = np.array([1.0, -1.0])  # not allowed
    run = run_native(target, start, 1, recorder, {"max_fun_evals": 25})
    made = run.evaluations
    assert made is not None
    assert made.paid == len(calls) == len(recorder) == len(recorder.journal.by_place) == 25
    assert all(ordered(x) for x in calls)
    assert made.rejected is not None
    assert made.rejected.sum() == made.size - 25 > 0
    assert np.array_equal(made.rejected, [not ordered(x) for x in made.x])
    assert np.array_equal(made.outside, made.rejected)
    support = Support.of([run])
    assert support is not None
    assert (support.evaluations, support.outside) == (25, 0)
    assert support.rejected == made.rejected.sum()
    (again,) = load_runs(save_runs(tmp_path / "run.npz", [run]))
    assert again.evaluations is not None
    assert again.evaluations.paid == 25


def test_half_a_journal_is_replayed_bit_for_bit(tmp_path):
    whole = Journal(tmp_path / "a.journal")
    target, start, options = problem(ordered), np.array([1.0, -1.0]), {"max_fun_evals": 25}
    first = run_native(target, start, 1, Recorder(target, 1, whole), options)
    half = Journal(tmp_path / "b.journal")
    for evaluation in whole.evaluations[:12]:
        half.append(evaluation)
    recorder = Recorder(target, 1, half)
    second = run_native(target, start, 1, recorder, options)
    assert recorder.replayed == 12
    assert first.elbo == second.elbo
    whole.close()
    half.close()


def test_people_are_shown_the_evaluations_that_were_paid(tmp_path):
    calls: list[np.ndarray] = []
    posterior = fit(
        *(problem(ordered, calls), 1),
        store=tmp_path,
        seed=2,
        engine="native",
        executor="here",
        verify=False,
        progress=False,
    )
    (state,) = RunStore(tmp_path).states()
    assert state.evaluations == len(calls)
    assert f"0 of {len(calls)} evaluations are outside" in posterior.summary()
    assert "more points by the constraint" in posterior.summary()


def test_a_box_without_allowed_points_is_refused_before_anything_is_made(tmp_path):
    nowhere = problem(lambda x: x[0] > 10)
    with pytest.raises(ValueError, match="constraint is false at 10,000 random points"):
        check_plausible_box(nowhere)
    with pytest.raises(ValueError, match="move the box to where the constraint holds"):
        LaunchSettings(nowhere, 2, store=tmp_path / "store", engine="native")
    assert not (tmp_path / "store").exists()


def test_a_corner_of_the_box_is_found():
    target = problem(lambda x: x[0] > 1.5 and x[1] > 1.5)
    recorder = Recorder(target, 1, Journal())
    run = run_native(target, np.zeros(2), 1, recorder, {"max_fun_evals": 20})
    assert run.evaluations is not None
    assert run.evaluations.paid == 20


def test_a_constraint_that_fails_fails_the_run_or_is_floored():
    def failing(x):
        if x[0] > 1.9:
            raise SystemExit("no")
        return True

    target = problem(failing)
    with pytest.raises(RuntimeError, match="constraint raised SystemExit: no, at x"):
        Recorder(target, 1, Journal())(np.array([1.95, 0.0]))
    recorder = Recorder(target, 1, Journal(), "floor")
    assert recorder(np.array([1.95, 0.0])).failure.startswith("constraint raised")
    assert len(recorder) == 1


def test_what_is_paid_where_nothing_was_rejected():
    x = np.zeros((3, 1))
    assert Evaluations(x, np.zeros(3)).paid == 3
    assert Evaluations(x, np.zeros(3), rejected=np.array([False, True, True])).paid == 1


@pytest.mark.parametrize(
    "answer",
    [lambda x: x[1] - x[0], lambda x: np.nan, lambda x: "no", lambda x: x < 1.0, lambda x: None],
)
def test_an_answer_that_is_neither_true_nor_false_is_refused(answer):
    with pytest.raises(EvaluationError, match="constraint returned .*, expected True or False"):
        problem(answer).allows(np.zeros(2))


@pytest.mark.parametrize("answer", [True, np.True_, np.array(True), np.array([True])])
def test_true_may_be_of_python_or_numpy(answer):
    assert problem(lambda x: answer).allows(np.zeros(2))
