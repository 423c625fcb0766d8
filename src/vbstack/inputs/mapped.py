"""`Mapped`: a user's function seen from other parameters, f(map(x)). Maps insert fixed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.calling import failure, shown


@dataclass(frozen=True, eq=False)
class Mapped:
    """x → function(map(x)); further arguments are passed on. Of points (n, D) each is mapped."""

    function: Callable[..., Any]
    map: Callable[[Array], Any]

    def __call__(self, x: Array, *args: Any, **kwargs: Any) -> Any:
        one = np.ndim(x) < 2
        seen = self.map(x) if one else np.array([self.map(row) for row in x])
        return self.function(seen, *args, **kwargs)


@dataclass(frozen=True, eq=False)
class Insertion:
    """x → all parameters, with those that are fixed at their values.

    Parameters
    ----------
    fixed : mapping
        The values of the fixed parameters, by their names.
    places : tuple of int
        Where in the vector of all parameters these are, in the same order.
    """

    fixed: Mapping[str, float]
    places: tuple[int, ...]

    @classmethod
    def of(
        cls, fixed: Mapping[str, float], names: Sequence[str], lower: Array, upper: Array
    ) -> Insertion:
        """The insertion of these values among parameters with these names and hard bounds."""
        for name, value in fixed.items():
            if name not in names:
                raise ValueError(f"problem: there is no parameter {name!r}, only {list(names)}")
            ends = lower[names.index(name)], upper[names.index(name)]
            if not (np.isfinite(value) and ends[0] <= value <= ends[1]):
                raise ValueError(
                    f"problem: the fixed value {value} of {name!r} is not within its hard bounds "
                    f"[{ends[0]}, {ends[1]}]"
                )
        if len(fixed) == len(names):
            raise ValueError("problem: all parameters are fixed; leave one free")
        values = {name: float(value) for name, value in fixed.items()}
        return cls(values, tuple(names.index(name) for name in fixed))

    def __call__(self, x: Array) -> Array:
        size = len(x) + len(self.places)
        everything = np.empty(size)
        everything[list(self.places)] = list(self.fixed.values())
        everything[np.setdiff1d(np.arange(size), self.places)] = x
        return everything


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function within maps."""
    while isinstance(function, Mapped):
        function = function.function
    return function


def maps_of(function: Callable[..., Any]) -> list[Callable[[Array], Any]]:
    """The maps between a problem's parameters and those of the user's function, in their order."""
    found = []
    while isinstance(function, Mapped):
        found.append(function.map)
        function = function.function
    return found


def through(maps: Sequence[Callable[[Array], Any]], point: Array) -> Array:
    """A point after all maps, which must leave finite numbers; a ValueError if they do not."""
    value: Any = point
    try:
        for one in maps:
            value = one(np.array(value, dtype=float))
        value = np.array(value, dtype=float)
    except Exception as error:
        message, _ = failure("transform", error)
        raise ValueError(f"problem: {message}, at u = {point.tolist()}") from error
    if value.ndim != 1 or not value.size or not np.isfinite(value).all():
        raise ValueError(
            f"problem: transform returned {shown(value)} at u = {point.tolist()}, expected one "
            "finite number per parameter"
        )
    return np.asarray(value)
