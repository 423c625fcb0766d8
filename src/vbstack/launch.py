"""`launch()`: M runs of a problem, kept in a store as they finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc

from vbstack.engine import ON_ERROR
from vbstack.executors import outcomes
from vbstack.problem import Problem
from vbstack.progress import Reporter
from vbstack.run import Run
from vbstack.screen import TooFewRuns
from vbstack.store import RunStore
from vbstack.worker import BUSY, FINISHED, Outcome, Task, run_seed

Array = NDArray[np.float64]


def launch(
    problem: Problem,
    n_runs: int,
    *,
    store: RunStore | str,
    executor: Any = None,
    n_workers: int | None = None,
    seed: int | None = None,
    starts: str | ArrayLike = "uniform",
    run_timeout: float | None = None,
    on_error: str = "fail_run",
    options: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> list[Run]:
    """The finished runs 0 … n_runs − 1 of the store, in order; those missing are made first.

    Run m depends on the problem, the store's seed and m only: not on the back end, the order or the
    number of workers. A run that was interrupted is resumed by replay; a finished one is never
    made again. Runs that fail are recorded with the point that caused it, and left out.

    Parameters
    ----------
    store : RunStore or path
        Where everything is kept; continued if it is there already.
    executor : "local" (default), "here", Executor, dask Client or address
        Where the runs happen (see `executors`).
    seed : int, optional
        Of the whole plan; a store that exists keeps its own.
    starts : "uniform", "sobol" or array (n_runs, D)
        Starting points: random or Sobol points in the plausible box, or yours.
    run_timeout : float, optional
        Seconds after which a run is stopped (local processes only); its journal stays.
    on_error : "fail_run", "retry" or "floor"
        What to do when the log density fails: fail the run, try the point up to three times, or put
        a low value in its place (at most 20 % of the evaluations).
    options : mapping, optional
        pyvbmc's options.
    """
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error={on_error!r} is not known; choose one of {ON_ERROR}")
    if n_runs < 1:
        raise ValueError(f"n_runs={n_runs!r} must be at least one")
    store = store if isinstance(store, RunStore) else RunStore(store)
    plan_seed = store.open(problem, seed, options or {})
    points = starting_points(problem, starts, n_runs, plan_seed)
    finished = store.runs()
    tasks = [
        Task(
            directory=str(store.directory.resolve()),
            index=index,
            seed=run_seed(plan_seed, index),
            start=tuple(points[index].tolist()),
            on_error=on_error,
            options=dict(options or {}),
        )
        for index in range(n_runs)
        if index not in finished
    ]
    reporter = Reporter(silent=not progress)
    if finished:
        reporter.say(f"{len(finished)} runs are in {store.directory} already")
    with reporter.watching(store, range(n_runs)):
        _perform(problem, tasks, store, executor, n_workers, run_timeout, reporter.say)
    found = store.runs()
    made = [found[index] for index in range(n_runs) if index in found]
    if not made:
        raise TooFewRuns(_no_runs(store, n_runs))
    return made


def starting_points(problem: Problem, starts: str | ArrayLike, n_runs: int, seed: int) -> Array:
    """Starting points (n_runs, D); point m does not depend on n_runs."""
    lower = np.asarray(problem.plausible_lower_bounds, dtype=float)
    upper = np.asarray(problem.plausible_upper_bounds, dtype=float)
    if isinstance(starts, str) and starts == "uniform":
        rngs = (np.random.default_rng([run_seed(seed, m), 0]) for m in range(n_runs))
        return np.array([rng.uniform(lower, upper) for rng in rngs])
    if isinstance(starts, str) and starts == "sobol":
        power = int(np.ceil(np.log2(max(2, n_runs))))
        sobol = qmc.Sobol(problem.dimension, rng=np.random.default_rng(seed))
        return lower + (upper - lower) * sobol.random_base2(power)[:n_runs]
    if isinstance(starts, str):
        raise ValueError(f"starts={starts!r} is not known; use 'uniform', 'sobol' or an array")
    points = np.asarray(starts, dtype=float)
    if points.shape != (n_runs, problem.dimension):
        raise ValueError(f"starts has shape {points.shape}, expected {(n_runs, problem.dimension)}")
    return points


def _perform(
    problem: Problem,
    tasks: list[Task],
    store: RunStore,
    executor: Any,
    n_workers: int | None,
    run_timeout: float | None,
    say: Callable[[str], None],
) -> None:
    """Do the tasks; runs that another launcher has are waited for."""
    while tasks:
        busy = []
        by_index = {task.index: task for task in tasks}
        try:
            for outcome in outcomes(
                executor, problem, tasks, n_workers=n_workers, run_timeout=run_timeout
            ):
                _report(outcome, store, say)
                if outcome.status == BUSY:
                    busy.append(by_index[outcome.index])
        except KeyboardInterrupt:
            say(
                f"interrupted; everything so far is kept in {store.directory}. Call launch again "
                "with the same store to continue."
            )
            raise
        if busy:
            time.sleep(2.0)
        tasks = busy


def _report(outcome: Outcome, store: RunStore, say: Callable[[str], None]) -> None:
    if outcome.status == FINISHED:
        run = store.load(outcome.index)
        if run is not None:
            made = 0 if run.evaluations is None else len(run.evaluations.values)
            extra = f", {outcome.replayed} of them replayed" if outcome.replayed else ""
            note = f" ({outcome.message})" if outcome.message else ""
            say(
                f"run {outcome.index}: ELBO {run.elbo:.3f} ± {run.elbo_sd:.3f}, {made} evaluations"
                f"{extra}, {run.seconds or 0:.0f} s{note}"
            )
    elif outcome.status != BUSY:
        if store.failure(outcome.index) is None:
            store.save_failure(outcome.index, {"message": outcome.message})
        say(f"run {outcome.index} failed: {outcome.message}")


def _no_runs(store: RunStore, n_runs: int) -> str:
    failures = [(m, store.failure(m)) for m in range(n_runs)]
    lines = [f"  run {m}: {f['message']}" for m, f in failures if f]
    return f"none of {n_runs} runs finished in {store.directory}:\n" + "\n".join(lines)
