"""`fit(n_runs="auto")` decides by the diagnostics, and says so."""

from vbstack import Problem, Screen, fit

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
