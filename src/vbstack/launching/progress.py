"""Progress on long work: a live table on a terminal, plain lines elsewhere, silence when asked."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from vbstack.assembly import stack
from vbstack.runs.run import Run
from vbstack.runs.store import RunState, RunStore
from vbstack.stacking.screening import TooFewRuns

_REFRESH_SECONDS = 1.0
_PATIENCE = 50  # times its own cost between two stacks for the progress display
_STYLES = {"finished": "green", "running": "cyan", "failed": "red", "interrupted": "yellow"}


class Reporter:
    """Where messages go; `silent` drops them."""

    def __init__(self, silent: bool):
        self.silent = silent
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.caption = ""

    def say_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.say(text)

    def announce(self, text: str) -> None:
        """How the whole stands: under the live table, or a line."""
        if text and self.live is not None:
            self.caption = text
        elif text:
            self.say(text)

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

        def shown() -> Table:
            return table([store.state(index) for index in indices], self.caption)

        with Live(shown(), console=self.console, auto_refresh=False) as live:
            self.live = live

            def refresh() -> None:
                while not stop.wait(_REFRESH_SECONDS):
                    live.update(shown(), refresh=True)

            thread = threading.Thread(target=refresh, daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
                live.update(shown(), refresh=True)
                self.live = None


class Standing:
    """The stacked ELBO of the runs finished so far, worked out when that costs little."""

    def __init__(self, runs: Mapping[int, Run]):
        self._runs = dict(runs)
        self._not_before = 0.0

    def including(self, index: int, run: Run) -> str:
        """A line on the stack with this run too; empty when the last one was too short ago."""
        self._runs[index] = run
        begun = time.monotonic()
        if begun < self._not_before:
            return ""
        try:
            posterior = stack(list(self._runs.values()), tolerance=0.1, final_draws=32)
        except TooFewRuns:
            return "no run can be stacked yet"
        ended = time.monotonic()
        self._not_before = ended + _PATIENCE * (ended - begun)
        e = posterior.evidence
        return (
            f"stack of {len(posterior.runs)} finished runs: ELBO {e.headline:.3f} ± "
            f"{e.headline_sd:.3f}"
        )


def table(states: Sequence[RunState], caption: str = "") -> Table:
    """Run, state, evaluations, iteration, ELBO, sd, time, host and message."""
    result = Table(box=None, pad_edge=False, caption=escape(caption), caption_justify="left")
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
