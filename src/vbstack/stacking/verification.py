"""`VerifiedEvidence`: what evaluations of the model at draws of the stack say about the stack.

With x_i ~ q, n of them, and any function g(x) that stands in for log p, here the pooled surrogate,

    ELBO = E_q[g − log q] + (1/n) Σ_i (log p(x_i) − g(x_i))
    Z    = E_q[e^g / q]   + (1/n) Σ_i (p(x_i) − e^g(x_i)) / q(x_i)

are unbiased whatever g is. The expectations of g need no evaluation, so they are averages over many
draws; the sums correct them, and their scatter is their error. The better g, the smaller the error:
g is a control variate. Where it makes the scatter larger it is left out. Ratios e^g/q are cut at √N
times their median: beyond the evaluations a surrogate can make mass up.

log Z − ELBO is the divergence KL(q ‖ p). It is seen where q has draws; what lies beyond is of its
order, so the divergence counts as an error of the log evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import chi2

from vbstack.arrays import Array
from vbstack.stacking.importance import TRUSTED, pareto_smoothed

ROUNDING = 0.002  # nats; smaller errors are not stated: they are those of quadratures and draws
SURPRISE_NATS, SURPRISE_SDS = 0.5, 4.0  # by which a value surprises the surrogate, together
STATED_NATS = 0.02  # by which an ELBO may be below the one that was stated, beyond its errors
SAME_NATS = 0.005  # the same by the surrogate, where only the draws differ
REPEATED_NATS = 0.005  # by which an exact log density may differ when it is asked again
SCATTER = (
    1e-4  # chance of a scatter of noisy values as large as the one seen, below which it is said
)
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


def verified(
    points: Points,
    log_ratios: Array | None,
    *,
    stated: Stated = UNSTATED,
    evaluations: int = 0,
    rounds: int = 1,
    repeated: Array | None = None,
) -> VerifiedEvidence:
    """The estimates from n evaluations, and log ratios g − log q (N,) at many further draws.

    `log_ratios` is None when there is no surrogate; `stated` is what the stack says of itself,
    `repeated` (m,) what values differed by where the model was asked again.
    """
    differences = np.zeros(1) if repeated is None or not repeated.size else np.abs(repeated)
    scatter, undeclared = _noise(points, differences)
    log_w = points.values - points.log_q
    inside = np.isfinite(log_w)
    if not inside.any():
        raise ValueError(
            f"all {points.size} draws of the stack are outside the support of the posterior: these "
            "runs are not of this problem"
        )
    control = None if points.surrogate is None else points.surrogate - points.log_q
    overstated = overstated_sd = np.nan
    if log_ratios is not None:
        overstated = stated.elbo - float(log_ratios.mean())
        overstated_sd = float(np.hypot(stated.draws_sd, _error(log_ratios)))
    shape = pareto_smoothed(log_w if log_ratios is None else log_ratios).shape
    if log_ratios is not None and control is not None:
        most = float(np.median(log_ratios) + 0.5 * np.log(log_ratios.size))
        log_ratios, control = np.minimum(log_ratios, most), np.minimum(control, most)
    elbo, elbo_sd = _elbo(log_w, inside, control, log_ratios)
    if points.sds is None:
        log_z, log_z_sd = _log_evidence(log_w, control, log_ratios)
    else:  # e^value is biased by its noise; the surrogate is not, so far as it is known
        ratios = log_w if log_ratios is None else log_ratios
        log_z, log_z_sd = elbo + float(_log_mean(ratios) - ratios.mean()), elbo_sd
    divergence = max(0.0, log_z - elbo)
    relative = np.exp(log_w[inside] - log_w[inside].max())
    return VerifiedEvidence(
        log_evidence=log_z,
        log_evidence_sd=float(np.sqrt(log_z_sd**2 + divergence**2 + ROUNDING**2)),
        elbo=elbo,
        elbo_sd=float(np.hypot(elbo_sd, ROUNDING)),
        divergence=divergence,
        shape=shape,
        effective_size=float(relative.sum() ** 2 / np.square(relative).sum()),
        n=points.size,
        outside=int((~inside).sum()),
        surprises=int(points.surprising.sum()),
        stated_elbo=stated.elbo,
        stated_elbo_sd=stated.elbo_sd,
        evaluations=evaluations or points.size,
        rounds=rounds,
        repeated=float(differences.max()),
        scatter=scatter,
        undeclared=undeclared,
        overstated=overstated,
        overstated_sd=overstated_sd,
    )


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


def _noise(points: Points, differences: Array) -> tuple[float, float]:
    """How much noisy values scatter, and the sd of noise that was not declared; 0 if none is seen.

    An exact log density has the same value again. Of a noisy one Σ r² / (σ² + v), residuals r from
    the surrogate whose variance is v, is a draw of χ²_n if the standard deviations σ are right.
    """
    if points.sds is None:
        worst = float(differences.max())
        return np.nan, worst / np.sqrt(2) if worst > REPEATED_NATS else 0.0
    if points.surrogate is None or points.surrogate_sds is None:
        return np.nan, 0.0
    squares = np.square(points.values - points.surrogate)
    allowed = np.square(points.sds) + np.square(points.surrogate_sds)
    total = float((squares / allowed).sum())
    scatter = float(np.sqrt(total / points.size))
    if chi2.sf(total, points.size) > SCATTER:
        return scatter, 0.0
    return scatter, float(np.sqrt(max(0.0, float((squares - allowed).mean()))))


def _elbo(
    log_w: Array, inside: NDArray[np.bool_], control: Array | None, log_ratios: Array | None
) -> tuple[float, float]:
    """E_q[log p − log q] and its standard error; of q cut off at the support where some draws are
    outside."""
    seen = log_w[inside]
    share = float(inside.mean())
    cut = float(np.log(share)), float(np.sqrt((1 - share) / share / log_w.size))
    if control is not None and log_ratios is not None and inside.all():
        rest = seen - control
        if np.var(rest) < np.var(seen):
            value = float(log_ratios.mean() + rest.mean())
            return value, float(np.hypot(_error(rest), _error(log_ratios)))
    return float(seen.mean()) + cut[0], float(np.hypot(_error(seen), cut[1]))


def _log_evidence(
    log_w: Array, control: Array | None, log_ratios: Array | None
) -> tuple[float, float]:
    """log E_q[p/q] and its standard error."""
    plain = pareto_smoothed(log_w).log_ratios
    log_z = _log_mean(plain)
    error = _error(np.exp(plain - log_z))
    if control is None or log_ratios is None:
        return log_z, error
    known = _log_mean(log_ratios)
    rest = np.exp(log_w - known) - np.exp(control - known)
    total = 1 + float(rest.mean())
    controlled = np.hypot(_error(rest) / total, _error(np.exp(log_ratios - known)))
    if total <= 0 or controlled > error:
        return log_z, error
    return known + float(np.log(total)), float(controlled)


def _log_mean(logs: Array) -> float:
    return float(logsumexp(logs) - np.log(logs.size))


def _error(values: Array) -> float:
    """Standard error of the mean."""
    if values.size < 2:
        return np.inf
    return float(np.std(values, ddof=1) / np.sqrt(values.size))
