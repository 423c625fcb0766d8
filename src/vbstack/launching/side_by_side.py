"""Evaluations at given points, side by side on any executor, each paid once.

They are kept in the log of a directory (`PointLog`) by the processes that make them. Calling again
makes only those that are missing, whatever happened before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vbstack.arrays import Array
from vbstack.launching.back_ends import is_local, worker_count
from vbstack.launching.executors import outcomes
from vbstack.launching.worker import Task
from vbstack.problem import Evaluation, Problem
from vbstack.runs.plan import Plan
from vbstack.runs.point_log import PointLog

_PARTS = 4  # tasks for each local process: each costs a process, so points share them


class PointsFailed(RuntimeError):
    """Some of the points could not be evaluated; the others are kept. The message says why."""


def evaluated(
    problem: Problem,
    points: Array,
    directory: str,
    plan: Plan,
    *,
    executor: Any = None,
    n_workers: int | None = None,
    deadline: float = math.inf,
) -> tuple[list[Evaluation], int]:
    """The evaluations at points (n, D), in order; and how many of them were made now."""
    log = PointLog(directory)
    asked = [tuple(map(float, x)) for x in points]
    with log.claim():
        before = log.read()
        known = {one.x for one in before.values()}
        new = [x for x in dict.fromkeys(asked) if x not in known]
        first = max(before, default=-1) + 1
        parts = _parts(list(enumerate(new, first)), problem.vectorized, executor, n_workers)
        tasks = [Task(directory, i, plan, points=tuple(part)) for i, part in enumerate(parts)]
        reasons = _performed(executor, problem, tasks, n_workers, deadline)
    found = {one.x: one for one in log.read().values()}
    missing = [x for x in new if x not in found]
    if missing:
        why = reasons[0] if reasons else "the process that made it died"
        raise PointsFailed(
            f"{len(missing)} of {len(asked)} evaluations were not made: {why}. The others are kept "
            "in the store; call again to make those that are missing, or choose on_error='floor' "
            "where the model fails for good"
        )
    return [found[x] for x in asked], len(new)


def _performed(
    executor: Any, problem: Problem, tasks: list[Task], n_workers: int | None, deadline: float
) -> list[str]:
    """Do the tasks, once more those whose process died; returns why some failed."""
    reasons: list[str] = []
    for last in (False, True):
        died: set[int] = set()
        for outcome in outcomes(executor, problem, tasks, n_workers=n_workers, deadline=deadline):
            if outcome.status == "died" and not last:
                died.add(outcome.index)
            elif outcome.status in ("died", "failed"):
                reasons.append(outcome.message)
        # What the process had finished before it died is in the log already.
        made = {place for task in tasks for place in PointLog(task.directory).read()}
        tasks = [_without(task, made) for task in tasks if task.index in died]
        tasks = [task for task in tasks if task.points]
        if not tasks:
            break
    return reasons


def _without(task: Task, made: set[int]) -> Task:
    left = tuple(point for point in task.points if point[0] not in made)
    return Task(task.directory, task.index, task.plan, points=left)


def _parts(
    points: Sequence[tuple[int, tuple[float, ...]]],
    vectorized: bool,
    executor: Any,
    n_workers: int | None,
) -> list[Sequence[tuple[int, tuple[float, ...]]]]:
    """The points of each task: one, but for local processes, which take a while to begin, and for
    a vectorized log density, which each worker calls once."""
    count = len(points)
    if vectorized or is_local(executor):
        workers = worker_count(executor, n_workers) or 1
        count = min(count, workers if vectorized else _PARTS * workers)
    return [points[i::count] for i in range(count)]
