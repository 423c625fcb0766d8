"""`CoverageTarget`: a log density whose mass is divided into cells, mostly modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from benchmarks.arrays import Array
from benchmarks.coverage.laws import Law, log_parts, mixed
from benchmarks.problems import BenchmarkProblem

Role = Literal["development", "report", "unimodal"]


@dataclass(frozen=True)
class CoverageTarget:
    """A target with known answers, and where its mass is.

    Parameters
    ----------
    role : "development", "report" or "unimodal"
        Report targets are looked at when the engine is done, and never before.
    truth : BenchmarkProblem
        Log density, exact draws, log evidence, bounds and noise.
    cell : function of rows (n, D)
        The cell (n,) of each.
    masses : (k,)
        The true mass of each cell.
    names : k strings
        What the cells are called.
    """

    role: Role
    truth: BenchmarkProblem
    cell: Callable[[Array], NDArray[np.intp]]
    masses: Array
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.truth.name

    def shares(self, x: Array) -> Array:
        """The share of the rows x (n, D) in each cell, (k,)."""
        counts = np.bincount(self.cell(x), minlength=self.masses.size)
        return np.asarray(counts / len(x))


def several(
    name: str,
    role: Role,
    modes: Sequence[tuple[str, float, Law]],
    box: tuple[ArrayLike, ArrayLike],
    log_evidence: float = 0.0,
    noise_sd: float = 0.0,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> CoverageTarget:
    """A mixture of modes (name, mass, law), whose cells are where a mode has most of the density.

    Modes overlap so little that the mass of a cell is that of its mode (a test demands it).
    `box` and `bounds` are the plausible and the hard bounds.
    """
    names, masses, laws = zip(*modes, strict=True)
    p = np.array(masses)
    lower, upper = (np.asarray(side, dtype=float) for side in box)
    hard = None if bounds is None else [np.asarray(side, dtype=float) for side in bounds]

    def log_densities(x: Array) -> Array:
        return np.asarray(log_evidence + logsumexp(log_parts(laws, p, x), axis=1))

    truth = BenchmarkProblem(
        name,
        tuple(f"x{d + 1}" for d in range(lower.size)),
        log_densities,
        mixed(laws, p).draw,
        log_evidence,
        lower,
        upper,
        noise_sd,
        None if hard is None else hard[0],
        None if hard is None else hard[1],
    )
    return CoverageTarget(role, truth, lambda x: log_parts(laws, p, x).argmax(axis=1), p, names)


def single(truth: BenchmarkProblem) -> CoverageTarget:
    """A unimodal problem as a target of one cell."""
    whole = np.ones(1)
    return CoverageTarget("unimodal", truth, lambda x: np.zeros(len(x), np.intp), whole, ("all",))


def cube(dimension: int, half_width: float) -> tuple[Array, Array]:
    """A plausible box around zero."""
    return np.full(dimension, -half_width), np.full(dimension, half_width)
