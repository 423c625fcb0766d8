"""`VerifiedEvidence`: what evaluations of the model at draws of the stack say about the stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.stacking.importance import TRUSTED

SURPRISE_NATS, SURPRISE_SDS = 0.5, 4.0  # by which a value surprises the surrogate, together
STATED_NATS = 0.02  # by which an ELBO may be below the one that was stated, beyond its errors
SAME_NATS = 0.005  # the same by the surrogate, where only the draws differ
FAR = 0.25  # nats from the posterior; a stack that is farther is not a good one
TAIL = 0.05  # nats from the posterior, from which on heavy tails of the weights are a fault


@dataclass(frozen=True)
class Points:
    """Draws of the stack at which the model was evaluated.

    Attributes
    ----------
    x : (n, D)
        In the original space.
    values : (n,)
        Log density there; −inf outside the support.
    sds : (n,) or None
        Of noisy values.
    log_q : (n,)
        Log density of the stack there.
    surrogate, surrogate_sds : (n,) or None
        What the pooled surrogate says there, without these values; None when there is none.
    """

    x: Array
    values: Array
    sds: Array | None
    log_q: Array
    surrogate: Array | None = None
    surrogate_sds: Array | None = None

    @property
    def size(self) -> int:
        return int(self.values.size)

    @property
    def surprising(self) -> NDArray[np.bool_]:
        """Which values (n,) are far from what the surrogate says; all outside the support are."""
        outside = np.isneginf(self.values)
        if self.surrogate is None or self.surrogate_sds is None:
            return outside
        noise = 0.0 if self.sds is None else self.sds
        allowed = SURPRISE_NATS + SURPRISE_SDS * np.hypot(self.surrogate_sds, noise)
        with np.errstate(invalid="ignore"):
            return outside | (np.abs(self.values - self.surrogate) > allowed)


class Stated(NamedTuple):
    """What a stack says of itself: its ELBO, the standard deviation of that, and the part of it
    that is due to the draws alone."""

    elbo: float
    elbo_sd: float
    draws_sd: float


UNSTATED = Stated(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class VerifiedEvidence:
    """The evidence of a stack that was checked against the model, in nats.

    Attributes
    ----------
    log_evidence, log_evidence_sd : float
        By importance weights.
    elbo, elbo_sd : float
        Of the stack.
    divergence : float
        KL(q ‖ p): log evidence less ELBO, never negative.
    shape : float
        k̂ of the importance weights: up to 0.7 they can be trusted.
    effective_size : float
        What the n draws are worth, weighted.
    n, outside, surprises : int
        Draws at which the model was evaluated; of them those outside the support, and those whose
        value is far from what the surrogate says.
    stated_elbo, stated_elbo_sd : float
        What the stack said of itself; NaN where it said nothing.
    overstated, overstated_sd : float
        That less its ELBO by the surrogate, at many draws of the stack as it is, and the error that
        the draws have; NaN without a surrogate.
    evaluations, rounds : int
        Calls of the model in all rounds; after each round but the last the stack was made again.
    repeated : float
        Largest difference, in nats, between values at points that were evaluated twice.
    scatter : float
        Of noisy values around the surrogate, in units of what noise and surrogate allow; NaN of
        exact ones.
    undeclared : float
        Standard deviation, in nats, of noise that was not declared; 0 where none was noticed.
    """

    log_evidence: float
    log_evidence_sd: float
    elbo: float
    elbo_sd: float
    divergence: float
    shape: float
    effective_size: float
    n: int
    outside: int
    surprises: int
    stated_elbo: float
    stated_elbo_sd: float
    evaluations: int
    rounds: int = 1
    repeated: float = 0.0
    scatter: float = np.nan
    undeclared: float = 0.0
    overstated: float = np.nan
    overstated_sd: float = np.nan

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the stack, in words; none if it is right."""
        found = []
        if self.undeclared > 0:
            found.append(self.undeclared_noise)
        if self.outside:
            found.append(f"{self.outside} of {self.n} draws are outside the support")
        if self.surprises > self.outside:
            others = self.surprises - self.outside
            found.append(f"{others} of {self.n} values are far from what the surrogate says")
        below = self.stated_elbo - self.elbo
        by_model = below > STATED_NATS + 3 * np.hypot(self.elbo_sd, self.stated_elbo_sd)
        if by_model or self.overstated > SAME_NATS + 3 * self.overstated_sd:
            lower = max(below, self.overstated) if self.overstated > 0 else below
            found.append(f"its ELBO is {lower:.2f} nats lower than it said")
        if self.divergence > FAR:
            found.append(f"it is {self.divergence:.2f} nats from the posterior")
        elif self.shape > TRUSTED and self.divergence > TAIL:
            found.append(f"tails are missing (k̂ {self.shape:.2f} of the importance weights)")
        return tuple(found)

    @property
    def undeclared_noise(self) -> str:
        """What shows noise that was not declared, and its size; empty where none was noticed."""
        if not self.undeclared > 0:
            return ""
        if np.isnan(self.scatter):
            return (
                f"values at points that were evaluated before differ by up to {self.repeated:.2g} "
                f"nats: the log density has noise of about {self.undeclared:.2g} nats that was not "
                "declared (noisy=True)"
            )
        return (
            f"values scatter {self.scatter:.1f} times as much as their standard deviations and the "
            f"surrogate's allow: about {self.undeclared:.2g} nats of noise were not declared"
        )

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with the stack, as far as its own draws can tell."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.passed:
            return f"Verified: the stack agrees with the model at {self.n} draws."
        return f"Not verified at {self.n} draws: {'; '.join(self.faults)}."


def check_correctable(found: VerifiedEvidence | None) -> None:
    """An error if draws of the stack cannot be corrected by importance weights."""
    if found is None:
        raise ValueError("only draws of a verified stack can be corrected: call verify() first")
    if found.outside or found.surprises or not found.shape <= TRUSTED:
        raise ValueError(
            f"draws cannot be corrected: {found.surprises} of {found.n} values were far from the "
            f"surrogate, and k̂ of the importance weights is {found.shape:.2f} (at most {TRUSTED}). "
            "Make more runs"
        )
