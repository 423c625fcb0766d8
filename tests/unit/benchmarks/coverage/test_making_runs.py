"""Subsets of archived runs, and the draws of a run."""

from __future__ import annotations

import numpy as np

from benchmarks.coverage.making_runs import subset, subsets_of
from benchmarks.coverage.measuring import drawn
from tests.synthetic import make_run


def test_subsets_are_disjoint_first_and_random_then() -> None:
    assert subset(25, 0, 10) + subset(25, 1, 10) == list(range(20))
    third = subset(25, 2, 10)
    assert len(set(third)) == 10
    assert max(third) < 25
    assert third == subset(25, 2, 10) != subset(25, 3, 10)


def test_few_archived_runs_give_few_subsets() -> None:
    assert [subsets_of(pool, 10, 20) for pool in (0, 9, 10, 20, 40)] == [0, 0, 1, 11, 20]


def test_draws_of_a_run_are_of_its_own_mixture() -> None:
    run = make_run([[-5.0], [5.0]], [[1.0], [0.5]], 0.0, [0.25, 0.75])
    x = drawn(run, 40_000)[:, 0]
    assert abs(np.mean(x < 0) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / x.size)
    assert abs(x[x > 0].std() - 0.5) < 0.02
