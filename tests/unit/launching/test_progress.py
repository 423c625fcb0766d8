"""What the progress display says, on a terminal and elsewhere."""

import io
import threading
import time

import pytest
from rich.console import Console

from tests.synthetic import make_run
from vbstack import RunStore
from vbstack.launching import progress
from vbstack.launching.progress import Reporter, table
from vbstack.problem import Evaluation
from vbstack.runs.store import RunState


def terminal():
    """A terminal that keeps what it was sent."""
    return Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)


def sent_to(console):
    return console.file.getvalue()


def rendered(renderable):
    """What a reader of a terminal sees, without colours."""
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return sent_to(console)


def test_user_text_is_shown_as_it_is_and_not_taken_for_markup():
    state = RunState(0, "failed", 3, host="[red]node[/red]", message="[/] f[0] raised [bold]")
    text = rendered(table([state], "caption [bold]"))
    for shown in ("[red]node[/red]", "[/] f[0] raised [bold]", "caption [bold]"):
        assert shown in text
    assert "failed" in text
    assert "[/]" not in text.replace(state.message, "")  # the table's own markup is not shown


@pytest.fixture
def store(tmp_path):
    """A store in which run 0 was interrupted after three evaluations and run 1 has not begun."""
    found = RunStore(tmp_path)
    journal = found.journal(0)
    for value in (-1.0, -2.0, -3.0):
        journal.append(Evaluation((0.5,), value, None, 0.1))
    journal.close()
    return found


@pytest.fixture
def reporter():
    """A reporter on a terminal."""
    made = Reporter(silent=False)
    made.console = terminal()
    return made


def until(condition):
    """Wait for it, ten seconds at most."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_on_a_terminal_a_table_follows_the_runs(store, reporter, monkeypatch):
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.01)
    with reporter.watching(store, range(2)):
        until(lambda: "interrupted" in sent_to(reporter.console))
        assert "waiting" in sent_to(reporter.console)
        assert "finished" not in sent_to(reporter.console)
        store.save(0, make_run([[0.0]], 1.0, -1.4, elbo=-12.345))
        until(lambda: "-12.345" in sent_to(reporter.console))
    last = sent_to(reporter.console).rsplit("evaluations", 1)[1]
    assert "finished" in last
    assert "interrupted" not in last


def test_the_last_table_shows_what_happened_since_the_one_before(store, reporter):
    """However short the block is."""
    with reporter.watching(store, range(2)):
        store.save(1, make_run([[0.0]], 1.0, -1.4, elbo=-12.345))
    assert "-12.345" in sent_to(reporter.console)


def test_lines_stand_above_the_table_and_the_standing_below_it(store, reporter, capfd):
    with reporter.watching(store, range(2)):
        reporter.say_all(["run 0 failed: x[0] [bold]", "another line"])
        reporter.announce("stack of 2 [runs]")
        reporter.announce("")  # says nothing new, so what was said stays
    text = sent_to(reporter.console)
    places = [text.rindex(part) for part in ("x[0] [bold]", "another line", "host", "2 [runs]")]
    assert places == sorted(places)
    assert capfd.readouterr().err == ""


def test_after_the_table_lines_are_plain_again(store, reporter, capfd):
    with reporter.watching(store, range(2)):
        pass
    assert reporter.live is None
    before = sent_to(reporter.console)
    reporter.say("one line")
    reporter.announce("the standing")
    assert sent_to(reporter.console) == before
    assert capfd.readouterr().err == "vbstack: one line\nvbstack: the standing\n"


def test_an_error_passes_and_the_table_ends(store, reporter):
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt), reporter.watching(store, range(2)):
        raise KeyboardInterrupt
    assert reporter.live is None
    assert threading.active_count() == threads
    assert sent_to(reporter.console).endswith("\x1b[?25h")  # the cursor is shown again


def test_elsewhere_there_is_no_table_but_lines(store, capfd):
    reporter = Reporter(silent=False)
    reporter.console = Console(file=io.StringIO(), force_terminal=False)
    with reporter.watching(store, range(2)):
        assert reporter.live is None
        reporter.say("x[0] [bold]")
        reporter.announce("the standing")
    assert sent_to(reporter.console) == ""
    assert capfd.readouterr().err == "vbstack: x[0] [bold]\nvbstack: the standing\n"


def test_silence_is_kept_on_a_terminal_too(store, capfd):
    reporter = Reporter(silent=True)
    reporter.console = terminal()
    with reporter.watching(store, range(2)):
        reporter.say("a line")
        reporter.announce("the standing")
    assert sent_to(reporter.console) == ""
    assert capfd.readouterr().err == ""


def test_a_file_that_cannot_be_opened_is_a_row_and_not_the_end(store, reporter):
    store.path(1, "failed.json").symlink_to("/etc/hostname")
    with reporter.watching(store, range(2)):
        pass
    assert "interrupted" in sent_to(reporter.console)
    assert "damaged" in sent_to(reporter.console)
