"""Evaluations apart from their runs: the same runs wherever and however many at a time."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore, launch
from vbstack.launching.back_ends import worker_count
from vbstack.launching.cores import available_cores
from vbstack.launching.executors import outcomes
from vbstack.launching.settings import LaunchSettings
from vbstack.launching.worker import Outcome, Task
from vbstack.runs.plan import Plan

EDGE = 0.2  # of some first points x[0] is larger, of most it is not
BOX: dict[str, Any] = {"plausible_lower_bounds": [-2.0, -2.0], "plausible_upper_bounds": [2.0, 2.0]}


def parabola(x):
    return -0.5 * float(x @ x)


def problem(log_density=parabola, **details: Any):
    return Problem(log_density=log_density, **{**BOX, **details})


def tasks_in(directory, target, count=2, on_error="fail_run", **details):
    options = {"max_fun_evals": 16, "final_components": 2}
    starts = ((-0.1, 0.0), (0.0, 0.1))
    plan = Plan(target.description(), 1, "native", options, starts, on_error=on_error, batch=True)
    return [Task(str(directory), index, plan, **details) for index in range(count)]


def made_on(directory, executor, target, n_workers=None, **details):
    directory.mkdir()
    made = list(
        outcomes(executor, target, tasks_in(directory, target, **details), n_workers=n_workers)
    )
    return made, RunStore(directory).runs()


def assert_same(first, second):
    assert list(first) == list(second)
    for index, run in first.items():
        np.testing.assert_array_equal(run.means, second[index].means)
        one, other = evaluations_of(run), evaluations_of(second[index])
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.values, other.values)


def test_runs_are_the_same_with_any_number_of_workers_of_any_kind(tmp_path):
    def noisy(x, rng):
        return parabola(x) + 0.1 * rng.standard_normal(), 0.1

    target = problem(noisy, noisy=True)
    _, expected = made_on(tmp_path / "here", "here", target)
    for workers in (1, 3):
        outcomes_, runs = made_on(tmp_path / f"{workers}", "local", target, workers)
        assert {one.status for one in outcomes_} == {"finished"}
        assert_same(runs, expected)
    with ThreadPoolExecutor(4) as pool:
        assert_same(made_on(tmp_path / "threads", pool, target)[1], expected)


def test_points_of_a_batch_are_evaluated_at_the_same_time(tmp_path):
    lock, inside, most = threading.Lock(), [0], [0]

    class Counted(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            def counted():
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                try:
                    return fn(*args, **kwargs)
                finally:
                    with lock:
                        inside[0] -= 1

            return super().submit(counted)

    def slow(x):
        time.sleep(0.5)
        return parabola(x)

    with Counted(12) as pool:
        made, _ = made_on(tmp_path / "s", pool, problem(slow), count=1)
    assert [one.status for one in made] == ["finished"]
    assert most[0] == 10


def test_a_local_evaluation_that_hangs_is_killed_and_fails_by_the_rule(tmp_path):
    def hangs(x):
        while x[0] > EDGE:
            time.sleep(0.01)
        return parabola(x)

    begun = time.monotonic()
    limits = {"count": 1, "evaluation_timeout": 0.3}
    (failed,), _ = made_on(tmp_path / "fail", "local", problem(hangs), 4, **limits)
    assert failed.status == "failed"
    assert (
        "longer than evaluation_timeout=0.3 s (its process was killed), at x = " in failed.message
    )
    made, runs = made_on(tmp_path / "floor", "local", problem(hangs), 4, on_error="floor", **limits)
    assert [one.status for one in made] == ["finished"]
    found = evaluations_of(runs[0])
    np.testing.assert_array_equal(np.isneginf(found.values), found.x[:, 0] > EDGE)
    assert np.isneginf(found.values).any()
    assert time.monotonic() - begun < 30


def test_a_thread_that_hangs_is_given_up(tmp_path):
    stop = tmp_path / "stop"

    def hangs(x):
        while x[0] > EDGE and not stop.exists():
            time.sleep(0.01)
        return parabola(x)

    with ThreadPoolExecutor(4) as pool:
        limits = {"count": 1, "evaluation_timeout": 0.3}
        (failed,), _ = made_on(tmp_path / "fail", pool, problem(hangs), **limits)
        stop.touch()
    assert failed.status == "failed"
    assert "(its thread cannot be stopped and goes on)" in failed.message


def test_a_log_density_that_kills_its_process_fails_its_point(tmp_path):
    def dies(x):
        if x[0] > EDGE:
            os._exit(3)
        return parabola(x)

    (failed,), _ = made_on(tmp_path / "fail", "local", problem(dies), 3, count=1)
    assert failed.status == "failed"
    assert "the process that called log_density died twice, with exit code 3" in failed.message
    made, runs = made_on(tmp_path / "floor", "local", problem(dies), 3, count=1, on_error="floor")
    assert [one.status for one in made] == ["finished"]
    found = evaluations_of(runs[0])
    np.testing.assert_array_equal(np.isneginf(found.values), found.x[:, 0] > EDGE)


def test_when_one_point_fails_the_rest_of_its_batch_is_kept(tmp_path):
    def fails(x):
        if x[0] > EDGE:
            raise ZeroDivisionError("my own mistake")
        return parabola(x)

    (failed,), _ = made_on(tmp_path / "s", "local", problem(fails), 3, count=1)
    assert (failed.status, failed.noted) == ("failed", True)
    assert "raised ZeroDivisionError: my own mistake, at x = " in failed.message
    assert "fails" in failed.traceback
    kept = RunStore(tmp_path / "s").journalled(0)
    assert 2 <= len(kept) < 10
    assert all(one.x[0] <= EDGE for one in kept.values())


def test_at_the_deadline_everything_ends_and_journals_stay(tmp_path):
    def slow(x):
        time.sleep(0.2 if x[0] < EDGE else 600)
        return parabola(x)

    begun = time.monotonic()
    made_on(tmp_path / "first", "local", problem(), 4, count=1)
    patience = 2 + 3 * (time.monotonic() - begun)  # depends on what else the machine has to do
    target, store = problem(slow), RunStore(tmp_path / "s")
    store.directory.mkdir()
    tasks = tasks_in(store.directory, target)
    made = outcomes("local", target, tasks, n_workers=20, deadline=time.monotonic() + patience)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        next(made)
    assert time.monotonic() - begun < 2 * patience + 5
    assert all(store.journalled(index) for index in (0, 1))
    assert [state.state for state in store.states()] == ["interrupted"] * 2


def test_a_run_that_takes_too_long_is_stopped(tmp_path):
    def slow(x):
        time.sleep(60)
        return parabola(x)

    target = problem(slow)
    (outcome,) = outcomes(
        "local", target, tasks_in(tmp_path, target, 1), n_workers=10, run_timeout=1
    )
    assert outcome == Outcome(0, "failed", "took longer than the limit of 1 s")


def test_batches_are_for_more_workers_than_runs_and_for_vectorized_log_densities(tmp_path):
    def batch(n_runs, target=None, store=None, **settings):
        where = tmp_path / f"{time.monotonic_ns()}" if store is None else store
        asked = LaunchSettings(target or problem(), n_runs, store=where, seed=1, **settings)
        return asked.plan(RunStore(where), None).batch  # type: ignore[arg-type]

    assert batch(3, n_workers=4)
    assert not batch(4, n_workers=4)
    assert not batch(3, executor="here")
    assert batch(3, target=problem(vectorized=True), executor="here")
    assert not batch(3, n_workers=4, batch=False)
    assert batch(4, n_workers=1, batch=True)
    with ThreadPoolExecutor(3) as pool:
        assert (batch(2, executor=pool), batch(3, executor=pool)) == (True, False)
    kept = tmp_path / "kept"
    assert batch(3, n_workers=4, store=kept)
    assert batch(9, n_workers=4, store=kept)  # what a store has begun with it keeps
    with pytest.raises(ValueError, match="batch: True in the store, False asked for"):
        batch(9, store=kept, batch=False)
    with pytest.raises(ValueError, match="batch='yes' must be True, False or 'auto'"):
        batch(3, batch="yes")
    with pytest.raises(ValueError, match="give batch=… to fit or launch"):
        batch(3, options={"batch": True})


def test_how_many_evaluations_a_back_end_makes_at_once():
    with ThreadPoolExecutor(7) as pool:
        assert worker_count(pool, None) == 7
    assert worker_count("here", 9) == 1
    assert worker_count(None, 9) == 9
    assert worker_count("local", None) == available_cores()


def test_a_launch_with_batches_counts_what_it_pays(tmp_path):
    log = tmp_path / "log"

    def logged(x):
        with Path(log).open("a") as file:
            file.write(f"{x.tolist()}\n")
        return parabola(x)

    options = {"max_fun_evals": 20}
    settings: dict[str, Any] = {"seed": 3, "n_workers": 4, "progress": False}
    runs = launch(problem(logged), 2, store=tmp_path / "s", options=options, **settings)
    assert len(log.read_text().splitlines()) == sum(evaluations_of(run).paid for run in runs)
