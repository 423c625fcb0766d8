"""What counts as found, missing and falsely enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.coverage.coverage_table import Summary
from benchmarks.coverage.fit_row import FitRow, Wave
from benchmarks.coverage.row_file import RowFile
from benchmarks.coverage.rule_table import RULES, rule_table
from benchmarks.coverage.targets import TARGETS

MASSES = np.array([0.5, 0.3, 0.15, 0.05])
ROW = FitRow(
    seed=0,
    runs=2,
    failed=0,
    stacked=2,
    shares=[0.6, 0.3, 0.1, 0.0],
    lost_nats=0.06,
    run_shares=[[1.0, 0.0, 0.0, 0.0], [0.06, 0.9, 0.02, 0.02]],
    evaluations=[50, 60],
    seconds=[1.0, 2.0],
    enough=True,
)


def test_a_mode_is_found_with_half_of_its_mass() -> None:
    assert ROW.mass_found(MASSES) == pytest.approx(0.95)
    assert replace(ROW, shares=[0.8, 0.15, 0.05, 0.0]).mass_found(MASSES) == pytest.approx(0.8)


def test_only_large_modes_are_counted_as_missed() -> None:
    assert not ROW.misses_large_mode(MASSES)
    assert replace(ROW, shares=[0.7, 0.3, 0.0, 0.0]).misses_large_mode(MASSES)


def test_enough_is_false_while_mass_is_missing() -> None:
    assert ROW.false_enough(MASSES)
    assert not replace(ROW, enough=False).false_enough(MASSES)
    assert not replace(ROW, shares=[0.5, 0.3, 0.15, 0.05]).false_enough(MASSES)


def test_a_run_finds_a_mode_by_half_its_mass_or_a_twentieth_of_its_own() -> None:
    found = ROW.found_by_runs(MASSES)
    assert found.tolist() == [[True, False, False, False], [True, True, False, False]]
    assert replace(ROW, run_shares=[]).found_by_runs(MASSES).shape == (0, 4)


def wave(runs: int, gain: float, by_runs: list[float], looks: int, last: float = 0.05) -> Wave:
    shares = [0.5, 0.3, 0.2 - last, last]
    return Wave(runs, shares, 0.01, [gain] * runs, by_runs, looks)


def test_a_fit_stops_at_the_first_wave_that_the_rule_calls_enough() -> None:
    found_by_all = [0.0, 0.0, 0.0, 0.0, 1.0]
    waves = wave(4, 0.1, found_by_all, 40), wave(6, 0.0, [0.0] * 6 + [1.0], 60)
    row = replace(ROW, waves=waves, enough=False)
    assert row.first_enough() is waves[1]
    assert row.says_enough  # by the present rule, whatever was said then
    assert replace(row, waves=waves[:1]).first_enough() is None
    assert not replace(row, waves=waves[:1]).says_enough


def test_each_part_of_the_rule_can_be_left_out() -> None:
    gainful = wave(4, 0.1, [0.0, 0.0, 0.0, 0.0, 1.0], 40)
    missing = wave(4, 0.0, [0.0, 0.5, 0.0, 0.0, 0.5], 40)
    unseen = wave(4, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0], 5)
    names = ("without the worth of single runs", "without the missing mass")
    for one, name in zip(
        (gainful, missing, unseen), (*names, "without counting looks"), strict=True
    ):
        assert not RULES["the rule"](one)
        assert RULES[name](one)
    assert not RULES["the rule, eight runs at least"](replace(gainful, gains=[0.0] * 4))


def test_the_table_of_rules_counts_stops_and_false_ones(tmp_path: Path) -> None:
    target = TARGETS["unequal3"]()
    whole = wave(4, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0], 40)
    rows = [
        replace(ROW, evaluations=[10] * 10, waves=(each,))
        for each in (whole, wave(4, 0.0, whole.by_runs, 40, last=0.0))
    ]
    s = Summary(RowFile("unequal3", "native", "mine", {}, tmp_path), target, rows)
    (line,) = [line for line in rule_table([s]) if "| the rule |" in line]
    assert line == "| development | the rule | 2 | 2 | 1 | 50.0% | 40% |"
