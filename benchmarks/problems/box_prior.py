"""`Box`: hard and plausible bounds, and the spline-trapezoidal prior on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrays import Array


@dataclass(frozen=True)
class Box:
    """Bounds (D,) of each parameter: hard ones around plausible ones."""

    lower: Array
    plausible_lower: Array
    plausible_upper: Array
    upper: Array

    @classmethod
    def of(cls, *rows: tuple[float, float, float, float]) -> Box:
        """From one row (hard, plausible, plausible, hard) per parameter, in rising order."""
        return cls(*np.array(rows, dtype=float).T)

    def part(self, parameter: int) -> Box:
        """The bounds of one parameter, as scalars."""
        return Box(
            self.lower[parameter],
            self.plausible_lower[parameter],
            self.plausible_upper[parameter],
            self.upper[parameter],
        )

    def inside(self, x: Array) -> NDArray[np.bool_]:
        """Which rows of x (n, D) are strictly within the hard bounds."""
        return np.asarray(((x > self.lower) & (x < self.upper)).all(axis=-1))

    def log_priors(self, x: Array) -> Array:
        """Log prior density of each parameter, the shape of x; −∞ outside.

        Flat between the plausible bounds, and from there to the hard bounds 3z² − 2z³ with z
        falling from one to zero (`pyvbmc.priors.SplineTrapezoidal`).
        """
        rise = (x - self.lower) / (self.plausible_lower - self.lower)
        fall = (self.upper - x) / (self.upper - self.plausible_upper)
        z = np.clip(np.minimum(rise, fall), 0.0, 1.0)
        area = 0.5 * (self.plausible_upper - self.plausible_lower + self.upper - self.lower)
        with np.errstate(divide="ignore"):
            return np.log(z * z * (3.0 - 2.0 * z)) - np.log(area)
