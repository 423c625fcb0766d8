"""`PlausibleBox`: the plausible bounds as a box from which points are drawn.

A parameter with one hard bound is drawn in its logarithm, log(x − a) or −log(b − x): between 0.01
and 10 above zero each order of magnitude has the same chance. All others are drawn as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.runs.transform import Link


@dataclass(frozen=True)
class PlausibleBox:
    """The plausible bounds in the space of a link that has logarithms only.

    Parameters
    ----------
    link : Link
        The map between a problem's parameters and the space of the box.
    low, high : (D,)
        The plausible bounds, there.
    """

    link: Link
    low: Array
    high: Array

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> PlausibleBox:
        """The box of the problem with this `Problem.description()`."""

        def bounds(name: str) -> Array:
            return np.array(description[name], dtype=float)

        link = Link.of_bounds(bounds("lower_bounds"), bounds("upper_bounds")).logarithms
        ends = bounds("plausible_lower_bounds"), bounds("plausible_upper_bounds")
        low, high = link.forward(np.array(ends))
        return cls(link, low, high)

    def place(self, share: Array) -> Array:
        """Points (n, D) of the problem at these shares (n, D) of the box, 0 to 1."""
        return self.link.inverse(self.low + (self.high - self.low) * share)

    def uniform(self, rng: np.random.Generator) -> Array:
        """A random point (D,) of the problem."""
        return self.link.inverse(rng.uniform(self.low, self.high)[None])[0]

    def around(self, x: Array, reach: float, count: int, rng: np.random.Generator) -> Array:
        """Points (count, D) uniform around x (D,): up to `reach` widths of the box away.

        They stay within the box, unless x itself does not.
        """
        z = self.link.forward(x[None])[0]
        step = reach * (self.high - self.low)
        lower = np.minimum(np.maximum(self.low, z - step), z)
        upper = np.maximum(np.minimum(self.high, z + step), z)
        return self.link.inverse(rng.uniform(lower, upper, (count, z.size)))
