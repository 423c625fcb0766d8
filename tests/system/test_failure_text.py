"""What a log density says when it fails is shown once, cut to a sensible length."""

import os
import pty
import subprocess
import sys

import pytest

from vbstack import Problem, fit
from vbstack.launching.reasons import Reasons

MODEL = """
from vbstack import Problem

TEXT = "BEGIN" + "x" * 5_000_000 + "END"


def always(x):
    raise ValueError(TEXT)


def at_one_start(x):
    if x[0] == 1.5:
        raise ValueError(TEXT)
    return float(-0.5 * x @ x)


box = dict(plausible_lower_bounds=[-2.0], plausible_upper_bounds=[2.0])
all_runs, one_run = Problem(log_density=always, **box), Problem(log_density=at_one_start, **box)
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "starts.txt").write_text("0.3\n1.5\n-0.4\n")
    return tmp_path


def shown(model, problem, *words, terminal=False):
    """All that `vbstack fit` prints, and its exit code."""
    command = [sys.executable, "-m", "vbstack", "fit", f"model.py:{problem}", "--out", "store"]
    command += [
        "--runs",
        "3",
        "--seed",
        "1",
        "--starts",
        "starts.txt",
        "--engine",
        "native",
        *words,
    ]
    if not terminal:
        done = subprocess.run(command, cwd=model, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr, done.returncode
    mine, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=model, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    try:
        while more := os.read(mine, 65536):
            text += more
    except OSError:  # Linux says that the other side is closed by an error
        pass
    os.close(mine)
    return text.decode(), process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("executor", ["here", "local"])
@pytest.mark.parametrize("problem", ["all_runs", "one_run"])
def test_the_command_line_shows_it_once(model, problem, executor, terminal):
    text, code = shown(model, problem, "--executor", executor, terminal=terminal)
    assert (text.count("BEGIN"), text.count("END")) == (1, 1)
    assert code == (2 if problem == "all_runs" else 0)
    assert text.count("xxxx" * 100) <= 1
    assert len(text) < 20_000
    assert "log_density raised ValueError" in text
    assert "1.5" in text  # the point
    if problem == "all_runs":
        assert "(as run 0)" in text
        assert "raise ValueError(TEXT)" in text  # where in the user's code
    else:
        assert "1 dropped: failed: log_density raised ValueError (posterior.dropped" in text


@pytest.mark.parametrize("problem", ["all_runs", "one_run"])
def test_without_progress_it_is_in_the_error_or_warning(model, problem):
    text, _ = shown(model, problem, "--executor", "here", "--quiet")
    assert (text.count("BEGIN"), text.count("END")) == (1, 1)
    assert ".py:" not in text.partition("Where it failed")[0]  # a line for people, not Python's


@pytest.mark.parametrize("progress", [False, True])
def test_fit_shows_it_once(tmp_path, capfd, progress):
    def log_density(x):
        if x[0] == 1.5:
            raise ValueError("BEGIN" + "x" * 5_000_000 + "END")
        return float(-0.5 * x @ x)

    problem = Problem(
        log_density=log_density, plausible_lower_bounds=[-2.0], plausible_upper_bounds=[2.0]
    )
    with pytest.warns(RuntimeWarning, match="1 of 3 runs were not made") as caught:
        posterior = fit(
            *(problem, 3),
            store=tmp_path,
            seed=1,
            starts=[[0.3], [1.5], [-0.4]],
            engine="native",
            executor="here",
            progress=progress,
        )
    text = capfd.readouterr().err + "".join(str(w.message) for w in caught) + posterior.summary()
    assert (text.count("BEGIN"), text.count("END")) == (1, 1)
    assert "BEGIN" in posterior.dropped[0].reason
    assert (tmp_path / "run-00001.failed.json").exists()


def test_a_reason_is_given_in_full_once():
    reasons = Reasons()
    assert reasons.line(0, "f raised E: text, at x = [1.0]") == "f raised E: text, at x = [1.0]"
    assert (
        reasons.line(2, "f raised E: text, at x = [2.0]") == "f raised E, at x = [2.0] (as run 0)"
    )
    assert reasons.line(0, "f raised E: text, at x = [1.0]") == "f raised E, at x = [1.0] (above)"
    assert reasons.line(3, "took too long") == "took too long"
    many = reasons.listing({index: f"reason {index}" for index in range(30)})
    assert many.count("\n") == 21
    assert many.endswith("and 10 more")
