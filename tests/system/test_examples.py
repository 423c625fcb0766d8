"""The examples run as a user would run them, with real VBMC runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: str, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_own_runs_are_stacked():
    """One real VBMC run with a bounded parameter, from the log density to the summary."""
    output = run("examples.stack_pyvbmc_runs", "1")
    assert "Stack of 1 runs" in output
    assert "rate" in output


def test_the_demo_prints_summaries_and_draws_its_figure(tmp_path):
    output = run("examples.demo", cwd=tmp_path)
    assert output.count("True log evidence") == 2
    assert output.count("certified") == 2
    assert (tmp_path / "demo-results" / "demo.png").stat().st_size > 50_000
