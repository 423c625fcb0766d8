"""Are the runs enough? The rule, and what it estimates from the runs alone.

A run finds a part of the posterior that c of M runs cover with a probability of about p = c / M.
All M runs miss a part like it with probability m = (1 − p)^M. For each that is seen, m / (1 − m)
are expected to be missing (capture and recapture; Horvitz & Thompson 1952):

    missing mass ≈ Σ_c  mass covered by exactly c runs × m(c) / (1 − m(c))

On average that is too much where a run finds a part with a probability of a third or more (four
runs), or a fifth or more (eight), and too little of parts that are found less often.

A mode that no run met leaves no such trace. What can be said about it is how often the runs looked:
a mode that a look meets with probability s is missed by n independent looks with probability
(1 − s)^n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vbstack.arrays import Array

TOLERANCE = 0.02  # nats, and share of mass; measured by `python -m benchmarks coverage`
FEWEST = 4  # runs that looked at other places of the plausible box as well
FEWEST_WITHOUT_LOOKS = 8  # runs that did not; chosen by `python -m benchmarks enough-runs`
LOOKS = 30  # of all runs together: a mode that one look in ten meets is then missed in 4 % of fits
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
    missed = (1 - np.arange(1, runs + 1) / runs) ** runs
    return float(by_runs[1:] @ (missed / (1 - missed)))


def hidden_share(looks: int) -> float:
    """The share of looks that must meet a mode for it to be met with 95 % probability."""
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
    count, largest, missing = by_runs.size - 1, float(gains.max()), missing_mass(by_runs)
    fewest = fewest_runs(count, looks)
    limit = max(tolerance, noise_sd)
    unseen = (
        f"a mode that {hidden_share(max(looks, count)):.0%} of looks at the plausible box meet is "
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


def fewest_runs(count: int, looks: int) -> int:
    """How many runs are needed before they can be enough, if further ones look as often."""
    if looks >= LOOKS:
        return FEWEST
    more = int(np.ceil(count * LOOKS / looks)) if looks else FEWEST_WITHOUT_LOOKS
    return min(max(more, FEWEST, count + 1), FEWEST_WITHOUT_LOOKS)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
