"""Nested linear models fitted by real VBMC runs; their Bayes factor is known in closed form."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from examples.compare_models import problem, true_log_evidence
from vbstack import Screen, compare, fit

SHORT = {"max_fun_evals": 40}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two short runs of each model, a constant and a line."""
    found = {}
    for name, size in (("constant", 1), ("line", 2)):
        directory = tmp_path_factory.mktemp("stores") / name
        posterior = fit(
            problem(size),
            2,
            store=str(directory),
            seed=1,
            executor="here",
            options=SHORT,
            progress=False,
            screen=Screen(require_converged=False),
        )
        posterior.save(directory / "posterior.npz")
        found[name] = directory
    return found


def test_the_bayes_factor_of_nested_models_is_found_within_its_error(stores):
    result = compare(stores)
    difference, error = result.log_bayes_factor("line", "constant")
    truth = true_log_evidence(2) - true_log_evidence(1)
    assert truth == pytest.approx(2.329, abs=1e-3)
    assert difference == pytest.approx(truth, abs=2 * error)
    assert error < 0.1
    probability = 1 / (1 + np.exp(-truth))
    best = result.models[0]
    assert best.name == "line"
    assert best.probability_low < probability < best.probability_high
    for model, size in ((best, 2), (result.models[1], 1)):
        assert model.log_evidence == pytest.approx(true_log_evidence(size), abs=2 * model.sd)


def test_the_command_line_says_the_same(stores, tmp_path):
    command = [sys.executable, "-m", "vbstack", "compare", *map(str, stores.values())]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}

    def run(*more):
        return subprocess.run(
            [*command, *more], env=environment, cwd=tmp_path, capture_output=True, text=True
        )

    done = run("--json", "--prior", "3,1", "--figure", "models.png")
    assert done.returncode == 0, done.stderr
    expected = compare(stores, prior={"constant": 3, "line": 1})
    assert json.loads(done.stdout) == json.loads(expected.to_json())
    assert (tmp_path / "models.png").stat().st_size > 5000
    mistaken = run("--prior", "3")
    assert mistaken.returncode == 1
    assert "--prior '3' should be 2 numbers" in mistaken.stderr
    assert "Traceback" not in mistaken.stderr
