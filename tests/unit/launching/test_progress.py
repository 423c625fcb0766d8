"""What the progress display says of the finished runs."""

from benchmarks.archived_runs import archive
from vbstack import load_runs
from vbstack.launching.progress import Standing, table


def test_the_stack_of_the_finished_runs_is_said_and_not_too_often():
    first, second, third = load_runs(archive("ring"))[:3]
    standing = Standing({0: first})
    text = standing.including(1, second)
    assert text.startswith("stack of 2 finished runs: ELBO 1.")
    assert standing.including(2, third) == ""  # the last one was a moment ago


def test_user_text_is_not_markup():
    assert "[bold]" in str(table([], "[bold]").caption).replace("\\", "")
