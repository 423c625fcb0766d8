"""What counts as found, missing and falsely enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.coverage.fit_row import FitRow

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
