"""Rows are kept one by one, and rows of different kinds are not mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.coverage.row_file import RowFile
from tests.unit.benchmarks.coverage.test_fit_row import ROW


def test_rows_are_added_in_the_order_of_their_seeds(tmp_path: Path) -> None:
    file = RowFile("pair1", "native", "mine", {"runs": 2}, tmp_path)
    assert file.rows() == []
    for seed in (3, 1, 3):
        file.add(replace(ROW, seed=seed))
    assert [row.seed for row in file.rows()] == [1, 3]
    assert RowFile.read(file.path) == (file, file.rows())


def test_rows_made_otherwise_need_another_label(tmp_path: Path) -> None:
    file = RowFile("pair1", "native", "mine", {"runs": 2}, tmp_path)
    file.add(ROW)
    with pytest.raises(SystemExit, match="give another --label"):
        replace(file, made_with={"runs": 10}).rows()


def test_rows_of_a_smaller_archive_are_made_again(tmp_path: Path) -> None:
    file = RowFile("pair1", "pyvbmc", "archived", {"runs": 2, "archived": 10}, tmp_path)
    file.add(ROW)
    grown = replace(file, made_with={"runs": 2, "archived": 20})
    assert grown.rows() == []
    grown.add(replace(ROW, seed=5))
    assert [row.seed for row in grown.rows()] == [5]
