"""`BenchmarkProblem`: a target with its true answers, and what a run sees of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.arrays import Array
from benchmarks.problems.reference_posterior import Reference
from vbstack import Problem


@dataclass(frozen=True)
class BenchmarkProblem:
    """A target with known answers.

    `log_density` takes one point (D,) and returns a float, as VBMC wants it; `log_densities` takes
    rows (n, D). `sample(n, rng)` draws from the normalised target: exactly, or out of the draws of
    a stored reference. `noise_sd` is the standard deviation of the Gaussian noise that a run sees
    on every value. `lower_bounds` and `upper_bounds` are the hard bounds, None if there are none.
    """

    name: str
    names: tuple[str, ...]
    log_densities: Callable[[Array], Array]
    sample: Callable[[int, np.random.Generator], Array]
    log_evidence: float
    plausible_lower_bounds: Array
    plausible_upper_bounds: Array
    noise_sd: float = 0.0
    lower_bounds: Array | None = None
    upper_bounds: Array | None = None
    reference: Reference | None = None

    def log_density(self, x: Array) -> float:
        return float(self.log_densities(np.atleast_2d(x))[0])

    def noisy_log_density(self, x: Array, *, rng: np.random.Generator) -> tuple[float, float]:
        return self.log_density(x) + self.noise_sd * rng.standard_normal(), self.noise_sd

    def problem(self) -> Problem:
        """What a run sees: the log density, with the record's noise on every value."""
        noisy = self.noise_sd > 0
        return Problem(
            log_density=self.noisy_log_density if noisy else self.log_density,
            plausible_lower_bounds=self.plausible_lower_bounds,
            plausible_upper_bounds=self.plausible_upper_bounds,
            lower_bounds=self.lower_bounds,
            upper_bounds=self.upper_bounds,
            names=self.names,
            noisy=noisy,
        )

    @property
    def dimension(self) -> int:
        return len(self.names)
