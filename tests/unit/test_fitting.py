"""What `fit` says of the runs that are finished."""

from benchmarks.archived_runs import archive
from vbstack import load_runs
from vbstack.fitting import StackSoFar


def test_the_stack_of_the_finished_runs_is_said_and_not_too_often():
    first, second, third = load_runs(archive("ring"))[:3]
    so_far = StackSoFar()
    assert so_far({0: first, 1: second}).startswith("stack of 2 finished runs: log evidence 1.")
    assert so_far({0: first, 1: second, 2: third}) == ""  # the last one was a moment ago
