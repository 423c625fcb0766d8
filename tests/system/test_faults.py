"""What can go wrong, with real processes: each fault costs what it must, and no more."""

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from tests.system.test_launch import SHORT_NATIVE, assert_same_runs, go, problem
from vbstack import Evaluation, RunStore, Screen, TooFewRuns, stack

OLD = Path(__file__).parents[1] / "data" / "0.1.0" / "store"


def exits(x):
    os._exit(3)


def hangs(x):
    time.sleep(600)


def raises(x):
    raise ZeroDivisionError("my own mistake")


def is_nan(x):
    return np.nan


def is_infinite(x):
    return np.inf


def is_minus_infinite(x):
    return -np.inf


def is_a_vector(x):
    return np.zeros(3)


def is_a_pair(x):
    return -1.0, 0.5


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (exits, "process died"),
        pytest.param(hangs, "longer than the limit", marks=pytest.mark.slow),
        (raises, "raised ZeroDivisionError: my own mistake"),
        (is_nan, "returned nan"),
        (is_infinite, "returned inf"),
        (is_minus_infinite, "evaluations are outside the support"),
        (is_a_vector, "not single numbers"),
        (is_a_pair, "expected a single number because noisy=False"),
    ],
)
def test_a_function_that_fails_costs_its_run_and_says_where(tmp_path, density, message):
    with pytest.raises(TooFewRuns, match=message):
        go(tmp_path, 1, target=problem(density, noisy=False), run_timeout=8)
    failure = RunStore(tmp_path).failure(0)
    assert failure is not None
    assert message in failure["message"]
    if density not in (exits, hangs):
        assert len(failure["x"]) == 1
    assert RunStore(tmp_path).state(0).state == "failed"


FORTY = {"max_fun_evals": 40}


def fails_beyond(x, limit):
    return np.nan if abs(x[0]) > limit else -0.5 * float(x[0] ** 2)


def test_floored_evaluations_are_counted_and_shown(tmp_path):
    target = problem(fails_beyond, noisy=False, limit=1.7)
    (run,) = go(tmp_path, 1, target=target, executor="here", on_error="floor", seed=5)
    assert 0 < run.floored <= 0.2 * len(evaluations_of(run).values)
    posterior = stack([run], screen=Screen(require_converged=False, max_variance=np.inf))
    assert f"{run.floored} failed evaluations were replaced" in posterior.summary()


def fails_here_and_there(x):
    return np.nan if int(1e6 * abs(x[0])) % 3 == 0 else -0.5 * float(x[0] ** 2)


def test_many_failures_without_a_region_of_their_own_fail_the_run(tmp_path):
    target = problem(fails_here_and_there, noisy=False)
    with pytest.raises(TooFewRuns, match="more than 20%, and not in a region of their own"):
        go(tmp_path, 1, target=target, executor="here", on_error="floor", options=FORTY)


def test_many_failures_in_a_region_of_their_own_are_outside_the_support(tmp_path):
    target = problem(fails_beyond, noisy=False, limit=0.4)
    (run,) = go(tmp_path, 1, target=target, executor="here", on_error="floor", options=FORTY)
    assert run.floored > 0.2 * run.evaluations.size
    assert np.array_equal(run.evaluations.outside, np.abs(run.evaluations.x[:, 0]) > 0.4)


def test_a_time_limit_returns_what_is_finished(tmp_path, expected, capfd):
    target = problem(pause=0.1)  # the first run alone takes longer than the limit
    with pytest.warns(RuntimeWarning, match="run 1: was stopped by the time limit"):
        runs = go(tmp_path, target=target, executor="here", timeout=1, progress=True)
    assert_same_runs(runs, expected[:1])
    assert "the time limit is reached" in capfd.readouterr().err


