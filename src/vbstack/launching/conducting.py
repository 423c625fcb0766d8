"""Runs in local processes whose evaluations are made elsewhere, side by side.

    launcher:  a thread for each run ── pipe ──▶ its process: the engine, the recorder, the journal
                     │   ◀── points ─────────
                     └── calls ──▶ evaluators (processes of ours, an Executor, Dask)
                         evaluations, each as soon as it is finished ──▶ the run's process

Engines compute side by side in processes of their own, and no worker of a back end ever waits for a
run. The run's process writes its journal. If it dies, the thread waits for what is under way and
adds it to the journal, so that no evaluation is made twice.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from vbstack.checks import shortened
from vbstack.engines.attempts import Found, Rule, Wanted, calls
from vbstack.launching.back_ends import worker_count
from vbstack.launching.evaluators import Call, SubmitCall, evaluators
from vbstack.launching.processes import Child, CleanContext
from vbstack.launching.worker import Outcome, RunStopped, Task, perform_packed
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.store import RunStore


def conducted(
    executor: Any,
    problem: Problem,
    tasks: Sequence[Task],
    modules: list[str],
    *,
    n_workers: int | None,
    run_timeout: float | None,
    deadline: float,
) -> Iterator[Outcome]:
    """The outcome of every run, in the order in which they end; a TimeoutError at the deadline."""
    context, rule = CleanContext(modules), tasks[0].rule
    workers = worker_count(executor, n_workers) or len(tasks)
    with evaluators(executor, problem, n_workers, rule, context) as submit:
        conductor = _Conductor(context, problem, problem.packed(), rule, submit, run_timeout)
        threads = ThreadPoolExecutor(min(len(tasks), workers))
        try:
            futures = [threads.submit(conductor.outcome, task) for task in tasks]
            left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            for future in as_completed(futures, timeout=left):
                yield future.result()
        finally:
            conductor.stop()
            threads.shutdown(wait=True, cancel_futures=True)


@dataclass
class _Conductor:
    """What the threads of the runs share."""

    context: CleanContext
    problem: Problem
    packed: bytes
    rule: Rule
    submit: SubmitCall
    run_timeout: float | None
    stopped: bool = False
    children: set[Child] = field(default_factory=set)
    waiting: list[SimpleQueue[int | None]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> None:
        """End the processes of the runs; their journals stay."""
        with self.lock:
            self.stopped = True
            for child in self.children:
                child.kill()
            for inbox in self.waiting:
                inbox.put(None)

    def outcome(self, task: Task) -> Outcome:
        """How one run ended, which is done in a process of its own."""
        ends = math.inf if self.run_timeout is None else time.monotonic() + self.run_timeout
        served: list[tuple[int, Found]] = []
        child = Child(self.context, _run, self.packed, task)
        with self.lock:
            self.children.add(child)
            if self.stopped:
                child.kill()
        try:
            while not isinstance(message := child.receive(_left(ends)), Outcome):
                served.clear()
                self._serve(child, message, ends, served)
            return message
        except TimeoutError:
            reason = f"took longer than the limit of {self.run_timeout} s"
            return Outcome(task.index, "failed", reason)
        except (EOFError, OSError):
            code = child.end()
            if self.stopped:
                return _stopped(task)
            _keep(task, served)
            return Outcome(task.index, "died", f"its process died with exit code {code}")
        finally:
            with self.lock:
                self.children.discard(child)
            child.end()

    def _serve(
        self, child: Child, wanted: Call, ends: float, served: list[tuple[int, Found]]
    ) -> None:
        """Have all points evaluated, and tell the run each result; a run that died hears none."""
        parts = calls(self.problem, wanted)
        inbox: SimpleQueue[int | None] = SimpleQueue()
        futures = [self.submit(part) for part in parts]
        for place, future in enumerate(futures):
            future.add_done_callback(lambda _, place=place: inbox.put(place))  # type: ignore[misc]
        with self.lock:
            self.waiting.append(inbox)
            if self.stopped:
                inbox.put(None)
        try:
            for _ in parts:
                which = inbox.get(timeout=_left(ends))
                if which is None:
                    raise EOFError
                found = self._found(futures[which], parts[which])
                new = list(zip([one.place for one in parts[which]], found, strict=True))
                served += new
                with suppress(OSError):
                    for pair in new:
                        child.send(pair)
        except Empty:
            raise TimeoutError from None
        finally:
            with self.lock:
                self.waiting.remove(inbox)
            for future in futures:
                if not future.done():
                    future.cancel()

    def _found(self, future: Future[list[Found]], call: Call) -> list[Found]:
        """The evaluations of a call; failures if its process died."""
        try:
            return future.result()
        except Exception as error:
            text = f"the process that called log_density died: {type(error).__name__}: "
            errors = [
                EvaluationError(text + shortened(str(error)), np.array(one.x)) for one in call
            ]
            return [self.rule.failed(self.problem.noisy, one) for one in errors]


def _left(ends: float) -> float | None:
    return None if ends == math.inf else max(0.0, ends - time.monotonic())


def _stopped(task: Task) -> Outcome:
    return Outcome(task.index, "failed", "was stopped", noted=True)


def _keep(task: Task, served: list[tuple[int, Found]]) -> None:
    """Add to the journal what its run, which died, may not have written any more.

    Where nothing can be written the run fails with that reason when it is tried again.
    """
    store = RunStore(task.directory)
    with suppress(OSError), store.claim(task.index) as mine:
        if mine:
            with store.journal(task.index) as journal:
                for place, found in served:
                    if isinstance(found, Evaluation) and place not in journal.by_place:
                        journal.append(found, place)


def _run(pipe: Any, packed: bytes, task: Task) -> None:
    """What the process of a run does; it ends without a word when the launcher is gone."""

    def makes_all(wanted: Sequence[Wanted]) -> Iterator[tuple[int, Found]]:
        said(pipe.send, list(wanted))
        for _ in wanted:
            yield said(pipe.recv)

    def said(speak: Callable[..., Any], *message: Any) -> Any:
        try:
            return speak(*message)
        except (EOFError, OSError) as error:
            raise RunStopped from error

    with suppress(RunStopped, OSError):
        pipe.send(perform_packed(packed, task, makes_all))
