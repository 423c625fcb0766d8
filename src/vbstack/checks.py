"""Checks that records and settings share: words, arrays, names. Each error names the item."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from vbstack.arrays import Array


def checked_word(setting: str, value: Any, kind: Any) -> Any:
    """`value` if it is one of the words of `kind`, a Literal; else an error that lists them."""
    words = get_args(kind)
    if value not in words:
        raise ValueError(f"{setting}={value!r} is not known; choose one of {words}")
    return value


def checked_whole(setting: str, value: Any, least: int) -> int:
    """A whole number of at least `least` as an int, whatever type it had."""
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or isinstance(value, (bool, str)) or whole != value or whole < least:
        raise ValueError(f"{setting}={value!r} must be a whole number, {least} or more")
    return whole


def checked_seconds(setting: str, value: Any) -> float | None:
    """A positive number of seconds as a float, or None for no limit."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = float("nan")
    if isinstance(value, (bool, str)) or not seconds > 0:
        raise ValueError(f"{setting}={value!r} must be a positive number of seconds, or None")
    return seconds


def checked_positive(setting: str, value: Any) -> float:
    """A positive number as a float."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, (bool, str)) or not number > 0:
        raise ValueError(f"{setting}={value!r} must be a positive number")
    return number


def checked_not_negative(setting: str, value: Any, otherwise: str) -> float:
    """A finite number of at least zero as a float; `otherwise` names what else it may be."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, (bool, str)) or not 0 <= number < float("inf"):
        raise ValueError(f"{setting}={value!r} must be a number, zero or more, {otherwise}")
    return number


def shortened(text: str, most: int = 500) -> str:
    """The text without control characters, its middle left out where it is longer than `most`."""
    half = most // 2
    if len(text) > most:
        text = f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def checked(
    owner: str, name: str, value: object, shape: tuple[int, ...], *, finite: bool = True
) -> Array:
    """A read-only float copy of `value`, or an error that names what is wrong with it."""
    array = np.array(value, dtype=float)
    if array.shape != shape:
        raise ValueError(f"{owner}: {name} has shape {array.shape}, expected {shape}")
    if finite and not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(
            f"{owner}: {name} holds {array[tuple(where)]} at index {where}; "
            "every entry must be finite"
        )
    array.flags.writeable = False
    return array


def checked_names(owner: str, names: object, dimension: int) -> tuple[str, ...]:
    """One different name per parameter; x1, x2, … where none are given."""
    if isinstance(names, str):
        raise TypeError(
            f"{owner}: names is the string {names!r}, expected one string per parameter"
        )
    given = tuple(str(name) for name in names)  # type: ignore[attr-defined]
    given = given or tuple(f"x{d + 1}" for d in range(dimension))
    if len(given) != dimension:
        raise ValueError(f"{owner}: {len(given)} names {given} for {dimension} parameters")
    if len(set(given)) != dimension:
        raise ValueError(f"{owner}: names are not unique: {given}")
    return given
