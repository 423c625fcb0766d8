"""`launch()`: M runs of a problem, kept in a store as they finish."""

from __future__ import annotations

import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from vbstack.checks import shortened
from vbstack.launching.back_ends import check_can_be_sent
from vbstack.launching.executors import outcomes
from vbstack.launching.model_check import check_model
from vbstack.launching.progress import Reporter
from vbstack.launching.settings import Announce, LaunchSettings
from vbstack.launching.worker import Outcome, Task
from vbstack.modes import BatchChoice, EngineChoice, OnError, StartsKind
from vbstack.problem import Problem
from vbstack.runs.fingerprint import Fingerprint
from vbstack.runs.plan import Plan
from vbstack.runs.run import Run, TooFewRuns
from vbstack.runs.store import RunStore

_BUSY_SECONDS = 2.0  # between two looks at runs that another launcher has
_STARTS_TRIED = 3  # starts at which the log density may fail before a new store is given up


class RunsFailed(RuntimeWarning):
    """Some runs were not made; the message says which, and why."""


@dataclass(frozen=True)
class Launched:
    """The finished runs that were asked for, by their numbers; why each of the others is not."""

    store: RunStore
    runs: Mapping[int, Run]
    failures: Mapping[int, str]


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
    fresh: bool = False,
    trust_store: bool = False,
    batch: BatchChoice = "auto",
    evaluation_timeout: float | None = None,
) -> list[Run]:
    """The finished runs 0 … n_runs − 1 of the store, in order; those missing are made first.

    Run m depends on the problem, the plan of the store (`Plan`) and m only: not on the back end,
    the order or the number of workers. A run that was interrupted is resumed by replay; a finished
    one is never made again. Runs that fail are recorded with the point that caused it, and left
    out, with a warning.

    All settings are checked before anything is written. In a new store the first evaluation, at
    the start of the first run, is made before the others; a log density that fails at the starts
    of three runs ends the launch. In a store that holds evaluations already, the log density must
    be the one they were made with: its fingerprint is compared, and one or two of them are made
    again.

    Parameters
    ----------
    store : RunStore or path
        Where everything is kept; continued if it is there already.
    executor : "local" (default), "here", Executor, dask Client or address
        Where the runs happen (see `executors`).
    seed : int, optional
        Of the whole plan. A store that exists keeps its own seed, starts, options and on_error,
        unless they are given here; other seeds, starts or options are refused.
    starts : "sobol" (default), "uniform" or array (n_runs, D)
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
        The engine's options, by pyvbmc's names or those of `engines.native.policy.Policy`.
    announce : callable, optional
        Called with all runs that are finished, by their numbers, whenever one more is; the line
        that it returns is shown with the progress.
    fresh : bool
        Set everything in the store aside, into a folder within it, and begin with a new plan.
    trust_store : bool
        Do not ask whether what is in the store was made with this log density.
    batch : "auto" (default), True or False
        Whether native runs choose all points of an iteration before one is evaluated, so that
        they are evaluated side by side, and pyvbmc runs their first points. It takes up to a
        fifth more evaluations, and a fraction of the time where there are more workers than runs.
        "auto" is the store's own; in a new store True where workers are more than runs, and for
        a vectorized log density. Then runs have local processes of their own, and only
        evaluations go to the executor.
    evaluation_timeout : float, optional
        Seconds after which an evaluation has failed (one call, of a vectorized log density), with
        what `on_error` says of failures; it is not tried again. Local processes are killed;
        elsewhere the evaluation goes on in its thread, and its worker is free.
    """
    settings = LaunchSettings(
        problem,
        n_runs,
        store,
        executor,
        n_workers,
        seed,
        starts,
        engine,
        timeout,
        run_timeout,
        on_error,
        options,
        progress,
        announce,
        fresh,
        trust_store,
        batch,
        evaluation_timeout,
    )
    return list(launched(settings).runs.values())


