"""`fit(n_runs="auto")` decides by the diagnostics, and says so."""

from typing import Any

import numpy as np
import pytest

from vbstack import Problem, RunStore, Screen, fit
from vbstack.analysis.enough import LOOKS
from vbstack.fitting import LARGEST_WAVE, SMALLEST_WAVE, _wave
from vbstack.launching.settings import LaunchSettings

SHORT = {"max_fun_evals": 20}


def test_auto_stops_at_max_runs_and_says_what_is_missing(tmp_path, capsys):
    problem = Problem(
        log_density=lambda x: float(-2 * x[0] ** 2),
        plausible_lower_bounds=[-2],
        plausible_upper_bounds=[2],
    )
    posterior = fit(
        problem,
        "auto",
        max_runs=2,
        store=str(tmp_path),
        executor="here",
        seed=1,
        options=SHORT,
        screen=Screen(require_converged=False),
    )
    assert len(posterior.runs) == 2
    message = capsys.readouterr().err
    assert "2 runs stacked. More runs are needed" in message
    assert "max_runs=2 is reached" in message


def normal(x):
    return float(-0.5 * x @ x)


def normal_problem():
    return Problem(
        log_density=normal, plausible_lower_bounds=[-3, -3], plausible_upper_bounds=[3, 3]
    )


def test_auto_begins_with_four_runs_that_are_enough_for_a_gaussian(tmp_path):
    posterior = fit(normal_problem(), store=tmp_path, seed=3, executor="here", progress=False)
    assert len(posterior.runs) == 4
    assert len(RunStore(tmp_path).runs()) == 4
    assert sum(run.looks for run in posterior.runs) >= LOOKS
    assert posterior.evidence.log_evidence == pytest.approx(np.log(2 * np.pi), abs=0.01)


def test_auto_takes_all_runs_of_a_store_and_a_run_for_each_start(tmp_path):
    starts = np.array([[0.0, 0.5], [1.0, 0.0], [-1.0, 1.0]])
    settings: dict[str, Any] = {"executor": "here", "progress": False, "seed": 4}
    first = fit(normal_problem(), store=tmp_path / "given", starts=starts, **settings)
    assert len(first.runs) == 3
    again = fit(normal_problem(), store=tmp_path / "given", **settings)  # starts are in its plan
    assert len(again.runs) == 3
    fit(normal_problem(), 5, store=tmp_path / "five", **settings)
    assert len(fit(normal_problem(), store=tmp_path / "five", **settings).runs) == 5


@pytest.mark.parametrize(
    ("settings", "wave"),
    [
        ({"n_workers": 5}, 5),
        ({"n_workers": 1}, SMALLEST_WAVE),
        ({"n_workers": 30}, LARGEST_WAVE),
        ({"executor": "here"}, SMALLEST_WAVE),  # one after the other, on however many cores
    ],
)
def test_waves_are_as_many_as_run_at_once(settings, wave):
    assert _wave(LaunchSettings(normal_problem(), 4, engine="native", **settings)) == wave
