"""`FitRow`: what is kept of one fit of several runs, and what follows from it.

Kept are the raw shares of mass, so that another definition of "found" needs no new runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrays import Array
from vbstack.analysis.enough import enough_runs

FOUND = 0.5  # of a mode's true mass, in the stack or in a run: less is a tail, not the mode
NOTICED = 0.05  # of a run's own mass: a run in few modes rarely has their relative masses right
LARGE = 0.1  # of the mass: a mode that must not be missed
TOO_MUCH = 0.02  # of the mass missing: "enough" is then false


@dataclass(frozen=True)
class Wave:
    """The stack of a fit's first runs: what it found, and what the rule for enough runs sees.

    Attributes
    ----------
    runs : int
        Runs made so far.
    shares, lost_nats
        As in `FitRow`.
    gains : per stacked run
        Nats that the stack loses without it.
    by_runs : (distinct runs + 1,)
        Share of the stack's mass that exactly 0, 1, 2, … of the runs cover.
    looks : int
        Of all stacked runs together.
    """

    runs: int
    shares: list[float]
    lost_nats: float
    gains: list[float]
    by_runs: list[float]
    looks: int

    def enough(self) -> bool:
        """What the rule says of them; the targets with noise are not measured by waves."""
        return enough_runs(np.array(self.gains), np.array(self.by_runs), self.looks).enough

    def mass_found(self, masses: Array) -> float:
        return mass_found(self.shares, masses)


@dataclass(frozen=True)
class FitRow:
    """One fit.

    Attributes
    ----------
    seed : int
        Of the fit; of archived runs, the number of the subset.
    runs, failed, stacked : int
        Runs asked for, those that failed, those that the stack kept.
    shares : (k,)
        The stack's mass in each cell; zeros when no run could be stacked.
    lost_nats : float or None
        Log evidence less the stack's true ELBO; None when no run could be stacked.
    run_shares : per run (k,)
        The mass of the run's own mixture in each cell, also of runs that the stack left out.
    evaluations, seconds : per run
    enough : bool
        What `diagnostics` said.
    waves : Wave of the first 4, 6 and 8 runs, and of all
        What `fit(n_runs="auto")` with two workers would have seen; none of noisy targets.
    """

    seed: int
    runs: int
    failed: int
    stacked: int
    shares: list[float]
    lost_nats: float | None
    run_shares: list[list[float]]
    evaluations: list[int]
    seconds: list[float]
    enough: bool
    waves: tuple[Wave, ...] = ()

    def mass_found(self, masses: Array) -> float:
        """Σ_k p_k 1[q_k ≥ p_k / 2] for the true masses p and the stack's q."""
        return mass_found(self.shares, masses)

    @property
    def says_enough(self) -> bool:
        """What the present rule says; of rows without waves, what the rule said then."""
        return self.waves[-1].enough() if self.waves else self.enough

    def misses_large_mode(self, masses: Array) -> bool:
        """Whether a mode of a tenth of the mass or more is missing."""
        return bool(np.any(~_found(self.shares, masses) & (masses >= LARGE)))

    def false_enough(self, masses: Array) -> bool:
        """Whether the diagnostics said "enough" while more than 2 % of the mass is missing."""
        return self.says_enough and 1 - self.mass_found(masses) > TOO_MUCH

    def found_by_runs(self, masses: Array) -> NDArray[np.bool_]:
        """Which run found which mode, (runs, k): half of its mass, or 5 % of the run's own."""
        shares = np.reshape(self.run_shares, (len(self.run_shares), masses.size))
        return np.asarray((shares >= FOUND * masses) | (shares >= NOTICED))

    def first_enough(self) -> Wave | None:
        """The wave after which `fit(n_runs="auto")` stops; None if it goes on after all of them."""
        return next((wave for wave in self.waves if wave.enough()), None)


def mass_found(shares: list[float], masses: Array) -> float:
    """Σ_k p_k 1[q_k ≥ p_k / 2] for the true masses p and the stack's shares q."""
    return float(masses[_found(shares, masses)].sum())


def _found(shares: list[float], masses: Array) -> NDArray[np.bool_]:
    return np.asarray(np.array(shares) >= FOUND * masses)
