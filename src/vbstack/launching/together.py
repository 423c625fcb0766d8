"""Runs that advance together in this process, and share the calls of a vectorized log density.

Each run has a thread, but only one advances at a time. When all of them wait for evaluations, or
have ended, one call makes all that they wait for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue

from vbstack.engines.attempts import Found, Wanted, one_call
from vbstack.launching.worker import Outcome, RunStopped, Task, perform
from vbstack.problem import Problem


def performed_together(
    problem: Problem, tasks: Sequence[Task], deadline: float
) -> Iterator[Outcome]:
    """The outcome of every run, in the order in which they end; a TimeoutError at the deadline."""
    runs = [_Run(problem, task) for task in tasks]
    waiting: list[tuple[_Run, Sequence[Wanted]]] = []
    try:
        for run in runs:
            said = run.begun()
            if isinstance(said, Outcome):
                yield said
            else:
                waiting.append((run, said))
        while waiting:
            if time.monotonic() > deadline:
                raise TimeoutError
            call = [one for _, wanted in waiting for one in wanted]
            found = iter(one_call(problem, call, tasks[0].rule))
            asked, waiting = waiting, []
            for run, wanted in asked:
                said = run.told([(one.place, next(found)) for one in wanted])
                if isinstance(said, Outcome):
                    yield said
                else:
                    waiting.append((run, said))
    finally:
        for run in runs:
            run.stop()


class _Run:
    """A run in a thread, which advances until its next points are wanted or it has ended."""

    def __init__(self, problem: Problem, task: Task):
        self._said: SimpleQueue[Sequence[Wanted] | Outcome] = SimpleQueue()
        self._answers: SimpleQueue[list[tuple[int, Found]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._perform, args=(problem, task), daemon=True)

    def begun(self) -> Sequence[Wanted] | Outcome:
        """Begin; returns the first points that are wanted, or how the run ended."""
        self._thread.start()
        return self._said.get()

    def told(self, found: list[tuple[int, Found]]) -> Sequence[Wanted] | Outcome:
        """Go on with these evaluations; returns the next points, or how the run ended."""
        self._answers.put(found)
        return self._said.get()

    def stop(self) -> None:
        """End the run where it waits; its journal stays."""
        if self._thread.is_alive():
            self._answers.put(None)
            self._thread.join()

    def _perform(self, problem: Problem, task: Task) -> None:
        with suppress(RunStopped):
            self._said.put(perform(problem, task, self._made))

    def _made(self, wanted: Sequence[Wanted]) -> list[tuple[int, Found]]:
        self._said.put(wanted)
        found = self._answers.get()
        if found is None:
            raise RunStopped
        return found
