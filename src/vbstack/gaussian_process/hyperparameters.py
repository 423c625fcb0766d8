"""`Hyperparameters`: what a squared-exponential process with a quadratic mean is made of.

    f ~ GP(m, k),  k(x, x') = σ_f² exp(−½ Σ_d (x_d − x'_d)²/ℓ_d²),
    m(x) = m0 − ½ Σ_d (x_d − c_d)²/ω_d²                        (Acerbi 2018, eqs. 3 and 4)

A constant mean has infinite widths ω.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vbstack.arrays import Array
from vbstack.modes import MeanFunction
from vbstack.runs.surrogate import Surrogate


@dataclass(frozen=True)
class Hyperparameters:
    """log ℓ (D,), log σ_f, m0, c (D,) and log ω (D,)."""

    log_lengths: Array
    log_output: float
    height: float
    centre: Array
    log_widths: Array

    @property
    def dimension(self) -> int:
        return int(self.log_lengths.size)

    @cached_property
    def lengths(self) -> Array:
        return np.exp(self.log_lengths)

    @cached_property
    def variance(self) -> float:
        """σ_f²."""
        return float(np.exp(2 * self.log_output))

    @cached_property
    def mean_precision(self) -> Array:
        """1/ω² (D,)."""
        return np.exp(-2 * self.log_widths)

    def mean(self, points: Array) -> Array:
        """m (n,) at points (n, D)."""
        away = (points - self.centre) / self.widths
        return np.asarray(self.height - 0.5 * np.square(away).sum(axis=1))

    @cached_property
    def widths(self) -> Array:
        return np.exp(self.log_widths)

    @property
    def vector(self) -> Array:
        """All of them (3D + 2,), for an optimiser."""
        return np.r_[self.log_lengths, self.log_output, self.height, self.centre, self.log_widths]

    @classmethod
    def from_vector(cls, vector: Array) -> Hyperparameters:
        d = (vector.size - 2) // 3
        return cls(
            vector[:d], vector[d], vector[d + 1], vector[d + 2 : 2 * d + 2], vector[2 * d + 2 :]
        )


def hyperparameters_of(surrogate: Surrogate) -> tuple[Hyperparameters, ...]:
    """Those of a run's surrogate, one per sample, in the run's space."""
    rows = zip(surrogate.log_lengths, surrogate.log_output, surrogate.mean_parameters, strict=True)
    return tuple(
        Hyperparameters(lengths, float(output), *_mean_function(surrogate.mean, mean, lengths.size))
        for lengths, output, mean in rows
    )


def _mean_function(kind: MeanFunction, numbers: Array, d: int) -> tuple[float, Array, Array]:
    """m0, c and log ω from the numbers that a surrogate keeps for this kind of mean."""
    height = 0.0 if kind == "zero" else float(numbers[0])
    if kind == "negative_quadratic":
        return height, numbers[1 : d + 1], numbers[d + 1 :]
    return height, np.zeros(d), np.full(d, np.inf)


def as_surrogate(
    h: Hyperparameters, inputs: Array, values: Array, noise_variance: Array
) -> Surrogate:
    """A process with one set of hyperparameters as the arrays that a run keeps."""
    return Surrogate(
        inputs=inputs,
        values=values,
        noise_variance=noise_variance[None],
        log_lengths=h.log_lengths[None],
        log_output=np.array([h.log_output]),
        mean="negative_quadratic",
        mean_parameters=np.r_[h.height, h.centre, h.log_widths][None],
    )
