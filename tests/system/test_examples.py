"""The examples run as a user would run them, with real VBMC runs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from examples import (
    fit_from_log_density,
    importance_sampling,
    stack_pyvbmc_runs,
)
from vbstack import RunStore, Screen, stack

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: str, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
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


def test_own_runs_are_stacked(monkeypatch):
    """A real, short VBMC run with a bounded parameter, from the log density to the summary."""
    monkeypatch.setattr(stack_pyvbmc_runs, "OPTIONS", {**stack_pyvbmc_runs.OPTIONS, **SHORT})
    run_of_mine = stack_pyvbmc_runs.one_run(0)
    posterior = stack([run_of_mine], screen=Screen(require_converged=False))
    assert posterior.names == ("offset", "rate")
    assert np.all(posterior.sample(100, seed=0)[:, 1] > 0)


SHORT = {"max_fun_evals": 15, "max_iter": 3, "min_final_components": 5}


def test_a_noisy_simulator_is_fitted_and_the_run_continues_from_its_store(tmp_path):
    posterior = fit_from_log_density.main(1, str(tmp_path), options=SHORT, progress=False)
    assert posterior.names == ("rate", "bias")
    assert posterior.evidence.headline_method == "capped_components"
    again = fit_from_log_density.main(1, str(tmp_path), options=SHORT, progress=False)
    np.testing.assert_array_equal(again.weights, posterior.weights)


def test_the_job_array_script_does_one_run(tmp_path):
    options = " ".join(f"--option {name}={value}" for name, value in SHORT.items())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_ARRAY_TASK_ID": "3",
        "OUT": str(tmp_path / "results"),
        "OPTIONS": options,
    }
    subprocess.run(
        ["bash", "examples/slurm_array.sh"], cwd=ROOT, env=environment, check=True, timeout=170
    )
    assert list(RunStore(tmp_path / "results").runs()) == [3]


def test_the_demo_prints_summaries_and_draws_its_figure(tmp_path):
    output = run("examples.demo", cwd=tmp_path)
    assert output.count("True log evidence") == 2
    assert output.count("certified") == 2
    assert (tmp_path / "demo-results" / "demo.png").stat().st_size > 50_000


def test_the_stack_goes_on_in_arviz(tmp_path):
    output = run("examples.continue_in_arviz", str(tmp_path))
    for text in ("mean", "sd", "x6", "log evidence -0."):
        assert text in output
    assert (tmp_path / "arviz_forest.png").stat().st_size > 5000


def test_importance_sampling_from_the_stack_finds_the_true_evidence():
    """log 20; four standard errors of the importance weights."""
    evidence, error = importance_sampling.as_proposal()
    assert error < 0.01
    assert abs(evidence - np.log(20)) < 4 * error


def test_the_stack_is_the_prior_of_the_next_fit():
    """Within a fifth of a standard deviation of the exact posterior of both batches."""
    posterior = importance_sampling.as_prior(
        1,
        options={**SHORT, "max_fun_evals": 20, "max_iter": 4},
        screen=Screen(require_converged=False),
        executor="here",
        progress=False,
    )
    mean, covariance = posterior.moments()
    exact_mean, exact_covariance = importance_sampling.exact_posterior()
    sd = np.sqrt(np.diag(exact_covariance))
    np.testing.assert_allclose(mean / sd, exact_mean / sd, atol=0.2)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)) / sd, 1, atol=0.15)