@pytest.mark.slow
def test_a_time_limit_stops_the_processes_and_the_run_continues_later(tmp_path, expected):
    waiting, log = tmp_path / "waiting", tmp_path / "calls"
    waiting.touch()
    target = problem(log=str(log), pause_at=8, pause_while=str(waiting))
    with pytest.raises(TooFewRuns, match="run 0: was stopped by the time limit"):
        go(tmp_path / "store", 1, target=target, timeout=15, batch=False)
    for pid in {int(line.split()[0]) for line in log.read_text().splitlines()}:
        assert not Path(f"/proc/{pid}").exists()
    waiting.unlink()
    assert_same_runs(go(tmp_path / "store", 1, target=target), expected[:1])
    made = len(evaluations_of(expected[0]).values)
    # The one under way when it was stopped, and one to see that it is the same log density.
    assert len(log.read_text().splitlines()) <= made + 2


@pytest.mark.slow
def test_a_dask_worker_is_killed_and_its_run_is_done_elsewhere(tmp_path, expected):
    distributed = pytest.importorskip("distributed")
    target = problem(log=str(tmp_path / "calls"), die_at=20)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_same_runs(go(tmp_path / "store", target=target, executor=client), expected)
    lines = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    made = sum(len(evaluations_of(run).values) for run in expected)
    assert len(lines) == made + 1  # only the point under way when the worker died is asked again
    assert len({pid for pid, _ in lines}) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["truncated", "foreign", "flipped"])
def test_a_damaged_run_file_is_set_aside_said_so_and_made_again(tmp_path, expected, capfd, spoil):
    go(tmp_path, 1)
    path = RunStore(tmp_path).path(0, "npz")
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "truncated": content[:middle],
            "foreign": b"something else",
            "flipped": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
        }[spoil]
    )
    assert_same_runs(go(tmp_path, 1, progress=True), expected[:1])
    assert "it was renamed run-00000.damaged-" in capfd.readouterr().err


namespaces = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode
    != 0,
    reason="this machine does not allow a mount namespace of one's own",
)

SCRIPT = """
import sys
from pathlib import Path
from tests.system.test_faults import fills_the_disk
from tests.system.test_launch import go, problem
from vbstack import RunStore, TooFewRuns

here = Path(sys.argv[1])
"""


def fills_the_disk(x, rng, log, filler):
    """The noisy density of the other tests; at its eighth call the disk becomes full."""
    from tests.system.test_launch import noisy_density

    if Path(log).exists() and len(Path(log).read_text().splitlines()) == 7:
        with Path(filler).open("wb") as file:
            while True:
                try:
                    os.write(file.fileno(), bytes(4096))
                except OSError:
                    break
    return noisy_density(x, rng, log)


