"""Progress on long work: a live table on a terminal, plain lines elsewhere, silence when asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from vbstack.launching.reasons import Reasons
from vbstack.runs.plan import Plan
from vbstack.runs.printable import in_few_words, printable
from vbstack.runs.store import RunState, RunStore

_REFRESH_SECONDS = 1.0
_STYLES = {
    "finished": "green",
    "running": "cyan",
    "failed": "red",
    "interrupted": "yellow",
    "damaged": "red",
}


class Reporter:
    """Where messages go; `silent` drops them."""

    def __init__(self, silent: bool):
        self.silent = silent
        self.console = Console(stderr=True)
        self.live: Live | None = None
        self.caption = ""
        self.reasons = Reasons()

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

    def say_failed(self, index: int, reason: str) -> None:
        """Why a run failed; a reason that was said before in a few words."""
        if not self.silent:
            self.say(f"run {index} failed: {self.reasons.line(index, reason)}")

    @contextmanager
    def watching(self, store: RunStore, indices: Sequence[int]) -> Iterator[None]:
        """Show a live table of these runs while the block runs, if this is a terminal."""
        if self.silent or not self.console.is_terminal:
            yield
            return
        stop = threading.Event()

        def shown() -> Table:
            states = [_seen(store, index) for index in indices]  # the reasons are said above
            brief = [replace(s, message=in_few_words(s.message)) for s in states]
            return table(brief, self.caption)

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


def _seen(store: RunStore, index: int) -> RunState:
    """The state of a run; a file that cannot be opened is shown, and does not end the launch."""
    try:
        return store.state(index)
    except OSError as error:
        return RunState(index, "damaged", 0, message=printable(str(error)))


def described(plan: Plan) -> str:
    """The plan in one line."""
    starts = f"{len(plan.starts)} given" if isinstance(plan.starts, tuple) else plan.starts
    options = "".join(f", {name}={value!r}" for name, value in plan.options.items())
    return printable(
        f"plan: engine {plan.engine}, seed {plan.seed}, starts {starts or 'not recorded'}, "
        f"on_error {plan.on_error or 'not recorded'}{options}"
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
