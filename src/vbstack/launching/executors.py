"""Where runs happen. One small function hides the back ends: `outcomes(executor, …)`.

"local" (the default): processes of our own, through pebble. Each run has a fresh process, forked
from a clean server that has the libraries loaded already, so a run that dies, hangs or spoils
global state harms only itself, and a time limit kills it. "here": in this process, one after the
other. Otherwise any `concurrent.futures.Executor`, or a `dask.distributed.Client` (or the address
of a scheduler).
"""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from typing import Any

from pebble import ProcessPool

from vbstack.checks import shortened
from vbstack.engines.registry import HEAVY_IMPORTS
from vbstack.launching.cores import available_cores
from vbstack.launching.worker import Outcome, Task, perform, perform_packed
from vbstack.problem import Problem

Submit = Callable[[Task], "Future[Outcome]"]


def outcomes(
    executor: Any,
    problem: Problem,
    tasks: Sequence[Task],
    *,
    n_workers: int | None = None,
    run_timeout: float | None = None,
    deadline: float = math.inf,
) -> Iterator[Outcome]:
    """The outcome of every task, in the order in which they end.

    At `deadline` (by `time.monotonic`) a TimeoutError ends it: local processes are killed, on other
    back ends the tasks that wait are taken back, those under way go on.
    """
    if executor == "here":
        yield from _performed_here(problem, tasks, deadline)
        return
    heavy = sorted({HEAVY_IMPORTS[task.plan.engine] for task in tasks if not task.points})
    with _submitter(executor, problem, n_workers, run_timeout, heavy) as submit:
        futures = {submit(task): task for task in tasks}
        completed = _dask_completed if _is_dask(executor) else as_completed
        left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        try:
            for future in completed(futures, timeout=left):
                yield _outcome(future, futures[future], run_timeout, is_local(executor))
        finally:
            for future in futures:
                future.cancel()


def _performed_here(problem: Problem, tasks: Sequence[Task], deadline: float) -> Iterator[Outcome]:
    for task in tasks:
        if time.monotonic() > deadline:
            raise TimeoutError
        yield perform(problem, task)


def _outcome(future: Any, task: Task, run_timeout: float | None, is_local: bool) -> Outcome:
    try:
        result = future.result()
    except TimeoutError:
        return Outcome(task.index, "failed", f"took longer than the limit of {run_timeout} s")
    except Exception as error:
        message = f"its process died: {type(error).__name__}: {shortened(str(error))}"
        return Outcome(task.index, "died" if is_local else "failed", message)
    return result if isinstance(result, Outcome) else Outcome(task.index, "failed", repr(result))


@contextmanager
def _submitter(
    executor: Any,
    problem: Problem,
    n_workers: int | None,
    run_timeout: float | None,
    heavy: list[str],
) -> Iterator[Submit]:
    if is_local(executor):
        packed = problem.packed()
        pool: Any = ProcessPool(
            max_workers=n_workers or available_cores(),
            max_tasks=1,
            context=_CleanContext(heavy),
        )
        try:
            yield lambda task: pool.schedule(perform_packed, (packed, task), timeout=run_timeout)
            pool.close()
        finally:
            pool.stop()  # a no-op after close; on Ctrl-C it kills the workers, journals stay
            pool.join()
    elif _is_dask(executor):
        with _dask_client(executor) as client:
            # A run takes minutes: sent once to each worker, and tried elsewhere if a worker dies.
            # Under a key of its own: one by content may be that of an earlier copy, on its way out.
            shared = client.scatter(problem.packed(), broadcast=True, hash=False)
            yield lambda task: client.submit(perform_packed, shared, task, pure=False, retries=0)
    elif isinstance(executor, Executor):
        packed = problem.packed()
        yield lambda task: executor.submit(perform_packed, packed, task)
    else:
        check_executor(executor)


def check_executor(executor: Any) -> None:
    """An error if there is no such back end."""
    known = executor in (None, "local", "here") or _is_dask(executor)
    if not known and not isinstance(executor, Executor):
        raise TypeError(
            f"executor={executor!r} is not known; use 'local', 'here', a concurrent.futures "
            "Executor, or a dask.distributed Client or scheduler address"
        )


def check_can_be_sent(executor: Any, problem: Problem) -> None:
    """An error if the executor has processes of its own and the problem cannot be sent there."""
    if executor != "here":
        problem.packed()


def is_local(executor: Any) -> bool:
    """Whether it means processes of our own."""
    return executor is None or (isinstance(executor, str) and executor == "local")


def _is_dask(executor: Any) -> bool:
    named = isinstance(executor, str) and "://" in executor
    return named or type(executor).__module__.startswith("distributed")


@contextmanager
def _dask_client(executor: Any) -> Iterator[Any]:
    if not isinstance(executor, str):
        yield executor
        return
    import distributed

    make_client: Any = distributed.Client
    with make_client(executor) as client:
        yield client


def _dask_completed(futures: dict[Any, Task], timeout: float | None) -> Iterator[Any]:
    import distributed

    completed: Any = distributed.as_completed
    yield from completed(list(futures), timeout=timeout)


class _CleanProcess(multiprocessing.context.SpawnProcess):
    """A process that does not import the caller's script again.

    Functions of the script travel as bytes, so the import is not needed; and without it a script
    needs no `if __name__ == "__main__"`.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        from multiprocessing.popen_forkserver import Popen

        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            return Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _CleanContext(multiprocessing.context.ForkServerContext):
    Process = _CleanProcess  # type: ignore[assignment]

    def __init__(self, heavy: list[str]) -> None:
        """The server of the processes imports these modules before it forks the first."""
        super().__init__()
        self.set_forkserver_preload(["vbstack.launching.worker", *heavy])
