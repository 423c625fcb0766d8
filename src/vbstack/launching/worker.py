"""What a worker does: one run of a store, from its seed to its file. Everything it needs is plain.

Whatever happens is an `Outcome`, never an exception: the launcher decides what to do with it.
"""

from __future__ import annotations

import pickle
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vbstack.checks import shortened
from vbstack.engines.attempts import (
    MakesAll,
    Rule,
    Wanted,
    calls,
    one_call,
    too_slow_text,
    within,
)
from vbstack.engines.recorder import Progress, Recorder, ReplayMismatch
from vbstack.engines.registry import engine_named
from vbstack.modes import OutcomeStatus
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.plan import Plan
from vbstack.runs.point_log import PointLog
from vbstack.runs.printable import LONGEST, printable
from vbstack.runs.store import RunStore

_TRACEBACK = 4000  # characters of a traceback that are kept


class RunStopped(BaseException):
    """The launcher does not want the run any more, or is gone; that is no failure of the run."""


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
    An evaluation that takes longer than `evaluation_timeout` seconds has failed.
    """

    directory: str
    index: int
    plan: Plan
    only_start: bool = False
    again: tuple[Recorded, ...] = ()
    points: tuple[tuple[int, tuple[float, ...]], ...] = ()
    evaluation_timeout: float | None = None

    @property
    def is_run(self) -> bool:
        """Whether it is a run, or the beginning of one."""
        return not (self.again or self.points)

    @property
    def rule(self) -> Rule:
        """What happens when an evaluation fails."""
        return Rule(self.plan.on_error or "fail_run", self.evaluation_timeout)


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


def perform_packed(packed: bytes, task: Task, makes_all: MakesAll | None = None) -> Outcome:
    """`perform` for a problem that came as bytes from our own launcher."""
    try:
        problem: Problem = pickle.loads(packed)
    except BaseException as error:
        message = f"the problem cannot be read in its process: {_said(error)}"
        if task.points:
            return Outcome(task.index, "failed", printable(message))
        return _failed(RunStore(task.directory), task, message)
    return perform(problem, task, makes_all)


def perform(problem: Problem, task: Task, makes_all: MakesAll | None = None) -> Outcome:
    """Do one run, resuming it by replay if it was begun before.

    Its evaluations are made by `makes_all`, which knows the task's rule for failures; without it
    one after the other in this process.
    """
    if task.again:
        limit = task.evaluation_timeout
        found = tuple(_made_again(problem, recorded, limit) for recorded in task.again)
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
            with ExitStack() as journals:
                do = _begin if task.only_start else _finish
                return do(problem, task, store, journals, makes_all)
    except EvaluationError as error:
        return _failed(store, task, str(error), where=error.traceback, x=error.x.tolist())
    except OSError as error:
        return _failed(store, task, str(store.unwritable(error)))
    except Exception as error:
        return _failed(store, task, _said(error))


def _begin(
    problem: Problem, task: Task, store: RunStore, journals: ExitStack, makes_all: MakesAll | None
) -> Outcome:
    """Only the first evaluation of a run, which is that of its start; the run replays it."""
    recorder = _recorder(problem, task, store, journals, makes_all)
    if not recorder.journalled and not recorder.precomputed:
        recorder(task.plan.start(task.index))
    return Outcome(task.index, "begun")


def _made_again(
    problem: Problem, recorded: Recorded, limit: float | None
) -> tuple[tuple[float, float | None], ...] | str:
    """Value and sd now, with each of the seeds until one gives the same; or why there is none."""
    found = []
    for seed in recorded.seeds or ((0,),):
        rng = np.random.default_rng(list(seed))
        try:
            one = within(limit, partial(problem.evaluate, np.array(recorded.x), rng))
        except EvaluationError as error:
            return error.message
        except TimeoutError:
            return too_slow_text(limit)
        found.append(one)
        if one[0] == recorded.value:
            break
    return tuple(found)


def _evaluated(problem: Problem, task: Task) -> Outcome:
    """Evaluate the task's points; one that fails does not keep the others from being made."""
    log, failures = PointLog(task.directory), []
    wanted = [Wanted(place, x, (task.plan.seed, 6, place)) for place, x in task.points]
    for call in calls(problem, wanted):
        for one, found in zip(call, one_call(problem, call, task.rule), strict=True):
            if isinstance(found, EvaluationError):
                failures.append(found)
                continue
            try:
                log.append(one.place, found)
            except OSError as error:
                reason = str(RunStore(task.directory).unwritable(error))
                return Outcome(task.index, "failed", reason)
    if not failures:
        return Outcome(task.index, "asked")
    first = failures[0]
    trace = shortened(first.traceback, _TRACEBACK)
    return Outcome(task.index, "failed", printable(str(first)), traceback=trace)


def _finish(
    problem: Problem, task: Task, store: RunStore, journals: ExitStack, makes_all: MakesAll | None
) -> Outcome:
    plan, notes = task.plan, list(store.set_aside)
    engine, start, seed = engine_named(plan.engine), plan.start(task.index), _seed(task)
    try:
        recorder = _recorder(problem, task, store, journals, makes_all)
        notes += recorder.journal.damaged
        run = engine(problem, start, seed, recorder, plan.engine_options)
    except ReplayMismatch as mismatch:
        notes.append(
            f"could not be replayed ({mismatch}); its evaluations were used as known beforehand"
        )
        journals.close()
        store.give_up_replay(task.index)
        recorder = _recorder(problem, task, store, journals, makes_all)
        run = engine(problem, start, seed, recorder, plan.engine_options)
    if recorder.floored:
        notes.append(f"{len(recorder.floored)} failed evaluations were floored")
    store.save(task.index, run)
    return Outcome(task.index, "finished", "; ".join(notes), recorder.replayed)


def _seed(task: Task) -> int:
    return task.plan.run_seed(task.index)


def _recorder(
    problem: Problem, task: Task, store: RunStore, journals: ExitStack, makes_all: MakesAll | None
) -> Recorder:
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
        task.rule.on_error,
        store.precomputed(task.index),
        watch,
        makes_all,
        task.evaluation_timeout,
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
