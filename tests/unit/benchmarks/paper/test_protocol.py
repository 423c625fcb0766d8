"""Subsets, medians with intervals, and the cells of the tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.paper.protocol import SIZES, Case, interval, rounded, rows_of, subsets
from benchmarks.paper.tables import PAPER, cell, values


def test_subsets_are_distinct_runs_and_the_same_every_time() -> None:
    first = subsets(41, 10)
    assert first == subsets(41, 10)
    assert len(first) == 20
    assert len(set(first)) == 20
    assert all(len(set(s)) == 10 and max(s) < 41 for s in first)
    assert subsets(41, 10, 3) == first[:3]


def test_interval_is_the_median_with_a_bootstrap_interval() -> None:
    assert interval(np.full(20, 3.0)) == (3.0, 3.0, 3.0)
    values = np.arange(1.0, 22.0)
    median, low, high = interval(values)
    assert median == 11.0
    # The exact binomial interval of the median of 21 values is [6, 16].
    assert low == pytest.approx(6.0, abs=1.01)
    assert high == pytest.approx(16.0, abs=1.01)


def test_rows_without_a_number_are_left_out() -> None:
    rows: list[dict[str, Any]] = [
        {"method": "emcee", "runs": None, "delta_lml": None, "mmtv": 0.2},
        {"method": "all", "runs": 10, "delta_lml": 0.1, "mmtv": 0.3},
    ]
    assert values(rows, "emcee", None, "delta_lml") == []
    assert values(rows, "emcee", None, "mmtv") == [0.2]
    assert cell([]) == "–"
    assert cell([0.01234] * 3) == "0.012 [0.012, 0.012]"


def test_the_papers_numbers_are_whole() -> None:
    scores = PAPER["scores"]
    assert len(scores) == 6
    for rows in scores.values():
        assert len(rows) == 9
        for row in rows.values():
            for median, low, high in row.values():
                assert low <= median <= high
    assert scores["ring"]["all10"]["mmtv"][0] == 0.14
    for counts in PAPER["filter"].values():
        dropped = counts["unconverged"] + counts["poor"]
        assert counts["total"] - dropped == counts["remaining"]


def test_rows_of_a_subset_are_json_and_repeatable() -> None:
    rows = rows_of((Case("ring"), 2, 0), 20)
    assert [row["method"] for row in rows] == ["runs", "all", "naive"]
    assert json.loads(json.dumps(rows)) == rows == rows_of((Case("ring"), 2, 0), 20)
    (single,) = rows_of((Case("ring"), 1, 0), 20)
    assert single["method"] == "vbmc"


def test_rounding_keeps_six_digits_or_four_decimals() -> None:
    assert rounded({"a": 1.23456789, "b": -503.486312}) == {"a": 1.23457, "b": -503.4863}
    assert SIZES[0] == 1
