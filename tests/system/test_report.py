"""`vbstack report` as a user meets it, on a store of real runs of which some failed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from vbstack import Problem, RunStore, launch

SHORT = {"max_fun_evals": 20}
BAD_START = 1.5
NAME = "<img src=x onerror=alert(1)>"


def fragile(x):
    if abs(x[0] - BAD_START) < 1e-6:
        raise FloatingPointError("the <b>simulator</b> diverged")
    return float(-2 * (x[0] + 1) ** 2)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Runs from three starts; the density fails at the second."""
    path = tmp_path_factory.mktemp("report") / "a store"
    problem = Problem(
        log_density=fragile, plausible_lower_bounds=[-2], plausible_upper_bounds=[2], names=[NAME]
    )
    with pytest.warns(RuntimeWarning, match="run 1: log_density raised"):
        launch(
            problem,
            3,
            store=str(path),
            executor="here",
            seed=1,
            starts=np.array([[-1.0], [BAD_START], [-1.2]]),
            options=SHORT,
            progress=False,
        )
    return path


def vbstack(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "vbstack", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170)


@pytest.mark.slow
def test_the_report_of_a_store_names_its_failures_and_how_to_repeat_it(store):
    assert RunStore(store).state(1).state == "failed"
    # Short runs do not converge: without a posterior that includes them there is nothing to report.
    refused = vbstack("report", store)
    assert refused.returncode == 2
    assert "0 of 2 runs passed the screen" in refused.stderr
    assert vbstack("stack", store, "--all-runs").returncode == 0
    made = vbstack("report", store, "--title", "Short & failing")
    assert made.returncode == 0, made.stderr
    assert "report.html" in made.stdout
    text = (store / "report.html").read_text()
    assert "<title>Short &amp; failing</title>" in text
    assert "the &lt;b&gt;simulator&lt;/b&gt; diverged" in text
    assert NAME not in text
    assert "--runs 3 --seed 1 --engine" in text
    assert "--option max_fun_evals=20" in text
    again = vbstack("report", store)
    assert again.returncode == 1
    assert "--overwrite" in again.stderr


def test_a_directory_that_is_no_store_is_one_clear_line(tmp_path):
    result = vbstack("report", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("vbstack: ")
    assert "store.json cannot be read" in result.stderr
