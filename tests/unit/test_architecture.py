"""Imports point one way: what each package may know, lazy and type-checking imports included."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import vbstack

SOURCE = Path(vbstack.__file__).parent

RECORDS = {"arrays", "checks", "modes", "problem", "runs"}
STACKING = {*RECORDS, "stacking", "posterior", "assembly"}
EVERYTHING = {
    *(*STACKING, "numerics", "gaussian_process", "engines", "launching", "analysis", "output"),
    *("plots", "fitting", "verifying", "compat", "cli", "calling", "inputs"),
}
MAY_KNOW: dict[str, set[str]] = {
    "arrays": set(),
    "modes": set(),
    "checks": {"arrays"},
    "numerics": {"arrays"},
    "calling": {"arrays", "checks"},
    "inputs": {"arrays", "calling"},
    "problem": {"arrays", "checks", "calling", "inputs"},
    "runs": {"arrays", "checks", "modes", "inputs", "problem"},
    "gaussian_process": {*RECORDS, "numerics"},
    "engines": {*RECORDS, "numerics", "gaussian_process"},
    "launching": {*RECORDS, "engines"},
    "stacking": {*RECORDS, "numerics", "gaussian_process"},
    "posterior": {*RECORDS, "stacking"},
    "assembly": {*RECORDS, "stacking", "posterior"},
    "analysis": STACKING,
    "output": {*STACKING, "analysis"},
    "plots": {"output"},
    "verifying": {*STACKING, "launching"},
    "fitting": {*STACKING, "analysis", "launching", "verifying"},
    "compat": STACKING,
    "cli": EVERYTHING - {"cli", "compat", "plots"},
    "__init__": EVERYTHING - {"cli", "compat", "plots"},
    "__main__": {"cli"},
}
# The places where a method reaches forward, by name and when it is called, to the package that
# writes about its object.
REACHING_FORWARD = {("posterior", "output"), ("analysis.comparison", "output")}
# Modules that import by a name that is computed: `_output`, and what users ask for.
IMPORT_BY_NAME = {"posterior.py", "comparison.py", "export.py", "arguments.py"}
IMPORTERS = {"import_module", "importlib.import_module", "__import__"}
NAME = re.compile(r"vbstack(\.\w+)*\.?")
# A method that is called by the class's name, and lives in a module that needs the class.
WITHIN_A_PACKAGE = {("runs.run", "runs.pyvbmc_objects")}


def modules(source: Path) -> dict[str, Path]:
    """Every module of the package by its name without `vbstack.`."""
    paths = {path.relative_to(source).with_suffix(""): path for path in source.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in paths.items()}


def imported(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Whatever of vbstack a module imports or names in a string, anywhere in it; the line; and
    whether it is a string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            assert "vbstack" not in names, f"{path}: name the module, not the whole package"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if NAME.fullmatch(node.value) else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in IMPORTERS:
            literal = bool(node.args) and isinstance(node.args[0], ast.Constant)
            assert literal or path.name in IMPORT_BY_NAME, f"{path}: imports a computed name"
        for name in names:
            if name.startswith("vbstack."):
                line = getattr(node, "lineno", 0)
                yield name.removeprefix("vbstack."), line, isinstance(node, ast.Constant)


def forbidden(source: Path) -> list[str]:
    """A line for every import that the table does not allow."""
    found = []
    for name, path in modules(source).items():
        package = name.split(".")[0]
        for other, line, is_string in imported(path):
            known = other.split(".")[0]
            allowed = known == package or known in MAY_KNOW[package]
            if not allowed and not (is_string and (name, known) in REACHING_FORWARD):
                found.append(f"{name}, line {line}: {package} may not know {known}")
    return found


def test_every_package_knows_only_what_it_may():
    assert set(MAY_KNOW) == {name.split(".")[0] for name in modules(SOURCE)}
    assert forbidden(SOURCE) == []


def test_the_table_itself_has_no_cycle():
    order = list(TopologicalSorter(MAY_KNOW).static_order())
    assert order.index("runs") < order.index("gaussian_process") < order.index("engines")


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("launching/progress.py", "\nfrom vbstack.assembly import stack\n"),
        ("launching/worker.py", "\ndef f():\n    from vbstack.stacking import weights\n"),
        ("runs/run.py", "\nif TYPE_CHECKING:\n    from vbstack.engines.recorder import Recorder\n"),
        ("stacking/evidence.py", "\nimport vbstack.engines.registry\n"),
        ("problem.py", '\nimport_module("vbstack.output.report")\n'),
        ("posterior.py", "\nfrom vbstack.output.report import write_report\n"),
    ],
)
def test_a_forbidden_import_is_found_wherever_it_hides(tmp_path, module, line):
    copy = tmp_path / "vbstack"
    shutil.copytree(SOURCE, copy)
    path = copy / module
    path.write_text(path.read_text() + line)
    (found,) = forbidden(copy)
    assert found.startswith(module.removesuffix(".py").replace("/", "."))


def test_no_two_modules_import_each_other():
    all_modules = modules(SOURCE)
    graph: dict[str, set[str]] = {}
    for name, path in all_modules.items():
        others = {_module(other, set(all_modules)) for other, *_ in imported(path)} - {"", name}
        allowed = {pair[1] for pair in WITHIN_A_PACKAGE if pair[0] == name}
        graph[name] = {
            other
            for other in others - allowed
            if (name, other.split(".")[0]) not in REACHING_FORWARD
        }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {error.args[1]}")


def _module(name: str, known: set[str]) -> str:
    """The module that an imported name is, or is in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in known:
            return ".".join(parts[:length])
    return ""


def test_the_top_shows_at_most_thirteen_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 13


def test_no_function_hides_its_module():
    """A public name is never a module of the same name that cannot be reached any more."""
    tops = {name for name in modules(SOURCE) if "." not in name}
    assert not tops & set(vbstack.__all__)
