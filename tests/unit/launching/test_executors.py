"""`outcomes`: every task ends in an outcome or in a clear error, on any back end."""

import os
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore
from vbstack.launching.executors import outcomes
from vbstack.launching.worker import Outcome, Task
from vbstack.runs.plan import Plan


def parabola(x):
    return -0.5 * float(x[0] ** 2)


def dies(x):
    os._exit(3)


def problem(log_density=parabola):
    return Problem(
        log_density=log_density, plausible_lower_bounds=[-2.0], plausible_upper_bounds=[2.0]
    )


def tasks_in(directory, indices=(0, 1, 2)):
    options = {"max_fun_evals": 10, "final_components": 1}
    plan = Plan(problem().description(), 1, "native", options)
    return [Task(str(directory), index, plan) for index in indices]


class Scripted(Executor):
    """An executor whose futures do what they are told: pending until somebody sets a result."""

    def __init__(self, ended: dict[int, Any] | None = None):
        self.ended = ended or {}  # results or exceptions by index
        self.futures: dict[int, Future[Any]] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        _, task = args  # the packed problem comes first
        future = self.futures[task.index] = Future()
        if task.index in self.ended:
            self.end(task.index, self.ended[task.index])
        return future

    def end(self, index, result):
        if isinstance(result, Exception):
            self.futures[index].set_exception(result)
        else:
            self.futures[index].set_result(result)


@pytest.mark.parametrize("executor", ["slurm", 3, object])
def test_an_unknown_executor_is_refused_with_what_there_is(tmp_path, executor):
    with pytest.raises(TypeError) as error:
        next(outcomes(executor, problem(), tasks_in(tmp_path)))
    assert f"executor={executor!r} is not known; use 'local', 'here'" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_here_runs_are_made_in_order_and_only_when_asked_for(tmp_path):
    made = outcomes("here", problem(), tasks_in(tmp_path, (2, 0, 1)))
    assert next(made) == Outcome(2, "finished")
    assert list(RunStore(tmp_path).runs()) == [2]
    assert [outcome.index for outcome in made] == [0, 1]
    assert list(RunStore(tmp_path).runs()) == [0, 1, 2]


def test_here_a_run_that_fails_is_an_outcome_and_the_next_one_is_made(tmp_path):
    def fails_at_first(x):
        if not RunStore(tmp_path).failure(0):
            raise ZeroDivisionError("my own mistake")
        return parabola(x)

    first, second = outcomes("here", problem(fails_at_first), tasks_in(tmp_path, (0, 1)))
    assert first.status == "failed"
    assert "raised ZeroDivisionError: my own mistake" in first.message
    assert second == Outcome(1, "finished")


def test_here_nothing_is_begun_after_the_deadline(tmp_path):
    with pytest.raises(TimeoutError):
        next(outcomes("here", problem(), tasks_in(tmp_path), deadline=time.monotonic() - 1))
    assert RunStore(tmp_path).states() == []


def test_at_the_deadline_tasks_that_wait_are_taken_back():
    executor = Scripted({1: Outcome(1, "finished")})
    made = outcomes(executor, problem(), tasks_in("nowhere"), deadline=time.monotonic() + 0.05)
    assert next(made) == Outcome(1, "finished")
    with pytest.raises(TimeoutError):
        next(made)
    assert [executor.futures[i].cancelled() for i in (0, 1, 2)] == [True, False, True]


def test_tasks_that_wait_are_taken_back_when_nobody_wants_the_rest():
    executor = Scripted({0: Outcome(0, "finished")})
    made: Any = outcomes(executor, problem(), tasks_in("nowhere"))
    next(made)
    made.close()
    assert [executor.futures[i].cancelled() for i in (0, 1, 2)] == [False, True, True]


def test_outcomes_come_in_the_order_in_which_runs_end():
    executor = Scripted({2: Outcome(2, "finished")})
    made = outcomes(executor, problem(), tasks_in("nowhere"))
    order = [next(made).index]
    for index in (0, 1):
        executor.end(index, Outcome(index, "finished"))
        order.append(next(made).index)
    assert order == [2, 0, 1]
    assert list(made) == []


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        (BrokenProcessPool("it was killed"), "its process died: BrokenProcessPool: it was killed"),
        (TimeoutError(), "took longer than the limit of 3 s"),
        ("no outcome", "'no outcome'"),
    ],
)
def test_whatever_an_executor_gives_back_is_an_outcome_of_its_run(ended, message):
    executor = Scripted({0: ended, 1: Outcome(1, "finished")})
    made = outcomes(executor, problem(), tasks_in("nowhere", (0, 1)), run_timeout=3)
    assert set(made) == {Outcome(0, "failed", message), Outcome(1, "finished")}


def test_a_process_of_an_executor_that_dies_fails_its_run(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        (outcome,) = outcomes(pool, problem(dies), tasks_in(tmp_path, (4,)))
    assert (outcome.index, outcome.status) == (4, "failed")
    assert outcome.message.startswith("its process died: BrokenProcessPool")
    assert RunStore(tmp_path).states()[0].state != "finished"


def test_any_executor_gives_the_runs_that_are_made_here(tmp_path):
    """Functions travel as bytes, so one of this very test does."""
    target = problem(lambda x: parabola(x))
    with ThreadPoolExecutor(1) as pool:
        for name, executor in (("here", "here"), ("pool", pool)):
            (tmp_path / name).mkdir()
            made = outcomes(executor, target, tasks_in(tmp_path / name, (0,)))
            assert list(made) == [Outcome(0, "finished")]
    first, second = (RunStore(tmp_path / name).runs()[0] for name in ("here", "pool"))
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(evaluations_of(first).x, evaluations_of(second).x)


def test_no_tasks_have_no_outcomes():
    for executor in ("here", Scripted()):
        assert list(outcomes(executor, problem(), [])) == []
