"""Are the runs enough? The rule, and what it estimates from the runs alone.

A part of the posterior that c of M runs cover was found by c − 1 of the M − 1 others, seen from a
run that found it. So a run finds it with a probability of about p = (c − 1) / (M − 1), and all M
runs miss a part like it with probability m = (1 − p)^M. For each that is seen, m / (1 − m) are
expected to be missing (Horvitz & Thompson 1952; leaving out the run that found it is Good's and
Turing's way, 1953, without which a part that was found by luck would count as easily found):

    missing mass ≈ Σ_c  mass covered by exactly c runs × m(c) / (1 − m(c)),    at most 1 each.

A mode that no run met leaves no such trace. What can be said about it is how often the runs looked:
a basin that holds a share s of the plausible box is missed by n independent looks with probability
(1 − s)^n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vbstack.arrays import Array

TOLERANCE = 0.02  # nats, and share of mass; measured by `python -m benchmarks coverage`
FEWEST = 4  # runs that looked at other places of the plausible box as well
FEWEST_WITHOUT_LOOKS = 8  # runs that did not; chosen by `python -m benchmarks enough-runs`
LOOKS = 30  # of all runs together: a basin of a tenth of the box is then missed in 4 % of fits
_CONFIDENCE = 0.05


class Verdict(NamedTuple):
    """Whether the runs are enough, why in words, and how many there must be at least."""

    enough: bool
    text: str
    at_least: int


def missing_mass(by_runs: Array) -> float:
    """Share of the mass that no run found, from the shares (M + 1,) that exactly 0 … M runs cover.

    What no run covers, though the stack does, is the stack's own tail and not counted.
    """
    runs = by_runs.size - 1
    if runs == 1:
        return 1.0
    found = np.arange(runs) / (runs - 1)  # by another run, of what 1, 2, … runs cover
    missed = (1 - found) ** runs
    return float(by_runs[1:] @ (missed / np.maximum(1 - missed, missed)))


def hidden_basin(looks: int) -> float:
    """The share of the plausible box that a basin must have to be met with 95 % probability."""
    return float(1 - _CONFIDENCE ** (1 / looks)) if looks else 1.0


def enough_runs(
    gains: Array,
    by_runs: Array,
    looks: int,
    tolerance: float = TOLERANCE,
    noise_sd: float = 0.0,
) -> Verdict:
    """Whether M runs are enough, and why in words.

    They are when they could have disagreed and did not: they looked at 30 places or more where
    another mode might have been, or there are at least eight runs; without any one of them the
    stacked ELBO falls by less than the tolerance (with a noisy log density, than its own sd, if
    that is larger); and the missing mass is estimated to be below the tolerance.

    Parameters
    ----------
    gains : (M,)
        Nats that the stack loses without each run.
    by_runs : (distinct runs + 1,)
        Share of the mass that exactly 0, 1, 2, … runs cover; copies of a run count once.
    looks : int
        Places where the runs could have met another mode and did not, of all runs together.
    """
    count, largest, missing = gains.size, float(gains.max()), missing_mass(by_runs)
    fewest = FEWEST if looks >= LOOKS else FEWEST_WITHOUT_LOOKS
    limit = max(tolerance, noise_sd)
    unseen = (
        f"a mode whose basin is {hidden_basin(max(looks, count)):.0%} of the plausible box is "
        f"missed by all of them in 5 % of cases"
    )
    if count < fewest:
        text = (
            f"More runs are needed: {_runs(count)} that looked at {looks} other places cannot "
            f"tell what all of them missed ({unseen}); stack at least {fewest}."
        )
    elif largest >= limit or missing >= tolerance:
        text = (
            f"More runs are needed: one run alone is worth {largest:.3f} nats (should be below "
            f"{limit:.3g}), and {missing:.1%} of the posterior mass is estimated to be missing "
            f"(should be below {tolerance:.1%})."
        )
    else:
        text = (
            f"Enough runs: no run alone is worth more than {max(0.0, largest):.3f} nats, and "
            f"{missing:.1%} of the posterior mass is estimated to be missing. Stacking cannot "
            f"recover what every run missed: {unseen}."
        )
    return Verdict(text.startswith("Enough"), text, fewest)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
