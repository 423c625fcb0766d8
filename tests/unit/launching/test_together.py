"""Runs of a vectorized log density in this process: they share calls, and are what they were."""

import time
from typing import Any

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore, fit
from vbstack.launching.executors import outcomes
from vbstack.launching.worker import Task
from vbstack.runs.plan import Plan
from vbstack.verifying import verify


class Counted:
    """A Gaussian that notes how many points each call has."""

    def __init__(self, fails_beyond=np.inf):
        self.sizes, self.fails_beyond = [], fails_beyond

    def __call__(self, points):
        self.sizes.append(len(points))
        if (points[:, 0] > self.fails_beyond).any():
            raise ValueError("too far")
        return -0.5 * np.square(points).sum(axis=1)


def problem(log_density, **details):
    box: dict[str, Any] = {
        "plausible_lower_bounds": [-2.0, -2.0],
        "plausible_upper_bounds": [2.0, 2.0],
    }
    return Problem(log_density=log_density, vectorized=True, **box, **details)


def tasks_in(directory, target, indices, on_error="fail_run"):
    plan = Plan(target.description(), 1, "native", {}, on_error=on_error, batch=True)
    return [Task(str(directory), index, plan) for index in indices]


def test_runs_share_calls_and_are_what_each_is_alone(tmp_path):
    together = Counted()
    target = problem(together)
    made = list(outcomes("here", target, tasks_in(tmp_path, target, range(4))))
    assert sorted(one.index for one in made) == [0, 1, 2, 3]
    runs = RunStore(tmp_path).runs()
    paid = sum(evaluations_of(run).paid for run in runs.values())
    assert sum(together.sizes) == paid
    assert together.sizes[0] == 40
    assert paid / len(together.sizes) > 8
    (tmp_path / "alone").mkdir()
    list(outcomes("here", target, tasks_in(tmp_path / "alone", target, [2])))
    alone = RunStore(tmp_path / "alone").runs()[2]
    np.testing.assert_array_equal(alone.means, runs[2].means)
    np.testing.assert_array_equal(evaluations_of(alone).x, evaluations_of(runs[2]).x)


def test_a_run_that_fails_leaves_the_others(tmp_path):
    target = problem(Counted(fails_beyond=1.9))
    tasks = tasks_in(tmp_path, target, range(4))
    starts_beyond = [i for i, task in enumerate(tasks) if task.plan.start(i)[0] > 1.9]
    ended = {one.index: one for one in outcomes("here", target, tasks)}
    failed = [index for index, one in ended.items() if one.status == "failed"]
    assert set(starts_beyond) <= set(failed)
    assert 0 < len(failed) < 4
    for index in failed:
        assert "raised ValueError: too far, at x = " in ended[index].message


def test_at_the_deadline_runs_end_where_they_wait(tmp_path):
    def slow(points):
        time.sleep(0.3)
        return -0.5 * np.square(points).sum(axis=1)

    target = problem(slow)
    tasks = tasks_in(tmp_path, target, range(2))
    with pytest.raises(TimeoutError):
        list(outcomes("here", target, tasks, deadline=time.monotonic() + 0.8))
    states = RunStore(tmp_path).states()
    assert [state.state for state in states] == ["interrupted"] * 2
    assert all(state.evaluations >= 10 for state in states)
    resumed = {one.index: one for one in outcomes("here", target, tasks)}
    assert all(one.status == "finished" and one.replayed >= 10 for one in resumed.values())


def test_a_fit_of_a_vectorized_log_density_verifies_and_checks_its_store(tmp_path):
    target = problem(Counted())
    settings = {"store": tmp_path / "s", "executor": "here", "seed": 2, "progress": False}
    posterior = fit(target, 2, **settings)
    assert posterior.evidence.log_evidence == pytest.approx(np.log(2 * np.pi), abs=0.05)
    again = fit(target, 3, **settings)
    assert len(again.runs) == 3
    plan = RunStore(tmp_path / "s").read_plan()
    assert plan.batch
    found = verify(posterior, target, 20, executor="here", progress=False)
    assert found.passed