def launched(
    settings: LaunchSettings, stacklevel: int = 3, reporter: Reporter | None = None
) -> Launched:
    """`launch` with its settings in one record, and with the runs' numbers.

    A `reporter` that was used before does not say again what it said then.
    """
    timeout = settings.timeout
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    reporter = reporter or Reporter(silent=not settings.progress)
    now = Fingerprint.of(settings.problem)
    check_can_be_sent(settings.executor, settings.problem)
    store = _store(settings, reporter)
    plan = settings.plan(store, now)
    store.tidy()
    finished = store.usable_runs()
    reporter.say_all(store.set_aside)
    if finished:
        more = sum(index >= settings.n_runs for index in finished)
        beyond = f"; {more} of them are beyond the {settings.n_runs} asked for" if more else ""
        reporter.say(f"{len(finished)} runs are in {store.directory} already{beyond}")
    where, wanted = str(store.directory.resolve()), range(settings.n_runs)
    limit = settings.evaluation_timeout
    missing = [index for index in wanted if index not in finished]
    tasks = [Task(where, index, plan, evaluation_timeout=limit) for index in missing]
    job = _Job(settings, store, reporter, dict(finished))
    if tasks:
        store.check_writable()
    if not settings.trust_store:
        job.check_model(plan, now, finished, deadline, bool(tasks))
    tasks = [replace(task, plan=replace(plan, model=now)) for task in tasks]
    _record(store, replace(plan, model=now), bool(tasks))
    with reporter.watching(store, wanted):
        failures = job.perform(tasks, deadline)
    found = store.usable_runs()
    runs = {index: found[index] for index in wanted if index in found}
    failures = {i: failures.get(i, "is not in the store") for i in wanted if i not in runs}
    if not runs:
        raise TooFewRuns(
            f"none of {settings.n_runs} runs finished in {store.directory}:"
            f"{reporter.reasons.listing(failures)}{job.first_traceback()}"
        )
    if failures:
        listing = reporter.reasons.listing(failures)
        text = f"{len(failures)} of {settings.n_runs} runs were not made:{listing}"
        warnings.warn(RunsFailed(text), stacklevel=stacklevel)
    return Launched(store, runs, failures)


def checked_store(settings: LaunchSettings) -> tuple[str, Plan]:
    """The directory and the plan of a store that holds runs of this log density, checked as
    `launch` does before it adds to it."""
    now, reporter = Fingerprint.of(settings.problem), Reporter(silent=not settings.progress)
    store = settings.given_store()
    if store is None or not store.exists():
        where = "none was given" if store is None else f"{store.directory} holds none"
        raise FileNotFoundError(f"a store of runs is needed: {where}")
    store = RunStore(store.directory.absolute())
    plan = settings.plan(store, now)
    store.check_writable()
    if not settings.trust_store:
        finished = store.runs()
        job = _Job(settings, store, reporter, dict(finished))
        job.check_model(plan, now, finished, math.inf, runs_are_missing=True)
    return str(store.directory), plan


def prepared(settings: LaunchSettings, index: int) -> Plan:
    """The plan for one run, made by the caller; the store is checked as `launch` does."""
    now, reporter = Fingerprint.of(settings.problem), Reporter(silent=not settings.progress)
    store = _store(settings, reporter)
    plan = settings.plan(store, now)
    plan.start(index)  # an error if the plan has no starting point for this run
    finished = store.runs()
    if not settings.trust_store:
        job = _Job(settings, store, reporter, dict(finished))
        job.check_model(plan, now, finished, math.inf, index not in finished)
    plan = replace(plan, model=now)
    store.record(plan)
    return plan


def _store(settings: LaunchSettings, reporter: Reporter) -> RunStore:
    """The store that was given, or a new one in a temporary directory."""
    store = settings.given_store()
    if store is None:
        store = RunStore(tempfile.mkdtemp(prefix="vbstack-"))
        reporter.say(f"the runs are kept in {store.directory}")
    elif settings.fresh:
        folder = store.begin_afresh()
        if folder is not None:
            reporter.say(f"what was in {store.directory} is set aside in {folder.name}")
    return RunStore(store.directory.absolute())  # the log density may change the directory


def _record(store: RunStore, plan: Plan, runs_are_missing: bool) -> None:
    """Write the plan down; one to which nothing is added may be in a place to read only."""
    try:
        store.record(plan)
    except OSError:
        if runs_are_missing:
            raise


