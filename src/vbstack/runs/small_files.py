"""The JSON files of a store (plan, notes, failures), read and checked: anybody may write them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from vbstack.runs.files import FileError, parsed_json
from vbstack.runs.opening import read_regular
from vbstack.runs.printable import printable

_LARGEST_TEXT = 2**24  # bytes of store.json, status.json or failed.json


def json_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds; a FileError if it holds anything else."""
    content = parsed_json(path, read_regular(path, largest=_LARGEST_TEXT))
    if not isinstance(content, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object")
    return content


def checked_notes(path: Path, notes: dict[str, Any]) -> dict[str, Any]:
    """iteration, elbo, seconds and host of a note."""
    iteration, elbo = notes.get("iteration", 0), notes.get("elbo")
    seconds, host = notes.get("seconds"), notes.get("host", "")
    numbers = [n for n in (elbo, seconds) if n is not None]
    if type(iteration) is not int or not isinstance(host, str):
        raise FileError(f"{path} is damaged")
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        raise FileError(f"{path} is damaged")
    if any(not abs(n) < 1e300 for n in numbers):
        raise FileError(f"{path} is damaged")
    return {"iteration": iteration, "elbo": elbo, "seconds": seconds, "host": printable(host)}


def check_problem(problem: Any) -> None:
    """An error unless this is the description of a problem."""
    names = problem["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("problem: names is not a list of texts")
    if not isinstance(problem["noisy"], bool):
        raise TypeError("problem: noisy is neither true nor false")
    for side in ("lower_bounds", "upper_bounds"):
        for kind, finite in (("", False), ("plausible_", True)):
            bounds = problem[kind + side]
            if not isinstance(bounds, list) or len(bounds) != len(names):
                raise TypeError(f"problem: {kind + side} is not a list of {len(names)} numbers")
            for bound in bounds:
                if isinstance(bound, bool) or not isinstance(bound, (int, float)):
                    raise TypeError(f"problem: {kind + side} holds {bound!r}")
                if math.isnan(bound) or (finite and math.isinf(bound)):
                    raise ValueError(f"problem: {kind + side} holds {bound!r}")
    for kind in ("", "plausible_"):
        for low, high in zip(
            problem[f"{kind}lower_bounds"], problem[f"{kind}upper_bounds"], strict=True
        ):
            if not low < high:
                raise ValueError(f"problem: the {kind}bounds {low} and {high} are reversed")
