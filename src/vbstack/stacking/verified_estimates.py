"""`verified()`: the estimates from evaluations of the model at n draws of the stack.

With x_i ~ q, n of them, and any function g(x) that stands in for log p, here the pooled surrogate,

    ELBO = E_q[g − log q] + (1/n) Σ_i (log p(x_i) − g(x_i))
    Z    = E_q[e^g / q]   + (1/n) Σ_i (p(x_i) − e^g(x_i)) / q(x_i)

are unbiased whatever g is. The expectations of g need no evaluation, so they are averages over many
draws; the sums correct them. Their error is their scatter, or what the surrogate itself expects of
it where that is more: few points seldom hold the largest residuals. The better g, the smaller the
error: g is a control variate. Where it makes the scatter larger it is left out. Ratios e^g/q are
cut at √N times their median: beyond the evaluations a surrogate can make mass up.

log Z − ELBO is the divergence KL(q ‖ p). It is seen where q has draws; what lies beyond is of its
order, so the divergence counts as an error of the log evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import chi2

from vbstack.arrays import Array
from vbstack.stacking.importance import pareto_smoothed
from vbstack.stacking.verification import UNSTATED, Points, Stated, VerifiedEvidence

ROUNDING = 0.002  # nats; smaller errors are not stated: they are those of quadratures and draws
REPEATED_NATS = 0.005  # by which an exact log density may differ when it is asked again
SCATTER = 1e-4  # chance of noisy values to scatter as much, below which it is a fault


class AtDraws(NamedTuple):
    """The surrogate at many draws x of the stack: g(x) − log q(x), and its variance of log p(x)."""

    log_ratios: Array
    variances: Array


def verified(
    points: Points,
    many: AtDraws | None,
    *,
    stated: Stated = UNSTATED,
    evaluations: int = 0,
    rounds: int = 1,
    repeated: Array | None = None,
) -> VerifiedEvidence:
    """The estimates from n evaluations, and the surrogate at many further draws.

    `many` is None when there is no surrogate; `stated` is what the stack says of itself,
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
    shape = pareto_smoothed(log_w if many is None else many.log_ratios).shape
    overstated, overstated_sd = _overstated(stated, many)
    control = None
    if many is not None and points.surrogate is not None:
        most = float(np.median(many.log_ratios) + 0.5 * np.log(many.log_ratios.size))
        cut = AtDraws(np.minimum(many.log_ratios, most), many.variances)
        control = Control(np.minimum(points.surrogate - points.log_q, most), cut)
    elbo, elbo_sd = _elbo(log_w, inside, control)
    if points.sds is None:
        log_z, log_z_sd = _log_evidence(log_w, control)
    else:  # e^value is biased by its noise; the surrogate is not, so far as it is known
        ratios = log_w if control is None else control.many.log_ratios
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


def _overstated(stated: Stated, many: AtDraws | None) -> tuple[float, float]:
    """The stated ELBO less that by the surrogate, and the error of their draws."""
    if many is None:
        return np.nan, np.nan
    difference = stated.elbo - float(many.log_ratios.mean())
    return difference, float(np.hypot(stated.draws_sd, _error(many.log_ratios)))


class Control(NamedTuple):
    """The control variate: g − log q at the n points (n,), and at many draws."""

    here: Array
    many: AtDraws


def _elbo(log_w: Array, inside: NDArray[np.bool_], control: Control | None) -> tuple[float, float]:
    """E_q[log p − log q] and its standard error; of q cut off at the support where some draws are
    outside."""
    seen = log_w[inside]
    if control is not None and inside.all():
        rest, ratios = seen - control.here, control.many.log_ratios
        if np.var(rest) < np.var(seen):
            error = _error(rest, float(control.many.variances.mean()))
            return float(ratios.mean() + rest.mean()), float(np.hypot(error, _error(ratios)))
    share = float(inside.mean())
    cut = float(np.log(share)), float(np.sqrt((1 - share) / share / log_w.size))
    return float(seen.mean()) + cut[0], float(np.hypot(_error(seen), cut[1]))


def _log_evidence(log_w: Array, control: Control | None) -> tuple[float, float]:
    """log E_q[p/q] and its standard error.

    The estimate with the smaller error is taken, and that error is at least what is expected of it:
    of two errors the smaller one would otherwise be too small.
    """
    plain = pareto_smoothed(log_w).log_ratios
    log_z = _log_mean(plain)
    if control is None:
        return log_z, _error(np.exp(plain - log_z))
    known = _log_mean(control.many.log_ratios)
    ratios = np.exp(control.many.log_ratios - known)
    rest = np.exp(log_w - known) - np.exp(control.here - known)
    total = 1 + float(rest.mean())
    expected = float((ratios**2 * control.many.variances).mean())
    error = _error(np.exp(plain - log_z), expected + float(np.var(ratios)))
    controlled = np.hypot(_error(rest, expected) / total, _error(ratios))
    if total <= 0 or controlled > error:
        return log_z, error
    return known + float(np.log(total)), float(controlled)


def _log_mean(logs: Array) -> float:
    return float(logsumexp(logs) - np.log(logs.size))


def _error(values: Array, expected: float = 0.0) -> float:
    """Standard error of the mean of values whose variance is `expected` at least."""
    if values.size < 2:
        return np.inf
    return float(np.sqrt(max(float(np.var(values, ddof=1)), expected) / values.size))
