"""The back ends that users can name, behind one function: `submitter(executor, …)`.

"local" (the default): processes of our own, through pebble. Each task has a fresh process, forked
from a clean server that has the libraries loaded already, so one that dies, hangs or spoils global
state harms only itself, and a time limit kills it. Otherwise any `concurrent.futures.Executor`, or
a `dask.distributed.Client` (or the address of a scheduler).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from pebble import ProcessPool

from vbstack.launching.cores import available_cores
from vbstack.launching.processes import CleanContext
from vbstack.problem import Problem

# Calls a function with the packed problem and these arguments, somewhere else.
Submit = Callable[..., "Future[Any]"]


@contextmanager
def submitter(
    executor: Any,
    problem: Problem,
    n_workers: int | None,
    timeout: float | None,
    modules: list[str],
) -> Iterator[Submit]:
    """A function that has others called with the packed problem and further arguments.

    Local processes are killed after `timeout` seconds; they have these modules loaded.
    """
    if is_local(executor):
        packed = problem.packed()
        pool: Any = ProcessPool(
            max_workers=n_workers or available_cores(),
            max_tasks=1,
            context=CleanContext(modules),
        )
        try:
            yield lambda do, *args: pool.schedule(do, (packed, *args), timeout=timeout)
            pool.close()
        finally:
            pool.stop()  # a no-op after close; on Ctrl-C it kills the workers, journals stay
            pool.join()
    elif is_dask(executor):
        with _dask_client(executor) as client:
            # A run takes minutes: sent once to each worker, and tried elsewhere if a worker dies.
            # Under a key of its own: one by content may be that of an earlier copy, on its way out.
            shared = client.scatter(problem.packed(), broadcast=True, hash=False)
            yield lambda do, *args: client.submit(do, shared, *args, pure=False, retries=0)
    elif isinstance(executor, Executor):
        packed = problem.packed()
        yield lambda do, *args: executor.submit(do, packed, *args)
    else:
        check_executor(executor)


def check_executor(executor: Any) -> None:
    """An error if there is no such back end."""
    known = executor in (None, "local", "here") or is_dask(executor)
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


def is_dask(executor: Any) -> bool:
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


def worker_count(executor: Any, n_workers: int | None) -> int | None:
    """How many evaluations can be made at once there; None if it cannot be told."""
    if isinstance(executor, str) and executor == "here":
        return 1
    if is_local(executor):
        return n_workers or available_cores()
    if is_dask(executor):
        with _dask_client(executor) as client:
            return int(sum(client.nthreads().values()))
    return n_workers or getattr(executor, "_max_workers", None)
