"""Processes of our own: forked from a clean server, spoken to through a pipe."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import multiprocessing.context
import signal
import sys
import threading
import types
from collections.abc import Callable
from typing import Any


class _WithoutMain:
    """While somebody is in it, this process has an empty `__main__`."""

    def __init__(self) -> None:
        self._lock, self._inside, self._main = threading.Lock(), 0, sys.modules["__main__"]

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._main = sys.modules["__main__"]
                sys.modules["__main__"] = types.ModuleType("__main__")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.modules["__main__"] = self._main


_without_main = _WithoutMain()


class Child:
    """A process that runs `main(pipe, *args)`; it ends when its pipe does."""

    def __init__(self, context: CleanContext, main: Callable[..., None], *args: Any):
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_begun, args=(main, there, *args))
        self._process.start()
        there.close()

    def send(self, message: Any) -> None:
        """Tell it something; an OSError if it ended."""
        self._pipe.send(message)

    def receive(self, seconds: float | None = None) -> Any:
        """What it says next; a TimeoutError if it takes longer, an EOFError if it ended."""
        found = multiprocessing.connection.wait([self._pipe, self._process.sentinel], seconds)
        if not found:
            raise TimeoutError
        if not self._pipe.poll():  # a process that it left behind may keep the pipe open
            raise EOFError
        return self._pipe.recv()

    def kill(self) -> None:
        """Have it end, if it did not end by itself."""
        self._process.kill()

    def end(self) -> int | None:
        """End it, if it did not end by itself; returns its exit code."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _begun(main: Callable[..., None], pipe: Any, *args: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher, which ends us
    main(pipe, *args)


class _CleanProcess(multiprocessing.context.SpawnProcess):
    """A process that does not import the caller's script again.

    Functions of the script travel as bytes, so the import is not needed; and without it a script
    needs no `if __name__ == "__main__"`.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        from multiprocessing.popen_forkserver import Popen

        with _without_main:  # several threads may begin processes at once
            return Popen(process_obj)


class CleanContext(multiprocessing.context.ForkServerContext):
    """How processes are begun: without the caller's script, with some imports done."""

    Process = _CleanProcess  # type: ignore[assignment]

    def __init__(self, modules: list[str]) -> None:
        """The server of the processes imports these modules before it forks the first."""
        super().__init__()
        self.set_forkserver_preload(modules)
