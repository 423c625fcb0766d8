"""`fit()`: from a log density to a verified posterior: `launch`, `stack`, `verify` in one call."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from vbstack.analysis.diagnosis import diagnostics
from vbstack.analysis.enough import FEWEST, TOLERANCE
from vbstack.assembly import numbered, stack, stacked
from vbstack.checks import checked_positive, checked_whole
from vbstack.launching.cores import available_cores
from vbstack.launching.launcher import Launched, launched
from vbstack.launching.progress import Reporter
from vbstack.launching.settings import Announce, LaunchSettings
from vbstack.launching.side_by_side import PointsFailed
from vbstack.modes import (
    BatchChoice,
    EngineChoice,
    EvaluationsUsed,
    OnError,
    Refine,
    SolverName,
    StartsKind,
    WeightsKind,
)
from vbstack.posterior import StackedPosterior
from vbstack.problem import Problem
from vbstack.runs.run import Run, TooFewRuns
from vbstack.runs.store import RunStore
from vbstack.stacking.screening import Dropped, Screen
from vbstack.stacking.settings import StackSettings
from vbstack.verifying import verify as verify_stack

SMALLEST_WAVE, LARGEST_WAVE = 2, 8  # runs that "auto" adds at a time, as there are workers
_PATIENCE = 50  # times its own cost between two stacks for the progress display


class NotVerified(RuntimeWarning):
    """A stack could not be checked against the model; the message says why."""


def fit(
    problem: Problem,
    n_runs: int | str = "auto",
    *,
    store: RunStore | str | os.PathLike[str] | None = None,
    executor: Any = None,
    n_workers: int | None = None,
    seed: int | None = None,
    starts: StartsKind | ArrayLike | None = None,
    engine: EngineChoice = "auto",
    options: Mapping[str, Any] | None = None,
    on_error: OnError | None = None,
    timeout: float | None = None,
    run_timeout: float | None = None,
    max_runs: int = 40,
    gain_tolerance: float = TOLERANCE,
    verify: int | bool | str = "auto",
    weights: WeightsKind = "all",
    evaluations: EvaluationsUsed = "auto",
    tolerance: float = 0.02,
    max_draws: int = 512,
    final_draws: int = 128,
    solver: SolverName = "certified",
    screen: Screen | None = None,
    caution: float | Literal["auto"] = "auto",
    refine: Refine = "auto",
    progress: bool = True,
    announce: Announce | None = None,
    fresh: bool = False,
    trust_store: bool = False,
    batch: BatchChoice = "auto",
    evaluation_timeout: float | None = None,
) -> StackedPosterior:
    """The stacked posterior of `n_runs` VBMC runs of the problem, checked against the problem.

    Parameters
    ----------
    n_runs : int or "auto"
        "auto" launches four runs, then more in waves of as many as there are workers (two to
        eight), until they are enough (see `analysis.enough`) or there are `max_runs`. Of a store
        with more runs all are taken; with an array of starts there is a run for each.
    store : RunStore or path, optional
        Where the runs are kept; without one a temporary directory, whose place is printed. A store
        that holds runs of this problem is continued.
    executor, n_workers, seed, starts, options, on_error, run_timeout, announce, fresh, trust_store
        As for `launch`.
    batch, evaluation_timeout
        As for `launch`: evaluations side by side within a run, and when one that hangs has failed.
    engine : "auto", "pyvbmc" or "native"
        What makes a run; "auto" is native for log densities without noise of up to ten
        parameters, pyvbmc for others.
    timeout : float, optional
        Seconds for all runs and the verification together.
    gain_tolerance : float
        For "auto": nats that one run alone may be worth, and share of posterior mass that may be
        missing.
    verify : "auto", int or bool
        How many further evaluations, at draws of the stack, check it (see `vbstack.verify`).
        "auto" and True are 7 % of those of the runs, 20 to 100; "auto" does none where the log
        density is noisy. False leaves the stack unchecked.
    weights, evaluations, tolerance, max_draws, final_draws, solver, screen, caution, refine
        As for `stack`.

    All settings are checked before the first evaluation. Runs are called by their numbers in the
    plan (`kept`, `dropped`); those that failed are among the dropped, with the reason.
    """
    rules = Screen() if screen is None else screen
    stacking = StackSettings(
        weights,
        evaluations,
        tolerance,
        max_draws,
        final_draws,
        solver,
        rules,
        caution=caution,
        refine=refine,
    )
    if not isinstance(n_runs, str):
        n_runs = checked_whole("n_runs", n_runs, 1)
    elif n_runs != "auto":
        raise ValueError(f"n_runs={n_runs!r} must be a number of runs or 'auto'")
    max_runs = checked_whole("max_runs", max_runs, 1)
    gain_tolerance = checked_positive("gain_tolerance", gain_tolerance)
    checks = _checked_verify(verify)
    reporter = Reporter(silent=not progress)
    if announce is None and not reporter.silent:
        announce = StackSoFar()
    if n_runs == "auto":
        n_runs = _number_of_starts(starts, store, fresh) or n_runs
    asked = LaunchSettings(
        problem,
        n_runs if isinstance(n_runs, int) else min(FEWEST, max_runs),
        store=store,
        executor=executor,
        n_workers=n_workers,
        seed=seed,
        starts=starts,
        engine=engine,
        timeout=timeout,
        run_timeout=run_timeout,
        on_error=on_error,
        options=options,
        progress=progress,
        announce=announce,
        fresh=fresh,
        trust_store=trust_store,
        batch=batch,
        evaluation_timeout=evaluation_timeout,
    )
    begun = time.monotonic()
    if isinstance(n_runs, int):
        done = launched(asked, reporter=reporter)
        posterior = _stacked(done, stacking)
    else:
        done, posterior = _until_enough(asked, max_runs, gain_tolerance, stacking, reporter)
    if checks is None or (checks == "auto" and verify == "auto" and problem.noisy):
        return posterior
    asked = replace(asked, store=done.store, fresh=False, trust_store=True)
    return _checked_against_model(posterior, asked, checks, _left(timeout, begun))


def _until_enough(
    asked: LaunchSettings,
    max_runs: int,
    gain_tolerance: float,
    stacking: StackSettings,
    reporter: Reporter,
) -> tuple[Launched, StackedPosterior]:
    """The runs and their stack, in waves, until they are enough."""
    begun, limit = time.monotonic(), asked.timeout
    asked = replace(asked, n_runs=max(asked.n_runs, _begun(asked)))
    while True:
        done = launched(asked, reporter=reporter)
        posterior = _stacked(done, stacking)
        found = diagnostics(posterior, tolerance=gain_tolerance)
        stopped = "" if found.enough else _stopped(asked.n_runs, max_runs, _left(limit, begun))
        if found.enough or stopped:
            reporter.say(f"{len(posterior.runs)} runs stacked. {found.verdict}{stopped}")
            return done, posterior
        count = min(max(asked.n_runs + _wave(asked), found.runs_needed), max_runs)
        reporter.say(f"{found.verdict} Going on to {count} runs.")
        asked = replace(
            asked,
            n_runs=count,
            store=done.store,
            timeout=_left(limit, begun),
            fresh=False,
            trust_store=True,
        )


def _stopped(count: int, max_runs: int, seconds_left: float | None) -> str:
    """Why there are no more runs although they are not enough; empty if there can be."""
    if count >= max_runs:
        return f" But max_runs={max_runs} is reached."
    return " But the time limit is reached." if seconds_left == 0.0 else ""


def _left(timeout: float | None, begun: float) -> float | None:
    """Seconds left of the time limit, 0 when it is over; None without one."""
    return None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))


def _checked_verify(verify: int | bool | str) -> int | str | None:
    """How many evaluations a verification has; None for no verification."""
    if verify is False:
        return None
    if verify is True or verify == "auto":
        return "auto"
    if isinstance(verify, str):
        raise ValueError(
            f"verify={verify!r} must be 'auto', a number of evaluations, True or False"
        )
    return checked_whole("verify", verify, 2)


def _checked_against_model(
    posterior: StackedPosterior, asked: LaunchSettings, n: int | str, seconds: float | None
) -> StackedPosterior:
    """The verified posterior; as it was, with a warning, where the model could not be asked."""
    try:
        if seconds == 0.0:
            raise TimeoutError("the time limit is reached")
        return verify_stack(
            posterior,
            asked.problem,
            n,
            executor=asked.executor,
            n_workers=asked.n_workers,
            store=asked.store,
            timeout=seconds,
            progress=asked.progress,
            trust_store=True,
        ).posterior
    except (PointsFailed, TimeoutError) as error:
        why = str(error) or "the time limit is reached"
        warnings.warn(NotVerified(f"the stack is not verified: {why}"), stacklevel=3)
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
