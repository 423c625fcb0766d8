"""What a worker does: one run of a store, from its seed to its file. Everything it needs is plain.

Whatever happens is an `Outcome`, never an exception: the launcher decides what to do with it.
"""

from __future__ import annotations

import pickle
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbstack.checks import shortened
from vbstack.engines.recorder import Progress, Recorder, ReplayMismatch, attempted
from vbstack.engines.registry import engine_named
from vbstack.modes import OutcomeStatus
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.plan import Plan
from vbstack.runs.point_log import PointLog
from vbstack.runs.printable import LONGEST, printable
from vbstack.runs.store import RunStore

_TRACEBACK = 4000  # characters of a traceback that are kept


@dataclass(frozen=True)
class Recorded:
    """An evaluation in a store that is to be made again.

    `seeds` are those of the generators that it may have had, none if they are not known.
    """

    run: int
    x: tuple[float, ...]
    value: float
    sd: float | None
    seeds: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Task:
    """One run to do: where, and which of the plan.

    With `only_start`, only its first evaluation, at the start, is made and put in its journal.
    With `again`, these evaluations are made again, and no run. With `points`, by their places in
    the log of the directory (`PointLog`), these are evaluated and put there, and no run is made.
    """

    directory: str
    index: int
    plan: Plan
    only_start: bool = False
    again: tuple[Recorded, ...] = ()
    points: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a task ended.

    A run is "finished", "busy" (another process has it), "failed" with a message, or its process
    "died"; a start is "begun"; evaluations made again are "asked", with what was found at each.
    `noted`: the store has the failure already.
    """

    index: int
    status: OutcomeStatus
    message: str = ""
    replayed: int = 0
    traceback: str = ""
    noted: bool = False
    found: tuple[tuple[tuple[float, float | None], ...] | str, ...] = ()


def perform_packed(packed: bytes, task: Task) -> Outcome:
    """`perform` for a problem that came as bytes from our own launcher."""
    try:
        problem: Problem = pickle.loads(packed)
    except BaseException as error:
        message = f"the problem cannot be read in its process: {_said(error)}"
        if task.points:
            return Outcome(task.index, "failed", printable(message))
        return _failed(RunStore(task.directory), task, message)
    return perform(problem, task)


def perform(problem: Problem, task: Task) -> Outcome:
    """Do one run, resuming it by replay if it was begun before."""
    if task.again:
        found = tuple(_made_again(problem, recorded) for recorded in task.again)
        return Outcome(task.index, "asked", found=found)
    if task.points:
        return _evaluated(problem, task)
    store = RunStore(task.directory)
    try:
        with store.claim(task.index) as mine:
            if not mine:
                return Outcome(task.index, "busy", "another process works on it")
            if store.take_damaged_aside(task.index) is not None:
                return Outcome(task.index, "finished", "was there already")
            store.path(task.index, "failed.json").unlink(missing_ok=True)
            return (_begin if task.only_start else _finish)(problem, task, store)
    except EvaluationError as error:
        return _failed(store, task, str(error), where=error.traceback, x=error.x.tolist())
    except OSError as error:
        return _failed(store, task, str(store.unwritable(error)))
    except Exception as error:
        return _failed(store, task, _said(error))


def _begin(problem: Problem, task: Task, store: RunStore) -> Outcome:
    """Only the first evaluation of a run, which is that of its start; the run replays it."""
    with ExitStack() as journals:
        recorder = _recorder(problem, task, store, journals)
        if not recorder.journalled and not recorder.precomputed:
            recorder(task.plan.start(task.index))
    return Outcome(task.index, "begun")


def _made_again(
    problem: Problem, recorded: Recorded
) -> tuple[tuple[float, float | None], ...] | str:
    """Value and sd now, with each of the seeds until one gives the same; or why there is none."""
    found = []
    for seed in recorded.seeds or ((0,),):
        try:
            one = problem.evaluate(np.array(recorded.x), np.random.default_rng(list(seed)))
        except EvaluationError as error:
            return error.message
        found.append(one)
        if one[0] == recorded.value:
            break
    return tuple(found)


def _evaluated(problem: Problem, task: Task) -> Outcome:
    """Evaluate the task's points; one that fails does not keep the others from being made."""
    log, failures = PointLog(task.directory), []
    for place, x in task.points:
        try:
            seed = (task.plan.seed, 6, place)
            log.append(place, attempted(problem, x, seed, task.plan.on_error or "fail_run"))
        except EvaluationError as error:
            failures.append(error)
        except OSError as error:
            return Outcome(task.index, "failed", str(RunStore(task.directory).unwritable(error)))
    if not failures:
        return Outcome(task.index, "asked")
    first = failures[0]
    trace = shortened(first.traceback, _TRACEBACK)
    return Outcome(task.index, "failed", printable(str(first)), traceback=trace)


def _finish(problem: Problem, task: Task, store: RunStore) -> Outcome:
    with ExitStack() as journals:
        return _finish_with(problem, task, store, journals)


def _finish_with(problem: Problem, task: Task, store: RunStore, journals: ExitStack) -> Outcome:
    plan, notes = task.plan, list(store.set_aside)
    engine, start, seed = engine_named(plan.engine), plan.start(task.index), _seed(task)
    try:
        recorder = _recorder(problem, task, store, journals)
        notes += recorder.journal.damaged
        run = engine(problem, start, seed, recorder, plan.options)
    except ReplayMismatch as mismatch:
        notes.append(
            f"could not be replayed ({mismatch}); its evaluations were used as known beforehand"
        )
        journals.close()
        store.give_up_replay(task.index)
        recorder = _recorder(problem, task, store, journals)
        run = engine(problem, start, seed, recorder, plan.options)
    if recorder.floored:
        notes.append(f"{len(recorder.floored)} failed evaluations were floored")
    store.save(task.index, run)
    return Outcome(task.index, "finished", "; ".join(notes), recorder.replayed)


def _seed(task: Task) -> int:
    return task.plan.run_seed(task.index)


def _recorder(problem: Problem, task: Task, store: RunStore, journals: ExitStack) -> Recorder:
    begun = time.monotonic()
    last = -1

    def watch(progress: Progress) -> None:
        nonlocal last
        if progress.iteration != last:
            last = progress.iteration
            store.note(task.index, last, progress.elbo, time.monotonic() - begun)

    return Recorder(
        problem,
        _seed(task),
        journals.enter_context(store.journal(task.index)),
        task.plan.on_error or "fail_run",
        store.precomputed(task.index),
        watch,
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {shortened(str(error), LONGEST)}"


def _failed(
    store: RunStore, task: Task, message: str, where: str | None = None, **details: Any
) -> Outcome:
    """A failure, noted in the store; `where` is the traceback, else the one at hand is."""
    message = printable(message)
    trace = shortened(traceback.format_exc() if where is None else where, _TRACEBACK)
    noted = False
    try:
        store.save_failure(task.index, {"message": message, "traceback": trace, **details})
        noted = True
    except OSError as error:
        message += f" (nor could this be noted in the store: {error})"
    return Outcome(task.index, "failed", message, traceback=trace, noted=noted)
