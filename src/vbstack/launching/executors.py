"""Where runs happen, and where their evaluations: `outcomes(executor, …)`.

A run is usually a task of the back end, which makes its evaluations too. Where runs propose
batches, runs have local processes of their own and only evaluations go to the back end
(`conducting`). "here": in this process, one run after the other; runs of a vectorized log density
advance together and share its calls (`together`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any

from vbstack.checks import shortened
from vbstack.engines.registry import HEAVY_IMPORTS
from vbstack.launching.back_ends import is_dask, is_local, submitter
from vbstack.launching.conducting import conducted
from vbstack.launching.together import performed_together
from vbstack.launching.worker import Outcome, Task, perform, perform_packed
from vbstack.problem import Problem


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
    engines = {HEAVY_IMPORTS[task.plan.engine] for task in tasks if not task.points}
    modules = [__name__, *sorted(engines)]  # that processes of ours have from the beginning
    if isinstance(executor, str) and executor == "here":
        together = problem.vectorized and all(map(_shares_calls, tasks))
        yield from (performed_together if together else _performed_here)(problem, tasks, deadline)
        return
    if tasks and all(_is_conducted(task, executor) for task in tasks):
        yield from conducted(
            executor,
            problem,
            tasks,
            modules,
            n_workers=n_workers,
            run_timeout=run_timeout,
            deadline=deadline,
        )
        return
    with submitter(executor, problem, n_workers, run_timeout, modules) as submit:
        futures = {submit(perform_packed, task): task for task in tasks}
        completed = _dask_completed if is_dask(executor) else as_completed
        left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        try:
            for future in completed(futures, timeout=left):
                yield _outcome(future, futures[future], run_timeout, is_local(executor))
        finally:
            for future in futures:
                future.cancel()


def _is_conducted(task: Task, executor: Any) -> bool:
    """Whether evaluations are made apart from their run: to be side by side, or to be stopped."""
    stoppable = task.evaluation_timeout is not None and is_local(executor)
    return task.is_run and (stoppable or (task.plan.batch and not task.only_start))


def _shares_calls(task: Task) -> bool:
    """Whether the run can wait for others in a thread; pyvbmc has state of the whole process."""
    return task.is_run and task.plan.engine == "native"


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


def _dask_completed(futures: dict[Any, Task], timeout: float | None) -> Iterator[Any]:
    import distributed

    completed: Any = distributed.as_completed
    yield from completed(list(futures), timeout=timeout)
