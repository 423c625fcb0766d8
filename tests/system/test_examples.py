"""The examples run as a user would run them, with real VBMC runs."""

import os
import subprocess
import sys
from pathlib import Path

import dill
import numpy as np
import pytest

from benchmarks.archived_runs import archive
from benchmarks.baselines.peers import to_variational_posterior
from examples import (
    bounded_parameters,
    dask_cluster,
    demo,
    fit_from_log_density,
    import_pickles,
    importance_sampling,
    priors,
    quickstart,
    stack_pyvbmc_runs,
)
from vbstack import RunStore, Screen, load_runs, stack

ROOT = Path(__file__).parents[2]
SHORT = {"max_fun_evals": 15, "max_iter": 3, "min_final_components": 5}  # of pyvbmc
SHORT_NATIVE = {"max_fun_evals": 40}
ANY = Screen(require_converged=False, max_variance=np.inf)


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


@pytest.mark.slow
def test_a_noisy_simulator_is_fitted_and_the_run_continues_from_its_store(tmp_path):
    posterior = fit_from_log_density.main(1, str(tmp_path), options=SHORT, progress=False)
    assert posterior.names == ("rate", "bias")
    assert posterior.evidence.method == "own"
    again = fit_from_log_density.main(1, str(tmp_path), options=SHORT, progress=False)
    np.testing.assert_array_equal(again.weights, posterior.weights)


def test_the_job_array_script_does_one_run(tmp_path):
    options = " ".join(f"--option {name}={value}" for name, value in SHORT.items())
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "SLURM_ARRAY_TASK_ID": "3",
        "OUT": str(tmp_path / "results"),
        "OPTIONS": options,
    }
    subprocess.run(
        ["bash", "examples/slurm_array.sh"], cwd=ROOT, env=environment, check=True, timeout=170
    )
    assert list(RunStore(tmp_path / "results").runs()) == [3]


def test_the_quickstart_finds_the_line():
    posterior = quickstart.main(1, progress=False)
    mean, covariance = posterior.moments()
    assert abs(mean[1] - 1.9) < np.sqrt(covariance[1, 1])


def test_bounded_parameters_stay_within_their_bounds():
    posterior = bounded_parameters.main(1, options=SHORT_NATIVE, progress=False, screen=ANY)
    draws = posterior.sample(1000, seed=0)
    assert np.all((draws > bounded_parameters.LOWER) & (draws < bounded_parameters.UPPER))


def test_priors_give_bounds_and_the_fixed_parameter_a_smaller_model():
    """Truths by quadrature of the two integrals."""
    comparison = priors.main(2, executor="here", progress=False)
    found = {model.name: model.log_evidence for model in comparison.models}
    assert found["source"] == pytest.approx(-19.1231, abs=0.03)
    assert found["no source"] == pytest.approx(-20.7034, abs=0.03)
    assert priors.without.names == ("background",)


@pytest.mark.slow
def test_runs_happen_on_a_dask_cluster(tmp_path):
    posterior = dask_cluster.run(n_runs=2, directory=str(tmp_path), options=SHORT, progress=False)
    assert len(posterior.runs) == 2


def test_old_pickles_are_imported_by_the_example_and_by_the_command(tmp_path):
    for index, run_ in enumerate(load_runs(archive("gmm"))[:3]):
        (tmp_path / f"vp_{index}.pkl").write_bytes(dill.dumps(to_variational_posterior(run_)))
    posterior = import_pickles.main(tmp_path)
    assert len(posterior.runs) == 3
    files = [str(path) for path in sorted(tmp_path.glob("*.pkl"))]
    run("vbstack", "import", *files, "--out", str(tmp_path / "store"), "--trust-pickles")
    found = stack(list(RunStore(tmp_path / "store").runs().values()))
    np.testing.assert_allclose(found.weights, posterior.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_the_demo_prints_its_summary_and_draws_its_figure(tmp_path, capsys):
    figure = demo.main(tmp_path, 2, progress=False, screen=ANY)
    assert "True log evidence  2.9957" in capsys.readouterr().out
    assert figure.stat().st_size > 50_000


@pytest.mark.slow
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
        options=SHORT_NATIVE,
        screen=Screen(require_converged=False),
        executor="here",
        progress=False,
    )
    mean, covariance = posterior.moments()
    exact_mean, exact_covariance = importance_sampling.exact_posterior()
    sd = np.sqrt(np.diag(exact_covariance))
    np.testing.assert_allclose(mean / sd, exact_mean / sd, atol=0.2)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)) / sd, 1, atol=0.15)
