"""What is wrong with a call is said before anything is written or paid."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import numpy as np
import pytest

from vbstack import (
    Problem,
    RunStore,
    Screen,
    StackedPosterior,
    StoreMismatch,
    TooFewRuns,
    fit,
    launch,
)
from vbstack.output.report import store_report

OPTIONS = {"max_fun_evals": 12, "final_components": 2}


def problem(density, **settings):
    bounds = {"plausible_lower_bounds": [-2.0], "plausible_upper_bounds": [2.0]}
    return Problem(log_density=density, **{**bounds, **settings})


def parabola(x):
    return -0.5 * float(x[0] ** 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "foo"}, "weights='foo'"),
        ({"evaluations": "foo"}, "evaluations='foo'"),
        ({"solver": "foo"}, "solver='foo'"),
        ({"tolerance": -1}, "tolerance=-1"),
        ({"screen": "no"}, "screen is a str"),
        ({"engine": "mcmc"}, "engine='mcmc'"),
        ({"engine": "native", "options": {"max_fun_eval": 3}}, "no option"),
        ({"engine": "native", "options": {"max_fun_evals": "many"}}, "max_fun_evals='many'"),
        ({"engine": "native", "options": {"tolerance": "low"}}, "tolerance='low'"),
        ({"engine": "pyvbmc", "options": {"max_fun_eval": 3}}, "max_fun_eval does not exist"),
        ({"executor": "slurm"}, "executor='slurm' is not known"),
        ({"n_workers": 0}, "n_workers=0"),
        ({"n_workers": -1}, "n_workers=-1"),
        ({"n_workers": True}, "n_workers=True"),
        ({"n_workers": 1.5}, "n_workers=1.5"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "1 h"}, "timeout='1 h'"),
        ({"run_timeout": -3}, "run_timeout=-3"),
        ({"starts": "here"}, "starts='here'"),
        ({"starts": [[0.0]]}, "expected \\(2, 1\\)"),
        ({"starts": [[0.0], [11.0]]}, "point 1, \\[11.0\\], is not within the hard bounds"),
        ({"on_error": "hope"}, "on_error='hope'"),
        ({"seed": -1}, "seed=-1"),
        ({"n_run": 3}, "n_run"),
        ({"gain_tolerance": "low"}, "gain_tolerance='low'"),
        ({"gain_tolerance": float("nan")}, "gain_tolerance=nan"),
        ({"max_runs": "many"}, "max_runs='many'"),
        ({"announce": 3}, "announce is a int"),
    ],
)
def test_a_refused_call_writes_nothing_and_asks_nothing(tmp_path, settings, message):
    def never(x):
        raise AssertionError

    target = problem(never, lower_bounds=[-10.0], upper_bounds=[10.0])
    with pytest.raises((ValueError, TypeError), match=message):
        fit(target, 2, store=tmp_path / "store", progress=False, **settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [fit, launch])
def test_a_bare_function_is_not_a_problem(tmp_path, call):
    with pytest.raises(TypeError, match="the problem is a function, not a vbstack.Problem"):
        call(parabola, 2, store=tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("executor", ["local", "here"])
def test_a_function_that_fails_everywhere_fails_at_once(tmp_path, executor):
    log = tmp_path / "calls"

    def mistaken(x):
        with log.open("a") as file:
            file.write("call\n")
        return undefined_name + x  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(TooFewRuns) as failed:
        launch(problem(mistaken), 10, store=tmp_path / "store", progress=False, executor=executor)
    text = str(failed.value)
    assert "raised NameError" in text
    assert "at x = [" in text
    assert text.count("Where it failed") == 1
    assert "undefined_name + x" in text
    assert "run 9: not begun (as run 3)" in text
    assert len(log.read_text().splitlines()) == 3


@pytest.mark.parametrize("engine", ["native", "pyvbmc"])
def test_the_first_evaluation_is_the_first_of_its_run(tmp_path, engine):
    calls = []

    def counted(x):
        calls.append(float(x[0]))
        return parabola(x)

    options = OPTIONS if engine == "native" else {"max_fun_evals": 12, "max_iter": 2}
    settings = {"engine": engine, "options": options, "seed": 3, "executor": "here"}
    (run,) = launch(problem(counted), 1, store=tmp_path, progress=False, **settings)
    assert run.evaluations is not None
    assert run.start is not None
    np.testing.assert_array_equal(run.evaluations.x[:, 0], calls)
    assert calls[0] == run.start[0]


def sometimes(x):
    if x[0] == -1.5:
        raise ValueError("too low")
    return parabola(x)


def made(tmp_path, **settings):
    asked = {"store": tmp_path, "progress": False, "executor": "here", "seed": 5}
    keep = Screen(require_converged=False, max_variance=np.inf)
    return fit(problem(sometimes), 3, options=OPTIONS, screen=keep, **{**asked, **settings})


def test_failed_runs_are_warned_of_and_among_the_dropped(tmp_path):
    starts = [[0.5], [-1.5], [1.0]]
    with pytest.warns(
        RuntimeWarning, match="of 3 runs were not made:\n  run 1: log_density raised"
    ):
        posterior = made(tmp_path, starts=starts, executor="local", n_workers=1)
    failed = {d.index: d.reason for d in posterior.dropped}
    assert failed[1].startswith("failed: log_density raised ValueError: too low, at x = [-1.5")
    assert set(posterior.kept) | set(failed) == {0, 1, 2}
    assert "    1 dropped: failed: log_density raised" in posterior.summary()
    posterior.save(tmp_path / "posterior.npz")
    again = StackedPosterior.load(tmp_path / "posterior.npz")
    assert again.dropped == posterior.dropped
    assert again.kept == posterior.kept
    report = store_report(tmp_path).read_text()
    assert report.count("too low, at x") == 1
    assert "stacked again" not in report


def exits_in_the_second(x):
    """The run that starts at exactly −0.5 ends the process, the other one does not."""
    if x[0] == -0.5:
        sys.exit("that is all")
    return parabola(x)


@pytest.mark.parametrize("executor", ["local", "here"])
def test_an_exit_in_the_function_costs_its_run_only(tmp_path, executor):
    with pytest.warns(RuntimeWarning, match="raised SystemExit: that is all"):
        runs = launch(
            problem(exits_in_the_second),
            2,
            store=tmp_path,
            starts=[[0.5], [-0.5]],
            options=OPTIONS,
            progress=False,
            executor=executor,
        )
    assert len(runs) == 1


SCRIPT = """
import time
from vbstack import Problem, launch

