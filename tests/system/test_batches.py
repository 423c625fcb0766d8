"""Runs that propose batches: killed within one, on Dask, with whatever number of workers."""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore, launch

BOX = {"plausible_lower_bounds": [-2.0, -2.0], "plausible_upper_bounds": [2.0, 2.0]}
OPTIONS = {"max_fun_evals": 30}


def logged(x, log=None, pause=0.0):
    """A Gaussian that writes a line per call; half of the calls take a while."""
    if log is not None:
        with Path(log).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{x.tolist()}\n")
    time.sleep(pause if x[0] > 0 else 0.1 * pause)
    return -0.5 * float(x @ x)


def problem(**kwargs):
    return Problem(
        log_density=logged,
        plausible_lower_bounds=[-2.0, -2.0],
        plausible_upper_bounds=[2.0, 2.0],
        kwargs=kwargs,
    )


def go(directory, target, n_runs=2, **settings):
    settings = {"seed": 4, "options": OPTIONS, "progress": False, "batch": True, **settings}
    return launch(target, n_runs, store=str(directory), **settings)


@pytest.fixture(scope="module")
def never_interrupted(tmp_path_factory):
    return go(tmp_path_factory.mktemp("here"), problem(), executor="here")


def assert_same(runs, expected):
    assert len(runs) == len(expected)
    for run, other in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(run.means, other.means)
        np.testing.assert_array_equal(run.log_joint, other.log_joint)
        for name in ("x", "values"):
            made, wanted = (getattr(evaluations_of(one), name) for one in (run, other))
            np.testing.assert_array_equal(made, wanted)


def calls(log):
    """How often each point was evaluated."""
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def wait_for(condition, seconds=120.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.02)


def within_a_batch(store, log, index):
    """Whether a part of a later batch of the run is finished, and another is under way."""
    journal = store.journalled(index)
    places = sorted(journal)
    running = sum(calls(log).values()) - sum(len(store.journalled(i)) for i in (0, 1))
    return len(journal) > 11 and running >= 2 and places[-1] > 10


def worker_of(store, index):
    """The process that has claimed a run, by the locks that the system knows."""
    inode = store.path(index, "lock").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "FLOCK" in fields and "->" not in fields and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="it finds the process by its lock")
def test_a_run_killed_within_a_batch_pays_nothing_twice(tmp_path, never_interrupted):
    store, log = RunStore(tmp_path / "store"), tmp_path / "log"
    made = []
    target = problem(log=str(log), pause=1.0)
    launching = threading.Thread(
        target=lambda: made.extend(go(store.directory, target, n_workers=20))
    )
    launching.start()
    wait_for(lambda: store.exists() and within_a_batch(store, log, 0))
    victim = worker_of(store, 0)
    assert victim is not None
    assert victim != os.getpid()
    os.kill(victim, signal.SIGKILL)
    launching.join()
    assert_same(made, never_interrupted)
    assert set(calls(log).values()) == {1}


@pytest.mark.slow
def test_a_launcher_killed_within_a_batch_pays_only_what_was_under_way_again(
    tmp_path, never_interrupted
):
    store, log = RunStore(tmp_path / "store"), tmp_path / "log"
    script = f"""
        from tests.system.test_batches import go, problem
        go({str(store.directory)!r}, problem(log={str(log)!r}, pause=1.0), n_workers=20)
        """
    launcher = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    wait_for(lambda: store.exists() and within_a_batch(store, log, 0))
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    wait_for(lambda: all(state.state == "interrupted" for state in store.states()))
    time.sleep(1.5)  # evaluations that were under way end with their processes
    kept = [one.x for index in (0, 1) for one in store.journalled(index).values()]
    before = calls(log)
    assert len(kept) > 11
    target = problem(log=str(log), pause=0.0)
    made = go(store.directory, target, n_workers=20, trust_store=True)
    assert_same(made, never_interrupted)
    after = calls(log)
    assert all(after[str(list(x))] == 1 for x in kept)
    twice = [point for point, count in after.items() if count > 1]
    assert all(after[point] == 2 and before[point] == 1 for point in twice)
    assert len(twice) == sum(before.values()) - len(kept)


@pytest.mark.slow
def test_dask_gives_the_same_runs_and_no_worker_waits(tmp_path, never_interrupted):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=6, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        runs = go(tmp_path / "dask", problem(), executor=client, batch="auto")
    assert RunStore(tmp_path / "dask").read_plan().batch
    assert_same(runs, never_interrupted)
