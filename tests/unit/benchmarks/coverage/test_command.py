"""`python -m benchmarks coverage` makes rows once, and a table of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage.command import main, parsed_options
from benchmarks.coverage.row_file import RowFile


def test_rows_are_made_once_and_tabulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--target", "pair1", "--runs", "2", "--seeds", "2", "--label", "mine"]
    argv += ["--results", str(tmp_path)]
    main([*argv, "--seeds", "1"])
    main(argv)
    shown = capsys.readouterr().out
    assert shown.count("pair1 native seed 0") == 1
    assert shown.count("pair1 native seed 1") == 1
    file, rows = RowFile.read(tmp_path / "coverage" / "pair1-native-mine.json")
    assert file.made_with == {"runs": 2, "options": {}}
    assert [(row.seed, row.runs, len(row.evaluations)) for row in rows] == [(0, 2, 2), (1, 2, 2)]
    assert "| pair1 | 1, 2 | native, mine | 2 |" in (tmp_path / "coverage.md").read_text()


@pytest.mark.slow
def test_auto_takes_the_runs_that_fit_takes(tmp_path: Path) -> None:
    main(["--target", "gaussian2", "--seeds", "1", "--auto", "--results", str(tmp_path)])
    _, (row,) = RowFile.read(tmp_path / "coverage" / "gaussian2-native-default+auto.json")
    assert row.runs == len(row.evaluations) == row.stacked
    assert row.enough
    assert row.shares == [1.0]


def test_options_are_literals_or_text() -> None:
    assert parsed_options(["tolerance=0.1", "way=fast"]) == {"tolerance": 0.1, "way": "fast"}
    with pytest.raises(SystemExit, match="NAME=VALUE"):
        parsed_options(["tolerance"])


def test_auto_is_for_native_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--auto", "--engine", "pyvbmc"])
    assert "--auto" in capsys.readouterr().err