@dataclass(frozen=True)
class _Job:
    """How the tasks are done, and who hears of it."""

    settings: LaunchSettings
    store: RunStore
    reporter: Reporter
    finished: dict[int, Run]
    died: set[int] = field(default_factory=set)  # runs whose process died once
    tracebacks: list[str] = field(default_factory=list)

    def check_model(
        self,
        plan: Plan,
        now: Fingerprint,
        finished: Mapping[int, Run],
        deadline: float,
        runs_are_missing: bool,
    ) -> None:
        """An error if the store was made with another log density."""

        def perform(task: Task) -> Outcome:
            try:
                limit = self.settings.evaluation_timeout
                return self._single(replace(task, evaluation_timeout=limit), deadline)
            except TimeoutError:
                return Outcome(task.index, "failed", "the time limit is reached")

        problem = self.settings.problem
        line = check_model(problem, self.store, plan, now, finished, perform, runs_are_missing)
        if line:
            self.reporter.say(line)

    def perform(self, tasks: list[Task], deadline: float) -> dict[int, str]:
        """Do the tasks, and say why runs failed; runs that another launcher has are waited for."""
        failures: dict[int, str] = {}
        try:
            if tasks and self._is_new():
                tasks = self._begun(tasks, deadline, failures)
            while tasks:
                again, busy = self._once(tasks, deadline, failures)
                tasks = [task for task in tasks if task.index in again | busy]
                if busy:
                    time.sleep(_BUSY_SECONDS)
        except KeyboardInterrupt:
            self.reporter.say(f"interrupted; {self._kept()}")
            raise
        except TimeoutError:
            self.reporter.say(f"the time limit is reached; {self._kept()}")
            stopped = {task.index: "was stopped by the time limit" for task in tasks}
            return stopped | failures
        return failures

    def _is_new(self) -> bool:
        return not self.finished and not any(map(self.store.journalled, self.store.begun()))

    def _begun(self, tasks: list[Task], deadline: float, failures: dict[int, str]) -> list[Task]:
        """The tasks that are left when one start has been evaluated; none if several fail.

        The evaluation is the first one of its run, which replays it.
        """
        for place, task in enumerate(tasks[:_STARTS_TRIED]):
            outcome = self._single(replace(task, only_start=True), deadline)
            if outcome.status not in ("failed", "died"):
                return tasks[place:]
            failures[task.index] = self._failed(outcome)
        given_up = f"not begun: the log density failed at {len(failures)} other starts"
        failures |= {task.index: given_up for task in tasks[_STARTS_TRIED:]}
        return []

    def _outcomes(self, tasks: list[Task], deadline: float) -> Iterator[Outcome]:
        return outcomes(
            self.settings.executor,
            self.settings.problem,
            tasks,
            n_workers=self.settings.n_workers,
            run_timeout=self.settings.run_timeout,
            deadline=deadline,
        )

    def _single(self, task: Task, deadline: float) -> Outcome:
        """One task; once more if its process died."""
        (outcome,) = self._outcomes([task], deadline)
        if outcome.status == "died":
            (outcome,) = self._outcomes([task], deadline)
        return outcome

    def _once(
        self, tasks: list[Task], deadline: float, failures: dict[int, str]
    ) -> tuple[set[int], set[int]]:
        """Try every task once; returns those to be tried again, and those another launcher has."""
        again, busy = set(), set()
        for outcome in self._outcomes(tasks, deadline):
            if outcome.status == "busy":
                busy.add(outcome.index)
            elif outcome.status == "finished":
                self._finished(outcome)
            elif outcome.status == "died" and outcome.index not in self.died:
                self.died.add(outcome.index)
                again.add(outcome.index)
                self.reporter.say(f"run {outcome.index}: {outcome.message}; it is tried again")
            else:
                failures[outcome.index] = self._failed(outcome)
        return again, busy

    def _finished(self, outcome: Outcome) -> None:
        run = self.store.take_damaged_aside(outcome.index)
        if run is None:
            return
        made = 0 if run.evaluations is None else run.evaluations.paid
        extra = f", {outcome.replayed} of them replayed" if outcome.replayed > 1 else ""
        note = f" ({outcome.message})" if outcome.message else ""
        self.reporter.say(
            f"run {outcome.index}: ELBO {run.elbo:.3f} ± {run.elbo_sd:.3f}, {made} evaluations"
            f"{extra}, {run.seconds or 0:.0f} s{note}"
        )
        self.finished[outcome.index] = run
        announce = self.settings.announce
        if announce is not None:
            self.reporter.announce(announce(self.finished))

    def _failed(self, outcome: Outcome) -> str:
        message = shortened(outcome.message, 1000)
        if not outcome.noted:
            try:
                self.store.save_failure(outcome.index, {"message": message})
            except OSError as error:
                message += f" (nor could this be noted in the store: {error})"
        if outcome.traceback.strip():
            self.tracebacks.append(f"run {outcome.index}:\n{outcome.traceback.rstrip()}")
        self.reporter.say_failed(outcome.index, message)
        return message

    def first_traceback(self) -> str:
        """Where in the user's code the first failure was."""
        return f"\nWhere it failed in {self.tracebacks[0]}" if self.tracebacks else ""

    def _kept(self) -> str:
        return (
            f"everything so far is kept in {self.store.directory}. Call launch again with the same "
            "store to continue."
        )