def log_density(x):
    print("called", flush=True)
    {body}
    return -0.5 * float(x[0] ** 2)

box = {{"plausible_lower_bounds": [-1.0], "plausible_upper_bounds": [1.0]}}
problem = Problem(log_density=log_density, **box)
try:
    launch(problem, 2, store="store", seed=1, executor="{executor}", n_workers=1)
except BaseException as error:
    print("ended", type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("executor", ["here", "local"])
@pytest.mark.parametrize(
    "body", ["time.sleep(60)", "try: time.sleep(60)\n    except BaseException: pass"]
)
def test_a_real_interrupt_stops_everything_and_keeps_everything(tmp_path, executor, body):
    script = textwrap.dedent(SCRIPT).format(body=body, executor=executor)
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "called\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert "ended KeyboardInterrupt" in output, output + errors
    assert "interrupted; everything so far is kept" in errors
    assert RunStore(tmp_path / "store").failure(0) is None


def test_an_interrupt_that_the_function_raises_itself_is_its_failure(tmp_path):
    def interrupting(x):
        raise KeyboardInterrupt

    with pytest.raises(TooFewRuns, match="raised KeyboardInterrupt"):
        launch(problem(interrupting), 1, store=tmp_path, progress=False, executor="here")


def test_a_function_that_cannot_be_sent_is_refused_before_the_store_is_made(tmp_path):
    lock = threading.Lock()

    def locked(x):
        with lock:
            return parabola(x)

    with pytest.raises(TypeError, match="cannot be sent to another process"):
        fit(problem(locked), 2, store=tmp_path / "store", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_changes_the_directory_does_not_move_the_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def elsewhere(x):
        os.chdir("/")
        return parabola(x)

    found = launch(
        problem(elsewhere), 2, store="store", options=OPTIONS, executor="here", progress=False
    )
    assert len(found) == 2


def test_a_time_limit_that_ends_the_check_of_the_model_is_said(tmp_path):
    go = partial(launch, store=tmp_path, options=OPTIONS, executor="here", progress=False)
    go(problem(parabola), 1)
    with pytest.raises(StoreMismatch, match="could not be evaluated again: the time limit"):
        go(problem(parabola), 2, timeout=1e-9)
