"""`fit()`: from a log density to a stacked posterior in one call: `launch` + `stack`."""

from __future__ import annotations

import tempfile
from typing import Any

from vbstack.launch import launch
from vbstack.posterior import StackedPosterior
from vbstack.problem import Problem
from vbstack.stack import stack
from vbstack.store import RunStore

_STACK_SETTINGS = ("weights", "tolerance", "max_draws", "final_draws", "solver", "screen")


def fit(
    problem: Problem, n_runs: int = 10, *, store: RunStore | str | None = None, **settings: Any
) -> StackedPosterior:
    """The stacked posterior of `n_runs` VBMC runs of the problem.

    `settings` go to `launch` (executor, n_workers, seed, starts, options, …) and to `stack`
    (weights, tolerance, …). Without a store a temporary one is made, and its place is printed.
    """
    stacking = {name: settings.pop(name) for name in _STACK_SETTINGS if name in settings}
    if store is None:
        store = tempfile.mkdtemp(prefix="vbstack-")
        if settings.get("progress", True):
            print(f"vbstack: runs are kept in {store}")
    return stack(launch(problem, n_runs, store=store, **settings), **stacking)
