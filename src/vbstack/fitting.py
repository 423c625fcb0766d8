"""`fit()`: from a log density to a stacked posterior in one call: `launch` + `stack`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from vbstack.analysis.diagnosis import diagnostics
from vbstack.analysis.enough import FEWEST, TOLERANCE
from vbstack.assembly import numbered, stack, stacked
from vbstack.checks import checked_positive, checked_whole
from vbstack.launching.cores import available_cores
from vbstack.launching.launcher import Launched, launched
from vbstack.launching.progress import Reporter
from vbstack.launching.settings import LaunchSettings
from vbstack.modes import EngineChoice
from vbstack.posterior import StackedPosterior
from vbstack.problem import Problem
from vbstack.runs.run import Run, TooFewRuns
from vbstack.runs.store import RunStore
from vbstack.stacking.screening import Dropped
from vbstack.stacking.settings import StackSettings

_STACK_SETTINGS = {field.name for field in fields(StackSettings)} - {"seed"}
SMALLEST_WAVE, LARGEST_WAVE = 2, 8  # runs that "auto" adds at a time, as there are workers
_PATIENCE = 50  # times its own cost between two stacks for the progress display


def fit(
    problem: Problem,
    n_runs: int | str = "auto",
    *,
    store: RunStore | str | os.PathLike[str] | None = None,
    engine: EngineChoice = "auto",
    max_runs: int = 40,
    gain_tolerance: float = TOLERANCE,
    **settings: Any,
) -> StackedPosterior:
    """The stacked posterior of `n_runs` VBMC runs of the problem.

    Parameters
    ----------
    n_runs : int or "auto"
        "auto" launches four runs, then more in waves of as many as there are workers (two to
        eight), until they are enough (see `analysis.enough`) or there are `max_runs`. Of a store
        with more runs all are taken; with an array of starts there is a run for each.
    gain_tolerance : float
        For "auto": nats that one run alone may be worth, and share of posterior mass that may be
        missing.
    store : RunStore or path, optional
        Where the runs are kept; without one a temporary directory, whose place is printed.
    engine : "auto", "pyvbmc" or "native"
        What makes a run; "auto" is native for log densities without noise of up to ten
        parameters, pyvbmc for others.
    **settings
        For `launch` (executor, n_workers, seed, starts, options, fresh, trust_store, …) and `stack`
        (weights, …).

    All settings are checked before the first evaluation. Runs are called by their numbers in the
    plan (`kept`, `dropped`); those that failed are among the dropped, with the reason.
    """
    given = {name: settings.pop(name) for name in _STACK_SETTINGS & set(settings)}
    stacking = StackSettings(**{name: value for name, value in given.items() if value is not None})
    if not isinstance(n_runs, str):
        n_runs = checked_whole("n_runs", n_runs, 1)
    elif n_runs != "auto":
        raise ValueError(f"n_runs={n_runs!r} must be a number of runs or 'auto'")
    max_runs = checked_whole("max_runs", max_runs, 1)
    gain_tolerance = checked_positive("gain_tolerance", gain_tolerance)
    reporter = Reporter(silent=not settings.get("progress", True))
    if not reporter.silent:
        settings.setdefault("announce", StackSoFar())
    if n_runs == "auto":
        n_runs = _number_of_starts(settings.get("starts"), store, settings.get("fresh")) or n_runs
    count = n_runs if isinstance(n_runs, int) else min(FEWEST, max_runs)
    asked = LaunchSettings(problem, count, store=store, engine=engine, **settings)
    if not isinstance(n_runs, int):
        asked = replace(asked, n_runs=max(count, _begun(asked)))
        count = asked.n_runs
    done = launched(asked, reporter=reporter)
    posterior = _stacked(done, stacking)
    while not isinstance(n_runs, int):
        found = diagnostics(posterior, tolerance=gain_tolerance)
        if found.enough or count >= max_runs:
            limit = "" if found.enough else f" But max_runs={max_runs} is reached."
            reporter.say(f"{len(posterior.runs)} runs stacked. {found.verdict}{limit}")
            break
        count = min(max(count + _wave(asked), found.runs_needed), max_runs)
        reporter.say(f"{found.verdict} Going on to {count} runs.")
        more = replace(asked, n_runs=count, store=done.store, fresh=False, trust_store=True)
        posterior = _stacked(launched(more, reporter=reporter), stacking)
    return posterior


def _number_of_starts(starts: Any, store: Any, fresh: Any) -> int | None:
    """How many starts were given, now or with the store; None where they are drawn."""
    if starts is None and store is not None and not fresh:
        kept = store if isinstance(store, RunStore) else RunStore(store)
        starts = kept.read_plan().starts if kept.exists() else None
    points = isinstance(starts, (Sequence, np.ndarray)) and not isinstance(starts, str)
    return len(starts) if points else None


def _begun(asked: LaunchSettings) -> int:
    """How many runs of the plan the store has, finished or not."""
    store = asked.given_store()
    if store is None or asked.fresh or not store.exists():
        return 0
    return 1 + max((state.index for state in store.states()), default=-1)


def _wave(asked: LaunchSettings) -> int:
    """How many runs to add: as many as local processes make at once, within limits."""
    local = asked.executor in (None, "local")
    workers = asked.n_workers or (available_cores() if local else SMALLEST_WAVE)
    return min(max(workers, SMALLEST_WAVE), LARGEST_WAVE)


def _stacked(done: Launched, settings: StackSettings) -> StackedPosterior:
    """The stack of the runs by their numbers in the plan, with those that failed as dropped."""
    posterior = numbered(stacked(list(done.runs.values()), settings), list(done.runs))
    failed = [Dropped(index, f"failed: {reason}") for index, reason in done.failures.items()]
    dropped = sorted([*posterior.dropped, *failed], key=lambda one: one.index)
    return replace(posterior, dropped=tuple(dropped))


class StackSoFar:
    """A line on the stack of the runs finished so far, worked out when that costs little."""

    def __init__(self) -> None:
        self._not_before = 0.0

    def __call__(self, runs: Mapping[int, Run]) -> str:
        """The line; empty when the last one was too short ago."""
        begun = time.monotonic()
        if begun < self._not_before:
            return ""
        try:
            posterior = stack(list(runs.values()), tolerance=0.1, final_draws=32, refine=False)
        except TooFewRuns:
            return "no run can be stacked yet"
        ended = time.monotonic()
        self._not_before = ended + _PATIENCE * (ended - begun)
        e = posterior.evidence
        return (
            f"stack of {len(posterior.runs)} finished runs: log evidence {e.log_evidence:.3f} "
            f"± {e.sd:.3f}"
        )
