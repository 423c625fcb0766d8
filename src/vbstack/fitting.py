"""`fit()`: from a log density to a stacked posterior in one call: `launch` + `stack`."""

from __future__ import annotations

import tempfile
from typing import Any

from vbstack.analysis.diagnosis import FEWEST, TOLERANCE, diagnostics
from vbstack.assembly import stack
from vbstack.launching.launcher import launch
from vbstack.launching.progress import Reporter
from vbstack.posterior import StackedPosterior
from vbstack.problem import Problem
from vbstack.runs.store import RunStore

_STACK_SETTINGS = (
    *("weights", "evaluations", "tolerance", "max_draws", "final_draws", "solver", "screen"),
)
WAVE = 2


def fit(
    problem: Problem,
    n_runs: int | str = 10,
    *,
    store: RunStore | str | None = None,
    engine: str = "auto",
    max_runs: int = 40,
    gain_tolerance: float = TOLERANCE,
    **settings: Any,
) -> StackedPosterior:
    """The stacked posterior of `n_runs` VBMC runs of the problem.

    Parameters
    ----------
    n_runs : int or "auto"
        "auto" launches eight runs, then more in waves of two, until nothing rests on a single run
        (see `diagnostics.enough_runs`), or there are `max_runs`.
    gain_tolerance : float
        For "auto": nats, and share of posterior mass, that one run alone may be responsible for.
    store : RunStore or path, optional
        Where the runs are kept; without one a temporary directory, whose place is printed.
    engine : "auto", "pyvbmc" or "native"
        What makes a run; "auto" is native for log densities without noise of up to ten
        parameters, pyvbmc for others.
    **settings
        For `launch` (executor, n_workers, seed, starts, options, …) and `stack` (weights, …).
    """
    stacking = {name: settings.pop(name) for name in _STACK_SETTINGS if name in settings}
    settings["engine"] = engine
    reporter = Reporter(silent=not settings.get("progress", True))
    if store is None:
        store = tempfile.mkdtemp(prefix="vbstack-")
        reporter.say(f"the runs are kept in {store}")
    if n_runs != "auto":
        if not isinstance(n_runs, int):
            raise ValueError(f"n_runs={n_runs!r} must be a number of runs or 'auto'")
        return stack(launch(problem, n_runs, store=store, **settings), **stacking)
    count = min(FEWEST, max_runs)
    while True:
        runs = launch(problem, count, store=store, **settings)
        posterior = stack(runs, **stacking)
        found = diagnostics(posterior, tolerance=gain_tolerance)
        if found.enough or count >= max_runs:
            limit = "" if found.enough else f" But max_runs={max_runs} is reached."
            reporter.say(f"{len(posterior.runs)} runs stacked. {found.verdict}{limit}")
            return posterior
        count = min(count + WAVE, max_runs)
        reporter.say(f"{found.verdict} Going on to {count} runs.")
