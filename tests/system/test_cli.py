"""The command line as a user meets it: real processes, exit codes, one clear line per mistake."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import RunStore

SHORT = [
    *("--option", "max_fun_evals=20", "--option", "max_iter=4"),
    *("--option", "min_final_components=5"),
]
MODEL = """
import time
from pathlib import Path
import numpy as np
from vbstack import Problem

def slow(x, rng):
    with Path("calls.txt").open("a") as file:
        file.write(f"{float(x[0])!r}\\n")
    time.sleep(0.05)
    return -0.5 * float(x[0] ** 2) + 0.2 * rng.standard_normal(), 0.2

problem = Problem(
    log_density=slow, plausible_lower_bounds=[-2.0], plausible_upper_bounds=[2.0],
    names=("rate",), noisy=True,
)
number = 5
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def heed_ctrl_c():
    """A shell starts background jobs with SIGINT ignored, and the tests may be one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "vbstack", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )


def run(folder, *arguments):
    process = start(folder, *arguments)
    output, errors = process.communicate(timeout=170)
    return process.returncode, output, errors


def wait_for_calls(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        calls = folder / "calls.txt"
        if calls.exists() and len(calls.read_text().splitlines()) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the runs did not start")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "model.py:nothing", "--out", "s"], "has no attribute 'nothing'"),
        (["fit", "model.py:number", "--out", "s"], "is a int, not a vbstack.Problem"),
        (["fit", "missing.py:problem", "--out", "s"], "does not exist"),
        (["fit", "problem", "--out", "s"], "should read module:attribute"),
        (["fit", "model.py:problem", "--out", "s", "--runs", "many"], "a number or auto"),
        (["fit", "model.py:problem", "--out", "s", "--option", "x"], "should read name=value"),
        (["import", "model.py", "--out", "s"], "--trust-pickles"),
        (["status", "nowhere"], "cannot be read"),
    ],
)
def test_mistakes_end_in_one_line_and_code_1(folder, arguments, message):
    code, _, errors = run(folder, *arguments)
    assert code == 1
    assert message in errors
    assert "Traceback" not in errors
    assert len(errors.strip().splitlines()) == 1


def test_no_runs_is_code_2(folder):
    code, _, errors = run(folder, "stack", "empty")
    assert code == 2
    assert "no runs were given" in errors


@pytest.mark.slow
def test_a_killed_launcher_and_ctrl_c_lose_nothing(folder):
    """SIGKILL the launcher, interrupt the next, let the third finish: no point is paid twice."""
    fit = ["fit", "model.py:problem", "--out", "store", "--runs", "1", "--seed", "3", *SHORT]
    fit += ["--workers", "1"]  # with more, the first points are evaluated side by side
    killed = start(folder, *fit)
    wait_for_calls(folder, 5)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    interrupted = start(folder, *fit)
    wait_for_calls(folder, 13)
    os.killpg(interrupted.pid, signal.SIGINT)
    _, errors = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, errors
    assert "everything" in errors
    before = RunStore(folder / "store").journal(0).evaluations
    assert len(before) >= 10
    states = json.loads(run(folder, "status", "store", "--json")[1])
    assert states[0]["state"] == "interrupted"

    code, output, errors = run(folder, "run", "model.py:problem", "--out", "store",
                               "--index", "0", "--seed", "3", *SHORT)  # fmt: skip
    assert code == 0, errors
    (finished,) = RunStore(folder / "store").runs().values()
    points = (folder / "calls.txt").read_text().splitlines()
    # Each stop may have cost the one evaluation that was under way, and each call that went on made
    # one again to see that it is the same log density.
    assert len(points) <= len(evaluations_of(finished).values) + 4
    values = [entry.value for entry in before]
    np.testing.assert_array_equal(evaluations_of(finished).values[: len(before)], values)
    code, output, _ = run(folder, "stack", "store", "--all-runs", "--json")
    assert code == 0
    assert json.loads(output)["names"] == ["rate"]


def test_two_launchers_share_a_store_and_no_run_is_done_twice(folder):
    command = ["run", "model.py:problem", "--out", "store", "--index", "0", "--seed", "3"]
    command += SHORT
    first = start(folder, *command)
    wait_for_calls(folder, 3)
    code, _, errors = run(folder, *command)
    assert code == 2
    assert "another process works on it" in errors
    _, errors = first.communicate(timeout=170)
    assert first.returncode == 0, errors
    (finished,) = RunStore(folder / "store").runs().values()
    calls = (folder / "calls.txt").read_text().splitlines()
    assert len(calls) == len(evaluations_of(finished).values)


def test_doctor_reports(folder):
    code, output, _ = run(folder, "doctor", "--json")
    assert code == 0
    assert json.loads(output)["can send functions"] is True


@pytest.mark.slow
def test_a_terminal_shows_a_live_table_with_the_stacked_elbo(folder):
    """Under a real pseudo-terminal: one line per run, and the stack of the finished ones."""
    arguments = ["fit", "model.py:problem", "--out", "store", "--runs", "1", *SHORT]
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, 160))
    process = subprocess.Popen(
        [sys.executable, "-m", "vbstack", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
    )
    os.close(terminal)
    shown = b""
    while chunk := _read(master):
        shown += chunk
    os.close(master)
    process.wait(timeout=60)
    text = shown.decode()
    for part in ("evaluations", "iteration", "running", "finished"):
        assert part in text
    assert "no run can be stacked yet" in text  # a run as short as this one does not converge


def _read(handle):
    try:
        return os.read(handle, 65536)
    except OSError:  # the other side of a pseudo-terminal is closed
        return b""


def test_a_constraint_that_fails_ends_in_one_line_and_escapes_are_not_printed(tmp_path):
    text = MODEL.replace("noisy=True,", "noisy=True, constraint=forbid,")
    forbid = "def forbid(x):\n    raise RuntimeError('\\x1b[31mno')\n\n"
    (tmp_path / "model.py").write_text(forbid + text)
    command = ["-m", "vbstack", "fit", "model.py:problem", "--out", "store"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("vbstack: constraint raised RuntimeError")
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()
