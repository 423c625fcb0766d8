"""`fit()`: from a log density to a stacked posterior in one call: `launch` + `stack`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from vbstack.launch import launch
from vbstack.posterior import StackedPosterior
from vbstack.problem import Problem
from vbstack.progress import Reporter
from vbstack.run import Run
from vbstack.screen import screen as apply_screen
from vbstack.stack import stack
from vbstack.store import RunStore

_STACK_SETTINGS = ("weights", "tolerance", "max_draws", "final_draws", "solver", "screen")
MIN_RUNS, WAVE = 5, 2


def fit(
    problem: Problem,
    n_runs: int | str = 10,
    *,
    store: RunStore | str | None = None,
    engine: str = "auto",
    max_runs: int = 40,
    gain_tolerance: float = 0.05,
    **settings: Any,
) -> StackedPosterior:
    """The stacked posterior of `n_runs` VBMC runs of the problem.

    Parameters
    ----------
    n_runs : int or "auto"
        "auto" launches five runs, then more in waves, until one more run is expected to raise the
        stacked ELBO by less than `gain_tolerance` nats, or there are `max_runs`.
    store : RunStore or path, optional
        Where the runs are kept; without one a temporary directory, whose place is printed.
    engine : "auto" or "pyvbmc"
        What makes a run.
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
    count = min(MIN_RUNS, max_runs)
    while True:
        runs = launch(problem, count, store=store, **settings)
        posterior = stack(runs, **stacking)
        gain = expected_gain(posterior.runs, **stacking)
        enough = gain < gain_tolerance
        if enough or count >= max_runs:
            reporter.say(
                f"{len(posterior.runs)} runs stacked; one more is expected to add {gain:.3f} nats"
                + ("" if enough else f", more than {gain_tolerance:g}, but max_runs is reached")
            )
            return posterior
        count = min(count + WAVE, max_runs)
        reporter.say(f"one more run is expected to add {gain:.3f} nats: going on to {count} runs")


def expected_gain(runs: Sequence[Run], **stacking: Any) -> float:
    """What one more run would bring: the mean of ELBO(all) − ELBO(all but m), in nats.

    With a single run nothing can be left out; then nothing is known, and the gain is infinite.
    """
    kept, _ = apply_screen(runs, stacking.get("screen"))
    runs = [runs[index] for index in kept]
    if len(runs) < 2:
        return float("inf")
    everything = stack(runs, **stacking).evidence.raw
    others = [stack([*runs[:m], *runs[m + 1 :]], **stacking).evidence.raw for m in range(len(runs))]
    return float(everything - np.mean(others))
