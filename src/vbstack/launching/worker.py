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

from vbstack.engines.recorder import Progress, Recorder, ReplayMismatch
from vbstack.engines.registry import engine_named
from vbstack.modes import OutcomeStatus
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.plan import Plan
from vbstack.runs.printable import printable, shortened
from vbstack.runs.store import RunStore


@dataclass(frozen=True)
class Task:
    """One run to do: where, and which of the plan."""

    directory: str
    index: int
    plan: Plan


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "finished", "busy" (another process has it) or "failed", and why."""

    index: int
    status: OutcomeStatus
    message: str = ""
    replayed: int = 0


def perform_packed(packed: bytes, task: Task) -> Outcome:
    """`perform` for a problem that came as bytes from our own launcher."""
    problem: Problem = pickle.loads(packed)
    return perform(problem, task)


def perform(problem: Problem, task: Task) -> Outcome:
    """Do one run, resuming it by replay if it was begun before."""
    store = RunStore(task.directory)
    try:
        with store.claim(task.index) as mine:
            if not mine:
                return Outcome(task.index, "busy", "another process works on it")
            if store.take_damaged_aside(task.index) is not None:
                return Outcome(task.index, "finished", "was there already")
            return _finish(problem, task, store)
    except EvaluationError as error:
        return _failed(store, task, str(error), x=error.x.tolist())
    except OSError as error:
        return _failed(store, task, str(store.unwritable(error)))
    except Exception as error:
        return _failed(store, task, f"{type(error).__name__}: {error}")


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


def _failed(store: RunStore, task: Task, message: str, **details: Any) -> Outcome:
    message = printable(shortened(message))
    record = {"message": message, "traceback": traceback.format_exc(), **details}
    try:
        store.save_failure(task.index, record)
    except OSError as error:
        message += f" (nor could this be noted in the store: {error})"
    return Outcome(task.index, "failed", message)
