"""`launch()`: M runs of a problem, kept in a store as they finish."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vbstack.checks import checked_whole
from vbstack.engines.registry import resolved
from vbstack.launching.executors import outcomes
from vbstack.launching.progress import Reporter
from vbstack.launching.worker import Outcome, Task
from vbstack.modes import EngineChoice, EngineName, OnError, StartsKind
from vbstack.problem import Problem
from vbstack.runs.plan import Plan, as_points
from vbstack.runs.run import Run, TooFewRuns
from vbstack.runs.store import RunStore

Announce = Callable[[Mapping[int, Run]], str]


_BUSY_SECONDS = 2.0  # between two looks at runs that another launcher has


def launch(
    problem: Problem,
    n_runs: int,
    *,
    store: RunStore | str | os.PathLike[str],
    executor: Any = None,
    n_workers: int | None = None,
    seed: int | None = None,
    starts: StartsKind | ArrayLike | None = None,
    engine: EngineChoice = "auto",
    timeout: float | None = None,
    run_timeout: float | None = None,
    on_error: OnError | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool = True,
    announce: Announce | None = None,
) -> list[Run]:
    """The finished runs 0 … n_runs − 1 of the store, in order; those missing are made first.

    Run m depends on the problem, the plan of the store (`Plan`) and m only: not on the back end,
    the order or the number of workers. A run that was interrupted is resumed by replay; a finished
    one is never made again. Runs that fail are recorded with the point that caused it, and left
    out.

    Parameters
    ----------
    store : RunStore or path
        Where everything is kept; continued if it is there already.
    executor : "local" (default), "here", Executor, dask Client or address
        Where the runs happen (see `executors`).
    seed : int, optional
        Of the whole plan. A store that exists keeps its own seed, starts, options and on_error,
        unless they are given here; other seeds, starts or options are refused.
    starts : "uniform" (default), "sobol" or array (n_runs, D)
        Starting points: random or Sobol points in the plausible box, or yours.
    engine : "auto", "pyvbmc" or "native"
        What makes a run; the store remembers it. "auto" is the store's own; in a new store
        native for log densities without noise of up to ten parameters, pyvbmc for others.
    timeout : float, optional
        Seconds after which launching ends with the runs that are finished. Local processes are
        stopped and their journals stay; on other back ends runs under way go on.
    run_timeout : float, optional
        Seconds after which a run is stopped (local processes only); its journal stays.
    on_error : "fail_run" (default), "retry" or "floor"
        What to do when the log density fails: fail the run, try the point up to three times, or put
        a low value in its place (at most 20 % of the evaluations).
    options : mapping, optional
        The engine's options, by pyvbmc's names or those of `engines.native.settings.Settings`.
    announce : callable, optional
        Called with all runs that are finished, by their numbers, whenever one more is; the line
        that it returns is shown with the progress.
    """
    n_runs = checked_whole("n_runs", n_runs, 1)
    store = store if isinstance(store, RunStore) else RunStore(store)
    plan = planned(problem, store, n_runs, seed, starts, engine, options, on_error)
    store.tidy()
    finished = store.usable_runs()
    where = str(store.directory.resolve())
    tasks = [Task(where, index, plan) for index in range(n_runs) if index not in finished]
    if tasks:
        store.check_writable()
        store.record(plan)
    reporter = Reporter(silent=not progress)
    reporter.say_all(store.set_aside)
    if finished:
        reporter.say(f"{len(finished)} runs are in {store.directory} already")
    job = _Job(problem, store, executor, n_workers, run_timeout, reporter, dict(finished), announce)
    with reporter.watching(store, range(n_runs)):
        failures = job.perform(tasks, math.inf if timeout is None else time.monotonic() + timeout)
    found = store.usable_runs()
    made = [found[index] for index in range(n_runs) if index in found]
    if not made:
        lines = [f"\n  run {index}: {failures[index]}" for index in sorted(failures)]
        raise TooFewRuns(f"none of {n_runs} runs finished in {store.directory}:" + "".join(lines))
    return made


def planned(
    problem: Problem,
    store: RunStore,
    n_runs: int,
    seed: int | None = None,
    starts: StartsKind | ArrayLike | None = None,
    engine: EngineChoice = "auto",
    options: Mapping[str, Any] | None = None,
    on_error: OnError | None = None,
) -> Plan:
    """The plan of the store, made if it is new; see `launch` for what may be given."""
    points: Any = starts
    if starts is not None and not isinstance(starts, str):
        expected = (n_runs, problem.dimension)
        if np.shape(starts) != expected:
            raise ValueError(f"starts has shape {np.shape(starts)}, expected {expected}")
        points = as_points(starts, problem.dimension)
    plan = store.open(
        problem,
        engine=engine_for(problem, store, engine),
        seed=seed,
        options=options,
        starts=points,
        on_error=on_error,
    )
    plan.start(n_runs - 1)  # an error if there are fewer starting points than runs
    return plan


def engine_for(problem: Problem, store: RunStore, name: EngineChoice) -> EngineName:
    """The engine that `name` means; "auto" is that of the store, if it is there already."""
    if name == "auto" and store.exists():
        return store.read_plan().engine
    return resolved(name, problem)


@dataclass(frozen=True)
class _Job:
    """Where and how the tasks are done, and who hears of it."""

    problem: Problem
    store: RunStore
    executor: Any
    n_workers: int | None
    run_timeout: float | None
    reporter: Reporter
    finished: dict[int, Run]
    announce: Announce | None

    def perform(self, tasks: list[Task], deadline: float) -> dict[int, str]:
        """Do the tasks, and say why runs failed; runs that another launcher has are waited for."""
        failures: dict[int, str] = {}
        while tasks:
            try:
                busy = self._once(tasks, deadline, failures)
            except KeyboardInterrupt:
                self.reporter.say(f"interrupted; {self._kept()}")
                raise
            except TimeoutError:
                self.reporter.say(f"the time limit is reached; {self._kept()}")
                stopped = {task.index: "was stopped by the time limit" for task in tasks}
                return stopped | failures
            tasks = [task for task in tasks if task.index in busy]
            if tasks:
                time.sleep(_BUSY_SECONDS)
        return failures

    def _once(self, tasks: list[Task], deadline: float, failures: dict[int, str]) -> set[int]:
        """Try every task once; returns those that another launcher has."""
        busy = set()
        for outcome in outcomes(
            self.executor,
            self.problem,
            tasks,
            n_workers=self.n_workers,
            run_timeout=self.run_timeout,
            deadline=deadline,
        ):
            if outcome.status == "busy":
                busy.add(outcome.index)
            elif outcome.status == "finished":
                self._finished(outcome)
            else:
                failures[outcome.index] = self._failed(outcome)
        return busy

    def _finished(self, outcome: Outcome) -> None:
        run = self.store.take_damaged_aside(outcome.index)
        if run is None:
            return
        made = 0 if run.evaluations is None else len(run.evaluations.values)
        extra = f", {outcome.replayed} of them replayed" if outcome.replayed else ""
        note = f" ({outcome.message})" if outcome.message else ""
        self.reporter.say(
            f"run {outcome.index}: ELBO {run.elbo:.3f} ± {run.elbo_sd:.3f}, {made} evaluations"
            f"{extra}, {run.seconds or 0:.0f} s{note}"
        )
        self.finished[outcome.index] = run
        if self.announce is not None:
            self.reporter.announce(self.announce(self.finished))

    def _failed(self, outcome: Outcome) -> str:
        message = outcome.message
        if not self.store.path(outcome.index, "failed.json").exists():
            try:
                self.store.save_failure(outcome.index, {"message": message})
            except OSError as error:
                message += f" (nor could this be noted in the store: {error})"
        self.reporter.say(f"run {outcome.index} failed: {message}")
        return message

    def _kept(self) -> str:
        return (
            f"everything so far is kept in {self.store.directory}. Call launch again with the same "
            "store to continue."
        )
