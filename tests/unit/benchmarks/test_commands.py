"""`python -m benchmarks NAME`: every command answers, and rooms import only those before them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.__main__ import COMMANDS, main
from benchmarks.folders import BENCHMARKS, ROOT

# A file at the top may be imported anywhere, but for those that import rooms themselves.
ROOMS = (
    *("problems", "archived_runs", "scoring", "baselines"),
    *("paper", "races", "ablations", "coverage"),
)
SHARED = ("arrays", "folders", "machine", "options")


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"python -m benchmarks {command}" in capsys.readouterr().out


def test_the_list_has_every_command_with_its_line_and_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        (row,) = [line for line in text.splitlines() if line.split()[:1] == [command.name]]
        assert command.line in row
        assert row.endswith(command.time)


@pytest.mark.parametrize("argv", [["race"], []])
def test_an_unknown_name_is_refused_with_the_list(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    text = capsys.readouterr().err
    assert all(command.name in text for command in COMMANDS)
    assert not argv or "'race'" in text


def test_every_command_is_in_the_readme() -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert [c.name for c in COMMANDS if f"| `{c.name}" not in text] == []


def test_no_page_names_a_module_instead_of_a_command() -> None:
    pages = [ROOT / "README.md", ROOT / "Makefile", *BENCHMARKS.rglob("*.md")]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    stale = [page for page in pages if "-m benchmarks." in page.read_text(encoding="utf-8")]
    assert stale == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_those_before_it(room: str) -> None:
    """Of `paper`, `races`, `ablations` and `coverage` none imports another."""
    place = min(ROOMS.index(room), ROOMS.index("paper"))
    allowed = {*SHARED, *ROOMS[:place], room}
    path = BENCHMARKS / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    assert {file: _imported(file) - allowed for file in files if _imported(file) - allowed} == {}


def _imported(file: Path) -> set[str]:
    """The rooms and shared modules that a file imports, inside functions too."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[1] for name in names if name.startswith("benchmarks.")}
