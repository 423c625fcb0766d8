"""The JSON values in the headers of files, checked for their types: a file may come from anybody.

A record takes numbers in many types, as arrays and lists give them; a file that vbstack wrote has
exactly one. So files are held to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def checked_number(name: str, value: Any, *, finite: bool = True, least: float = -math.inf) -> Any:
    """A JSON number; by default it must be finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {_short(value)}, expected a number")
    size = abs(float(value))  # an OverflowError for a whole number of 400 digits
    if finite and not size < 1e300:
        raise ValueError(f"{name} is {_short(value)}, expected a finite number")
    if value < least:
        raise ValueError(f"{name} is {_short(value)}, expected {least} or more")
    return value


def checked_integer(name: str, value: Any, least: int = 0, most: int = 2**64) -> int:
    if type(value) is not int or not least <= value <= most:
        raise TypeError(f"{name} is {_short(value)}, expected a whole number, {least} or more")
    return value


def checked_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {_short(value)}, expected a text")
    return value


def checked_truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {_short(value)}, expected true or false")
    return value


def checked_list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is {_short(value)}, expected a list")
    return value


def checked_object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {_short(value)}, expected an object")
    return value


def checked_run_header(header: Mapping[str, Any]) -> None:
    """An error that names the first value of a run's header that has another type."""
    converged = checked_truth("converged", header["converged"])
    checked_number("elbo", header["elbo"], finite=converged)
    checked_number("elbo_sd", header["elbo_sd"], finite=converged, least=0)
    for name in checked_list("names", header["names"]):
        checked_text("names", name)
    for name, value in checked_object("versions", header.get("versions", {})).items():
        checked_text(f"versions: {name}", value)
    checked_text("engine", header.get("engine", ""))
    checked_integer("floored", header.get("floored", 0))
    checked_integer("looks", header.get("looks", 0))
    optional: dict[str, Any] = {
        "noise_level": lambda name, value: checked_integer(name, value, 0, 2),
        "seed": checked_integer,
        "seconds": lambda name, value: checked_number(name, value, least=0),
    }
    for name, check in optional.items():
        if header.get(name) is not None:
            check(name, header[name])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"
