"""Progress on long work: a live table on a terminal, plain lines elsewhere, silence when asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from vbstack.store import RunState, RunStore

_REFRESH_SECONDS = 1.0
_STYLES = {"finished": "green", "running": "cyan", "failed": "red", "interrupted": "yellow"}


class Reporter:
    """Where messages go; `silent` drops them."""

    def __init__(self, silent: bool):
        self.silent = silent
        self.console = Console(stderr=True)
        self.live: Live | None = None

    def say(self, text: str) -> None:
        """One line: above the live table if there is one."""
        if self.silent:
            return
        if self.live is not None:
            self.live.console.print(escape(text))
        else:
            print(f"vbstack: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def watching(self, store: RunStore, indices: Sequence[int]) -> Iterator[None]:
        """Show a live table of these runs while the block runs, if this is a terminal."""
        if self.silent or not self.console.is_terminal:
            yield
            return
        stop = threading.Event()
        with Live(table_of(store, indices), console=self.console, auto_refresh=False) as live:
            self.live = live

            def refresh() -> None:
                while not stop.wait(_REFRESH_SECONDS):
                    live.update(table_of(store, indices), refresh=True)

            thread = threading.Thread(target=refresh, daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
                live.update(table_of(store, indices), refresh=True)
                self.live = None


def table_of(store: RunStore, indices: Sequence[int]) -> Table:
    """A table of the state of these runs."""
    return table([store.state(index) for index in indices])


def table(states: Sequence[RunState]) -> Table:
    """Run, state, evaluations, iteration, ELBO, sd, time, host and message."""
    result = Table(box=None, pad_edge=False)
    for name, justify in (
        *(("run", "right"), ("state", "left"), ("evaluations", "right"), ("iteration", "right")),
        *(("ELBO", "right"), ("sd", "right"), ("time", "right"), ("host", "left"), ("", "left")),
    ):
        result.add_column(name, justify=justify)  # type: ignore[arg-type]
    for s in states:
        style = _STYLES.get(s.state, "")
        state = f"[{style}]{s.state}[/]" if style else s.state
        result.add_row(
            str(s.index),
            state,
            str(s.evaluations),
            str(s.iteration or ""),
            _number(s.elbo),
            _number(s.elbo_sd),
            "" if s.seconds is None else f"{s.seconds:.0f} s",
            escape(s.host),
            escape(s.message[:120]),
        )
    return result


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.3f}"