def in_a_namespace(folder, setup, script):
    """Run a script where `disk` is a small file system of its own; returns its output."""
    (folder / "disk").mkdir()
    (folder / "script.py").write_text(SCRIPT + textwrap.dedent(script))
    command = f"{setup} && exec {sys.executable} {folder}/script.py {folder}"
    done = subprocess.run(
        ["unshare", "-Urm", "bash", "-c", command],
        env={**os.environ, "PYTHONPATH": f"{Path.cwd()}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@namespaces
def test_a_full_disk_fails_the_run_and_nothing_is_paid_twice_afterwards(tmp_path, expected):
    output = in_a_namespace(
        tmp_path,
        f"mount -t tmpfs -o size=400k tmpfs {tmp_path}/disk",
        """
        import shutil
        store, filler, log = here / "disk/store", here / "disk/filler", here / "calls"
        target = problem(fills_the_disk, log=str(log), filler=str(filler))
        try:
            go(store, 1, target=target, batch=False)
        except TooFewRuns as error:
            print(error)
        filler.unlink()
        go(store, 1, target=target, batch=False)
        shutil.copytree(store, here / "copy")
        """,
    )
    assert "cannot be written (No space left on device): free some space" in output
    (run,) = RunStore(tmp_path / "copy").runs().values()
    assert_same_runs([run], expected[:1])
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) <= len(evaluations_of(run).values) + 1  # the one that could not be written


@pytest.mark.slow
@namespaces
def test_a_read_only_store_is_refused_before_anything_is_paid_but_can_be_read(tmp_path):
    output = in_a_namespace(
        tmp_path,
        f"mount -t tmpfs -o size=4m tmpfs {tmp_path}/disk",
        """
        import subprocess
        from vbstack import Screen, stack
        store, log = here / "disk/store", here / "calls"
        target = problem(log=str(log))
        go(store, 1, target=target)
        subprocess.run(["mount", "-o", "remount,ro", str(here / "disk")], check=True)
        paid = log.read_text()
        for where, n_runs in ((store, 2), (here / "disk/new", 1)):
            try:
                go(where, n_runs, target=target)
            except OSError as error:
                print("refused:", error)
        assert log.read_text() == paid
        finished = go(store, 1, target=target)
        assert RunStore(store).state(0).state == "finished"
        print("stacked", len(stack(finished, screen=Screen(require_converged=False)).runs))
        """,
    )
    assert output.count("refused: the store") == 2
    assert output.count("Read-only file system") == 2
    assert "stacked 1" in output


@pytest.mark.slow
def test_a_killed_worker_leaves_the_other_runs_alone(tmp_path, expected):
    """One of two processes is killed; its run is tried again, and goes on from its journal."""
    log = tmp_path / "calls"
    target = problem(log=str(log), die_at=5)
    assert_same_runs(go(tmp_path / "store", target=target, n_workers=2), expected)
    made = sum(len(evaluations_of(run).values) for run in expected)
    assert len(log.read_text().splitlines()) == made + 1  # the one under way


def test_a_worker_that_dies_twice_is_reported_and_an_old_reason_does_not_hide_it(tmp_path):
    target = problem(exits, noisy=False)
    store = RunStore(tmp_path)
    store.open(target, engine="native", seed=11, options=SHORT_NATIVE)
    store.save_failure(0, {"message": "an old reason"})
    with pytest.raises(TooFewRuns, match="its process died"):
        go(tmp_path, 1, target=target)
    failure = store.failure(0)
    assert failure is not None
    assert "its process died" in failure["message"]


def test_a_store_with_a_damaged_run_is_shown_stacked_and_reported_without_it(tmp_path, capfd):
    store = RunStore(shutil.copytree(OLD, tmp_path / "store"))
    path = store.path(1, "npz")
    path.write_bytes(path.read_bytes()[:500])
    before = {p.name: p.read_bytes() for p in store.directory.iterdir()}
    for command in ("status", "report", "stack"):
        done = subprocess.run(
            [sys.executable, "-m", "vbstack", command, str(store.directory)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "run-00001.npz" in done.stdout + done.stderr
    after = {p.name: p.read_bytes() for p in store.directory.iterdir()}
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {"report.html", "posterior.npz"}
    assert set(before) <= set(after)


def test_a_damaged_line_of_a_journal_is_said_and_only_its_evaluation_is_made_again(tmp_path, capfd):
    log = tmp_path / "calls"
    target, store = problem(log=str(log)), RunStore(tmp_path / "store")
    (run,) = go(store.directory, 1, target=target, n_workers=1)
    made = evaluations_of(run)
    store.path(0, "npz").unlink()  # as if it had been killed after twelve evaluations
    with store.journal(0) as journal:
        sds = made.values if made.sds is None else made.sds
        for x, value, sd in zip(made.x[:12], made.values[:12], sds[:12], strict=True):
            journal.append(Evaluation(tuple(x), float(value), float(sd), 0.1))
    path = store.path(0, "journal")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"e", b"f", 1)
    path.write_bytes(b"".join(lines))
    before = len(log.read_text().splitlines())
    (again,) = go(store.directory, 1, target=target, n_workers=1, progress=True, trust_store=True)
    assert "a damaged line was kept in run-00000.journal.damaged-1" in capfd.readouterr().err
    assert len(log.read_text().splitlines()) - before == made.size - 12 + 1
    np.testing.assert_array_equal(evaluations_of(again).values, made.values)
