"""What the progress display says of the finished runs."""

import io

from rich.console import Console

from benchmarks.make_runs import archive
from vbstack import load_runs
from vbstack.launching.progress import Standing, table
from vbstack.runs.store import RunState


def test_the_stack_of_the_finished_runs_is_said_and_not_too_often():
    first, second, third = load_runs(archive("ring"))[:3]
    standing = Standing({0: first})
    text = standing.including(1, second)
    assert text.startswith("stack of 2 finished runs: ELBO 1.")
    assert standing.including(2, third) == ""  # the last one was a moment ago


def rendered(renderable):
    """What a reader of a terminal sees, without colours."""
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()


def test_user_text_is_shown_as_it_is_and_not_taken_for_markup():
    state = RunState(0, "failed", 3, host="[red]node[/red]", message="[/] f[0] raised [bold]")
    text = rendered(table([state], "caption [bold]"))
    for shown in ("[red]node[/red]", "[/] f[0] raised [bold]", "caption [bold]"):
        assert shown in text
    assert "failed" in text
    assert "[/]" not in text.replace(state.message, "")  # the table's own markup is not shown
