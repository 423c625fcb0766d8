"""The code in the documentation runs, page by page, as it stands.

Only the runs are cut short: `fit` makes a single, short one in this process, and `stack` takes it
although it has not converged. Blocks after a comment `<!-- not run: reason -->` are checked for
their syntax.
"""

import ast
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

import vbstack
from vbstack.cli.commands import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "```" in path.read_text())
SHORT = {"max_fun_evals": 15, "max_iter": 3, "min_final_components": 5}
FIT, STACK = vbstack.fit, vbstack.stack
ANY_RUN = vbstack.Screen(require_converged=False)
BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n)?```(\w+)\n(.*?)```", re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[bool, str]]:
    """Whether each block of the language is to be run, and its text."""
    found = BLOCK.findall(page.read_text())
    return [(not comment, text) for comment, kind, text in found if kind == language]


def short_fit(problem, n_runs=10, **settings):
    native = settings.get("engine") == "native" or not problem.noisy
    options = {"max_fun_evals": 30} if native else SHORT
    cut = {"options": options, "screen": ANY_RUN, "progress": False}
    settings.setdefault("executor", "here")
    return FIT(problem, min(int(n_runs), 1), **{**settings, **cut})


def short_stack(runs, screen=ANY_RUN, **settings):
    return STACK(runs, screen=screen, **settings)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The store `results` that the tutorial leaves behind, for the pages that go on with it."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        execute(DOCS / "tutorial.md", folder, patch)
    return folder / "results"


def execute(page: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    patch.setattr(vbstack, "fit", short_fit)
    patch.setattr(vbstack, "stack", short_stack)
    space = {"__name__": "__main__"}
    for run, text in blocks(page, "python"):
        if run:
            exec(compile(text, str(page), "exec"), space)
        else:
            ast.parse(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_code_runs(page, results, tmp_path, monkeypatch):
    if page.name == "tutorial.md":
        assert results.is_dir()  # the fixture has run it
        return
    shutil.copytree(results, tmp_path / "results")
    execute(page, tmp_path, monkeypatch)


def test_most_blocks_are_run():
    flags = [run for page in PAGES for run, _ in blocks(page, "python")]
    assert len(flags) > 20
    assert flags.count(False) <= 5


def test_commands_and_options_exist():
    """Every line that begins with vbstack names a command, and options that it has."""
    group: Any = typer.main.get_command(app)
    commands = group.commands
    lines = [line for page in PAGES for _, text in blocks(page, "sh") for line in text.splitlines()]
    called = [shlex.split(line, comments=True) for line in lines if line.startswith("vbstack ")]
    assert len(called) > 8
    for _, name, *arguments in called:
        known = {option for parameter in commands[name].params for option in parameter.opts}
        unknown = [a for a in arguments if a.startswith("--") and a not in known]
        assert not unknown, f"vbstack {name} has no {unknown}"


def test_every_public_name_is_in_the_reference():
    text = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    missing = [name for name in vbstack.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_map_of_equations_names_files_that_exist():
    files = re.findall(r"`([\w/]+\.py)`", (DOCS / "equations.md").read_text())
    assert len(files) > 12
    assert [name for name in files if not (ROOT / "src" / "vbstack" / name).exists()] == []
