"""Launching real, short VBMC runs: reproducible everywhere, and nothing is lost or paid twice."""

import fcntl
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from vbstack import Problem, RunStore, Screen, fit, launch

SHORT = {"max_fun_evals": 15, "max_iter": 3, "min_final_components": 5}  # of pyvbmc
SHORT_NATIVE = {"max_fun_evals": 15}


def noisy_density(x, rng, log=None, die_at=None, pause_at=None, pause_while=None, pause=0):
    """A noisy Gaussian that writes a line per call: process and point.

    At the call `die_at` it kills its process; from `pause_at` on it waits while a file is there;
    `pause` seconds it always takes.
    """
    time.sleep(pause)
    if log is not None:
        with Path(log).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # so that each number of calls is seen once
            file.write(f"{os.getpid()} {float(x[0])!r}\n")
            file.seek(0)
            calls = len(file.readlines())
        if calls == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        while pause_at is not None and calls >= pause_at and Path(pause_while).exists():
            time.sleep(0.1)
    return -0.5 * float(x[0] ** 2) + 0.3 * rng.standard_normal(), 0.3


def problem(density=noisy_density, *, noisy=True, **kwargs):
    return Problem(
        log_density=density,
        plausible_lower_bounds=[-2.0],
        plausible_upper_bounds=[2.0],
        noisy=noisy,
        kwargs=kwargs,
    )


def assert_same_runs(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for name in ("weights", "means", "sds", "log_joint", "log_joint_covariance", "start"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        np.testing.assert_array_equal(a.evaluations.x, b.evaluations.x)
        np.testing.assert_array_equal(a.evaluations.values, b.evaluations.values)


def go(directory, n_runs=2, **settings):
    target = settings.pop("target", problem())
    options = SHORT if target.noisy else SHORT_NATIVE
    settings = {"seed": 11, "options": options, "progress": False, **settings}
    return launch(target, n_runs, store=str(directory), **settings)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_runs_on_every_back_end(tmp_path, expected):
    assert_same_runs(go(tmp_path / "one", n_workers=1), expected)
    assert_same_runs(go(tmp_path / "two", n_workers=2), expected)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert_same_runs(go(tmp_path / "pool", executor=pool), expected)


@pytest.mark.slow
def test_dask_gives_the_same_runs(tmp_path, expected):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_same_runs(go(tmp_path, executor=client), expected)


def test_a_killed_run_resumes_by_replay_and_no_point_is_paid_twice(tmp_path, expected):
    log = tmp_path / "calls.txt"
    dying = problem(log=str(log), die_at=12)
    runs = go(tmp_path / "store", 1, target=dying, n_workers=1)  # tries again within the call
    assert_same_runs(runs, expected[:1])
    # The twelfth point was begun but never answered, so it alone is asked for again.
    points = [line.split()[1] for line in log.read_text().splitlines()]
    assert len(points) == len(expected[0].evaluations.values) + 1
    assert len(set(points)) == len(points) - 1


def test_a_finished_run_is_never_made_again(tmp_path, expected):
    first = go(tmp_path, 1)
    stamp = RunStore(tmp_path).path(0, "npz").stat().st_mtime_ns
    both = go(tmp_path, 2)
    assert RunStore(tmp_path).path(0, "npz").stat().st_mtime_ns == stamp
    assert_same_runs(both, expected)
    assert_same_runs(first, expected[:1])


def test_a_journal_that_does_not_fit_is_used_as_known_evaluations(tmp_path, expected):
    store = RunStore(tmp_path)
    store.open(problem(), seed=11, options=SHORT)
    journal = store.journal(0)
    for x, value, sd in zip(
        expected[1].evaluations.x[:6],
        expected[1].evaluations.values[:6],
        expected[1].evaluations.sds[:6],
        strict=True,
    ):
        from vbstack.problem import Evaluation

        journal.append(Evaluation(tuple(x), float(value), float(sd), 0.0))
    journal.close()
    (run,) = go(tmp_path, 1, executor="here", trust_store=True)
    np.testing.assert_array_equal(run.evaluations.x[:6], expected[1].evaluations.x[:6])


def test_fit_goes_from_a_log_density_to_a_posterior(tmp_path):
    box = [-3.0], [3.0]
    target = Problem(
        log_density=lambda x: -0.5 * float(x[0] ** 2),
        plausible_lower_bounds=box[0],
        plausible_upper_bounds=box[1],
    )
    posterior = fit(
        target,
        1,
        store=str(tmp_path),
        seed=0,
        options={"max_fun_evals": 30},
        progress=False,
        screen=Screen(require_converged=False),
    )
    assert posterior.evidence.raw == pytest.approx(0.5 * np.log(2 * np.pi), abs=0.2)
