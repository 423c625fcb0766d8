"""Where evaluations are made apart from their run: processes of ours, or any back end."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from vbstack.checks import shortened
from vbstack.engines.attempts import Found, Rule, Wanted, one_call, too_slow
from vbstack.engines.one_thread import one_thread
from vbstack.launching.back_ends import is_local, submitter, worker_count
from vbstack.launching.processes import Child, CleanContext
from vbstack.problem import EvaluationError, Problem

Call = Sequence[Wanted]  # of the log density
SubmitCall = Callable[[Call], "Future[list[Found]]"]

_unpacked = threading.local()


@contextmanager
def evaluators(
    executor: Any, problem: Problem, n_workers: int | None, rule: Rule, context: CleanContext
) -> Iterator[SubmitCall]:
    """A function that has calls of the log density made there, by this rule for failures."""
    if is_local(executor):
        count = worker_count(executor, n_workers)
        local = _LocalEvaluators(context, problem, rule, count or 1)
        try:
            yield local.submit
        finally:
            local.stop()
    else:
        with submitter(executor, problem, n_workers, None, []) as submit:
            yield lambda call: submit(evaluate_packed, call, rule)


def evaluate_packed(packed: bytes, call: Call, rule: Rule) -> list[Found]:
    """One call of a log density that came as bytes; each thread has a copy of its own."""
    if getattr(_unpacked, "packed", None) != packed:
        _unpacked.problem, _unpacked.packed = pickle.loads(packed), packed
    with one_thread():
        return one_call(_unpacked.problem, call, rule)


class _LocalEvaluators:
    """Processes of ours; one that takes too long for a call is killed.

    Each thread of a pool has a process, which makes the thread's calls one after the other.
    """

    def __init__(self, context: CleanContext, problem: Problem, rule: Rule, count: int):
        self._context, self._rule, self._noisy = context, rule, problem.noisy
        self._packed = problem.packed()
        self._threads = ThreadPoolExecutor(count)
        self._mine, self._lock = threading.local(), threading.Lock()
        self._children: set[Child] = set()
        self._stopped = False

    def submit(self, call: Call) -> Future[list[Found]]:
        return self._threads.submit(self._made, call)

    def stop(self) -> None:
        """End the processes, at whatever they are."""
        with self._lock:
            self._stopped = True
            children = list(self._children)
        for child in children:
            child.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in children:
            child.end()

    def _made(self, call: Call) -> list[Found]:
        """The evaluations of a call; it is made once more if its process died."""
        for _ in range(2):
            child = self._child()
            try:
                child.send(call)
                return child.receive(self._rule.timeout)
            except TimeoutError:
                self._end(child)
                ended = "its process was killed"
                return self._failed([too_slow(one, self._rule.timeout, ended) for one in call])
            except (EOFError, OSError):
                code = self._end(child)
                if self._stopped:
                    break
        text = f"the process that called log_density died twice, with exit code {code}"
        return self._failed([EvaluationError(text, np.array(one.x)) for one in call])

    def _failed(self, errors: list[EvaluationError]) -> list[Found]:
        return [self._rule.failed(self._noisy, error) for error in errors]

    def _child(self) -> Child:
        """The process of this thread, begun if there is none."""
        child = getattr(self._mine, "child", None)
        if child is None:
            child = Child(self._context, _evaluate, self._packed, self._rule)
            self._mine.child = child
            with self._lock:
                self._children.add(child)
                if self._stopped:
                    child.kill()
            reason = child.receive()
            if reason:
                self._end(child)
                raise RuntimeError(reason)
        return child

    def _end(self, child: Child) -> int | None:
        self._mine.child = None
        with self._lock:
            self._children.discard(child)
        return child.end()


def _evaluate(pipe: Any, packed: bytes, rule: Rule) -> None:
    """What a process does: say that it is ready, then make calls until the launcher is gone."""
    try:
        problem: Problem = pickle.loads(packed)
    except BaseException as error:
        reason = f"{type(error).__name__}: {shortened(str(error))}"
        pipe.send(f"the problem cannot be read in its process: {reason}")
        return
    in_time = replace(rule, timeout=None)  # the launcher has the clock
    with suppress(EOFError, OSError), one_thread():
        pipe.send("")
        while True:
            pipe.send(one_call(problem, pipe.recv(), in_time))
