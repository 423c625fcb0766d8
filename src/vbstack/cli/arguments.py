"""What the words of a command line mean: problems, options, numbers, names."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np

from vbstack.modes import StartsKind
from vbstack.problem import Problem


def load_problem(name: str) -> Problem:
    """The `Problem` called module:attribute or path/to/file.py:attribute."""
    where, _, attribute = name.rpartition(":")
    if not where:
        raise ValueError(f"{name!r} should read module:attribute or path/to/file.py:attribute")
    if where.endswith(".py"):
        module = _module_from_file(Path(where))
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(where)
    if not hasattr(module, attribute):
        raise ValueError(f"{where} has no attribute {attribute!r}")
    problem = getattr(module, attribute)
    problem = problem() if callable(problem) and not isinstance(problem, Problem) else problem
    if not isinstance(problem, Problem):
        raise TypeError(f"{name} is a {type(problem).__name__}, not a vbstack.Problem")
    return problem


def given_starts(text: str | None) -> Any:
    """The word for a kind of starting points, or the points in a text file, a row per run."""
    if text is None or text in get_args(StartsKind):
        return text
    if not Path(text).exists():
        raise ValueError(f"--starts {text!r} should be one of {get_args(StartsKind)} or a file")
    return np.loadtxt(text, ndmin=2)


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
    return importlib.import_module(path.stem)


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


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--runs {text!r} should be a number or auto") from None
