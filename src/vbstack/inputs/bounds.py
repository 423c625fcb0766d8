"""Bounds as users give them (numbers, lists, None) made into one number per parameter, and judged.

A plausible bound that is not given yet is NaN: it is filled from the prior, or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vbstack.arrays import Array


class Bounds(NamedTuple):
    """Hard and plausible bounds, (D,) each, read-only; by the names that users give them."""

    lower_bounds: Array
    upper_bounds: Array
    plausible_lower_bounds: Array
    plausible_upper_bounds: Array


NOT_GIVEN = Bounds(*map(np.asarray, (-np.inf, np.inf, np.nan, np.nan)))


def count(value: Any) -> int | None:
    """For how many parameters bounds are given; None where one number is for all, or nothing is."""
    return None if np.ndim(value) == 0 else int(np.size(value))


def read_bounds(dimension: int, **given: Any) -> Bounds:
    """The bounds of D parameters; each may be one number for all, and each number None."""
    return Bounds(*(_read(name, given[name], dimension) for name in Bounds._fields))


def _read(name: str, value: Any, dimension: int) -> Array:
    """One number per parameter, read-only; that of `NOT_GIVEN` for None."""
    items = np.ravel(np.array(value, dtype=object))
    if np.ndim(value) == 0:
        items = np.repeat(items, dimension)
    try:
        array = np.array([np.nan if item is None else float(item) for item in items])
    except (TypeError, ValueError) as error:
        raise TypeError(f"problem: {name} is {value!r}, expected numbers or None") from error
    missing = np.array([item is None for item in items], dtype=bool)
    if array.size != dimension or dimension == 0 or np.isnan(array[~missing]).any():
        raise ValueError(
            f"problem: {name} is {array.tolist()}, expected {dimension or 'one or more'} "
            "numbers, one per parameter"
        )
    return read_only(np.where(missing, getattr(NOT_GIVEN, name), array))


def read_only(values: Any) -> Array:
    """The values as an array that cannot be changed."""
    array = np.array(values, dtype=float)
    array.flags.writeable = False
    return array


def check_bounds(names: Sequence[str], bounds: Bounds) -> None:
    """An error that names the first parameter whose bounds do not fit together."""
    for name, lower, upper, low, high in zip(names, *bounds, strict=True):
        box, plausible = f"[{lower}, {upper}]", f"[{low}, {high}]"
        if not lower < upper:
            raise ValueError(f"problem: the hard bounds {box} of {name!r} are reversed")
        if np.isnan(low) or np.isnan(high):
            raise ValueError(
                f"problem: plausible bounds of {name!r} are missing: give a box that holds most of "
                "the posterior by your guess, or a prior made of univariate distributions, whose "
                "central quantiles they then are"
            )
        if not low < high:
            raise ValueError(
                f"problem: the plausible bounds {plausible} of {name!r} are reversed or equal"
            )
        if not lower <= low < high <= upper:
            raise ValueError(
                f"problem: the plausible bounds {plausible} of {name!r} are not within its hard "
                f"bounds {box}"
            )
        if not np.isfinite([low, high]).all():
            raise ValueError(f"problem: the plausible bounds of {name!r} must be finite")
        if np.isfinite(lower) != np.isfinite(upper) and (low == lower or high == upper):
            distance = f"{name} − {lower:g}" if np.isfinite(lower) else f"{upper:g} − {name}"
            inside = lower + (high - low) / 100 if low == lower else upper - (high - low) / 100
            raise ValueError(
                f"problem: {name!r} has one hard bound, {lower if low == lower else upper:g}, and "
                f"a plausible bound on it; runs work in log({distance}), so move the plausible "
                f"bound inside, for example to {inside:g}"
            )
