"""What the words of a command line mean: problems, options, numbers, names."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from vbstack.calling import failure
from vbstack.modes import Refine, StartsKind
from vbstack.problem import Problem
from vbstack.runs.canonical import is_installed


def load_problem(name: str) -> Problem:
    """The `Problem` called module:attribute or path/to/file.py:attribute."""
    where, _, attribute = name.rpartition(":")
    if not where:
        raise ValueError(f"{name!r} should read module:attribute or path/to/file.py:attribute")
    with _code_of(where):
        module = _module(where)
    if not hasattr(module, attribute):
        raise ValueError(f"{where} has no attribute {attribute!r}")
    problem = getattr(module, attribute)
    if callable(problem) and not isinstance(problem, Problem):
        with _code_of(where):
            problem = problem()
    if not isinstance(problem, Problem):
        raise TypeError(f"{name} is a {type(problem).__name__}, not a vbstack.Problem")
    return problem


@contextmanager
def _code_of(where: str) -> Iterator[None]:
    """Whatever the user's code raises, as a ValueError with its place; exits too."""
    try:
        yield
    except (KeyboardInterrupt, ValueError, TypeError, OSError, ImportError):
        raise
    except BaseException as error:
        message, frames = failure(where, error)
        raise ValueError(f"{message}\n{frames}".rstrip()) from error


def _module(where: str) -> Any:
    if where.endswith(".py"):
        return _module_from_file(Path(where))
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(where)


def given_starts(text: str | None) -> Any:
    """The word for a kind of starting points, or the points in a text file, a row per run."""
    if text is None or text in get_args(StartsKind):
        return text
    if not Path(text).exists():
        raise ValueError(f"--starts {text!r} should be one of {get_args(StartsKind)} or a file")
    return np.loadtxt(text, ndmin=2)


def given_refine(text: str) -> Refine:
    """What `stack` takes for the word."""
    words: dict[str, Refine] = {"auto": "auto", "on": True, "off": False}
    if text not in words:
        raise ValueError(f"--refine {text!r} should be one of {', '.join(words)}")
    return words[text]


def parsed_options(pairs: list[str] | None) -> dict[str, Any]:
    """{"name": value} from "name=value", values read as JSON where they are JSON."""
    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--option {pair!r} should read name=value")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _module_from_file(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    sys.path.insert(0, str(path.parent.resolve()))
    loaded = sys.modules.get(path.stem)
    if loaded is not None and not _is_file_of(loaded, path):
        if is_installed(loaded):
            raise ValueError(
                f"{path} has the name of the module {path.stem!r}, which others use: rename it"
            )
        del sys.modules[path.stem]  # another file of the user's
    return importlib.import_module(path.stem)


def _is_file_of(module: Any, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


def model_names(paths: list[Path]) -> list[str]:
    """The paths' last parts where these differ, else the whole paths."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def prior_weights(text: str, names: list[str]) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(names):
        raise ValueError(f"--prior {text!r} should be {len(names)} numbers with commas between")
    return weights


def number_or_auto(setting: str, text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{setting} {text!r} should be a number or auto") from None


def whole_number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{option} {text!r} should be a number or auto") from None


def verify_number(text: str) -> int | str:
    """How many evaluations check a stack: a number, or auto."""
    return text if text == "auto" else whole_number("the number of evaluations", text)
