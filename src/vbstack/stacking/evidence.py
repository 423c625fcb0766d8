"""`Evidence`: the log evidence of a stack, with one error; and all that it rests on.

Which estimate it is: verified, where the model was evaluated at draws of the stack (`verify`);
otherwise pooled, where the evaluations of all runs were; otherwise the stack's own ELBO. Its
standard deviation holds what is known to be missing:

    verified   the scatter of what was found, and the divergence KL(q ‖ p)
    pooled     twice the errors of quadrature and draws, and the divergence; of noisy values once
    own        the errors of quadrature and draws, what a cap took off, the gap, and `OPTIMISM`

How often such errors cover is measured by `python -m benchmarks calibration`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.modes import EvidenceMethod
from vbstack.runs.run import Run
from vbstack.stacking.corrections import corrections
from vbstack.stacking.mixture import Mixture, own_log_joints
from vbstack.stacking.pooling import Pooled
from vbstack.stacking.support import Support
from vbstack.stacking.verification import VerifiedEvidence
from vbstack.stacking.verified_estimates import ROUNDING
from vbstack.stacking.weights import WeightSolution

MISFIT = 2.0  # of a process of exact values, in its standard deviations
# Nats. A stack of forty exact runs by own log-joints ended this much above the true log evidence,
# one of ten half as much (benchmarks/results/race_stacking.md): weights favour what quadrature
# over-estimates.
OPTIMISM = 0.031


@dataclass(frozen=True)
class PooledEvidence:
    """Estimates with the expected log-joints given everyone's evaluations, in nats.

    Attributes
    ----------
    elbo, elbo_sd : float
        Σ_j w_j I_j + H[q], less `selection`, and the errors of quadrature, draws and selection
        together.
    log_evidence, log_evidence_sd : float
        `elbo` + `divergence`, and its standard deviation.
    selection : float
        What the weights still gained from the evaluations' noise; taken off `elbo`.
    divergence : float
        Estimate of KL(q ‖ p), by which any ELBO is below the log evidence.
    """

    elbo: float
    elbo_sd: float
    log_evidence: float
    log_evidence_sd: float
    selection: float
    divergence: float


@dataclass(frozen=True)
class Evidence:
    """Estimates of the log evidence and their uncertainty, in nats.

    Attributes
    ----------
    raw : float
        Σ_j w_j I_j + H[q] on fresh draws (paper, eq. 11), with the runs' own I_j.
    capped_components : float
        min(Σ w I, median over all components of I_j) + H (paper, sec. 5.2).
    capped_runs : float
        min(Σ w I, median over runs of Σ_k w_mk I_mk) + H (paper, sec. 5.2).
    naive : float
        ELBO of naive stacking, every run 1/M; a baseline.
    expected_log_joint, entropy : float
        The two parts of `raw`, in the original space.
    entropy_sd, gp_sd, total_sd : float
        Monte Carlo error of the entropy, Bayesian-quadrature error of Σ w I, and both together.
        Neither covers the selection bias of a noisy stack.
    gap : float
        No weights of the same kind (all, per run, naive) have an ELBO higher by more; the ELBO is
        `pooled_elbo` when evaluations were pooled, otherwise `raw`, on both sides less what caution
        charges (`WeightSolution.charge`).
    noisy : bool
        Whether any stacked run had a noisy log density.
    not_pooled : str
        Why evaluations were not pooled; empty when they were.
    from_pool : PooledEvidence or None
        The estimates by pooled evaluations; None when evaluations were not pooled. They can also
        be read as `pooled_elbo`, `pooled_elbo_sd`, `pooled` and `pooled_sd` (the log evidence),
        `selection` and `divergence`, which are then None.
    verified : VerifiedEvidence or None
        What `verify` found.
    """

    raw: float
    capped_components: float
    capped_runs: float
    naive: float
    expected_log_joint: float
    entropy: float
    entropy_sd: float
    gp_sd: float
    total_sd: float
    gap: float
    noisy: bool
    not_pooled: str = ""
    from_pool: PooledEvidence | None = None
    verified: VerifiedEvidence | None = None

    @property
    def method(self) -> EvidenceMethod:
        """What the log evidence rests on: "verified", "pooled" or "own"."""
        if self.verified is not None:
            return "verified"
        return "own" if self.from_pool is None else "pooled"

    @property
    def log_evidence(self) -> float:
        """The log evidence, in nats."""
        if self.verified is not None:
            return self.verified.log_evidence
        return self.own if self.from_pool is None else self.from_pool.log_evidence

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        if self.verified is not None:
            return self.verified.log_evidence_sd
        if self.from_pool is not None:
            return self.from_pool.log_evidence_sd
        return float(np.hypot(self.total_sd, max(self.raw - self.own + self.gap, OPTIMISM)))

    @property
    def elbo(self) -> float:
        """The ELBO of the stack, below its log evidence by the divergence."""
        if self.verified is not None:
            return self.verified.elbo
        return self.own if self.from_pool is None else self.from_pool.elbo

    @property
    def elbo_sd(self) -> float:
        """Its standard deviation."""
        if self.verified is not None:
            return self.verified.elbo_sd
        return self.total_sd if self.from_pool is None else self.from_pool.elbo_sd

    @property
    def own(self) -> float:
        """The estimate by the runs' own log-joints: raw, of a noisy log density capped."""
        return self.capped_components if self.noisy else self.raw

    @property
    def reason(self) -> str:
        """One line: what the log evidence rests on."""
        if self.verified is not None:
            found = self.verified
            return f"checked at {found.n} draws of the stack with {found.evaluations} evaluations"
        if self.from_pool is not None:
            return "every component is scored with the evaluations of all runs; not verified"
        capped = "; capped by the median component, as the log density is noisy"
        return (
            f"the stacked ELBO by the runs' own log-joints{capped if self.noisy else ''}; "
            f"evaluations were not pooled: {self.not_pooled or 'not recorded'}"
        )

    @property
    def headline(self) -> float:
        """The log evidence, by its name of version 0.1."""
        _warn_of_old_name("headline", "log_evidence")
        return self.log_evidence

    @property
    def headline_sd(self) -> float:
        """Its standard deviation, by its name of version 0.1."""
        _warn_of_old_name("headline_sd", "sd")
        return self.sd

    @property
    def headline_method(self) -> str:
        """What it rests on, by its name of version 0.1."""
        _warn_of_old_name("headline_method", "method")
        return self.method

    @property
    def headline_reason(self) -> str:
        """Why, by its name of version 0.1."""
        _warn_of_old_name("headline_reason", "reason")
        return self.reason

    @property
    def pooled(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.log_evidence

    @property
    def pooled_sd(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.log_evidence_sd

    @property
    def pooled_elbo(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.elbo

    @property
    def pooled_elbo_sd(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.elbo_sd

    @property
    def selection(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.selection

    @property
    def divergence(self) -> float | None:
        return None if self.from_pool is None else self.from_pool.divergence

    def as_dict(self) -> dict[str, Any]:
        """All numbers by name, as files and JSON have them; some may be None."""
        answer = {name: getattr(self, name) for name in _ANSWER}
        records = ("from_pool", "verified")
        flat = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in records}
        pooled = {name: getattr(self, name) for name in _POOLED_NAMES}
        return {
            **answer,
            **flat,
            **pooled,
            "verified": None if self.verified is None else asdict(self.verified),
        }

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> Evidence:
        """The evidence that `as_dict` wrote, in this version or in 0.1."""
        known = {f.name for f in fields(cls)} - {"from_pool", "verified"}
        own = {name: value for name, value in numbers.items() if name in known}
        if numbers.get("verified") is not None:
            own["verified"] = VerifiedEvidence(**numbers["verified"])
        if numbers.get("pooled") is None:
            return cls(**own)
        pooled = {field: numbers[name] for name, field in _POOLED_NAMES.items()}
        return cls(**own, from_pool=PooledEvidence(**pooled))


_NOT_CUT_OFF = (
    "; the runs' own log-joints hold a low value where the log density is −inf, and the stack is "
    "not cut off in this estimate: it includes that penalty, which pooled evaluations correct"
)
_ANSWER = ("log_evidence", "sd", "method", "reason", "elbo", "elbo_sd")
_POOLED_NAMES = {
    "pooled": "log_evidence",
    "pooled_sd": "log_evidence_sd",
    "pooled_elbo": "elbo",
    "pooled_elbo_sd": "elbo_sd",
    "selection": "selection",
    "divergence": "divergence",
}


def evidence(
    runs: Sequence[Run],
    mixture: Mixture,
    log_joint: Array,
    solution: WeightSolution,
    pooled: Pooled | None,
    why_not: str,
    rng: np.random.Generator,
    support: Support | None = None,
) -> Evidence:
    """The evidence of the weights in `solution`, from the runs that were stacked.

    The solution's ELBOs are those of `log_joint` (K,), in link space. `why_not` says why
    evaluations were not pooled. Refined components have no own log-joints: pooled ones count as
    such, and medians are over those of the runs.
    """
    own = own_log_joints(runs)
    of_runs = slice(own.size)
    if pooled is not None:
        own = np.r_[own, pooled.link_log_joint[own.size :]]
    w, own_original = solution.weights, mixture.original_log_joint(own)
    change = np.zeros(mixture.size) if pooled is None else own - log_joint
    raw, expected = solution.lower + float(w @ change), float(w @ own_original)
    entropy = raw - expected
    run_values = np.bincount(mixture.owner[of_runs], (mixture.own_weights * own_original)[of_runs])
    gp_sd = float(np.sqrt(max(0.0, _log_joint_variance(runs, mixture, w, pooled))))
    noisy = any(run.is_noisy for run in runs)
    total_sd = float(np.hypot(solution.standard_error, gp_sd))
    from_pool = None
    if support is not None:
        why_not += _NOT_CUT_OFF
    if pooled is not None:
        from_pool = _from_pool(mixture, log_joint, solution, pooled, rng, support, noisy)
    return Evidence(
        raw=raw,
        capped_components=min(raw, float(np.median(own_original[of_runs])) + entropy),
        capped_runs=min(raw, float(np.median(run_values)) + entropy),
        naive=solution.naive + float(mixture.naive_weights @ change),
        expected_log_joint=expected,
        entropy=entropy,
        entropy_sd=solution.standard_error,
        gp_sd=gp_sd,
        total_sd=total_sd,
        gap=solution.gap,
        noisy=noisy,
        not_pooled="" if pooled is not None else why_not,
        from_pool=from_pool,
    )


def _from_pool(
    mixture: Mixture,
    log_joint: Array,
    solution: WeightSolution,
    pooled: Pooled,
    rng: np.random.Generator,
    support: Support | None,
    noisy: bool,
) -> PooledEvidence:
    """The pooled estimates; their error adds those of quadrature, draws and both corrections.

    Exact values leave the process no room for what it gets wrong: no log density is a draw of its
    prior. There its errors count twice, and the divergence, which it tells, as an error too.
    """
    w = solution.weights
    found = corrections(mixture, w, pooled, rng, support)
    used = np.flatnonzero(w)
    quadrature = max(0.0, float(w[used] @ pooled.covariance(used) @ w[used]))
    variance = quadrature + solution.standard_error**2
    # The weights were chosen with log-joints that are lowered outside the support, and with
    # charged ones of refined components.
    lowered = float(w @ (pooled.link_log_joint - log_joint))
    elbo = solution.lower - found.selection + found.cut + lowered
    factor, missing = (1.0, 0.0) if noisy else (MISFIT, found.divergence)
    of_elbo, of_both = variance + found.selection_sd**2, variance + found.sd**2
    return PooledEvidence(
        elbo=elbo,
        elbo_sd=float(np.sqrt(factor**2 * of_elbo + ROUNDING**2)),
        log_evidence=elbo + found.divergence,
        log_evidence_sd=float(np.sqrt(factor**2 * of_both + missing**2 + ROUNDING**2)),
        selection=found.selection,
        divergence=found.divergence,
    )


def _log_joint_variance(
    runs: Sequence[Run], mixture: Mixture, w: Array, pooled: Pooled | None
) -> float:
    """Variance of Σ_j w_j I_j: independent runs, each with its own quadrature covariance."""
    total = 0.0
    refined = np.flatnonzero((mixture.owner == mixture.n_runs) & (w > 0))
    if refined.size and pooled is not None:
        total = float(w[refined] @ pooled.covariance(refined) @ w[refined])
    for m, run in enumerate(runs):
        part = w[mixture.owner == m]
        if part.any():
            total += float(part @ run.expected_log_joint_covariance @ part)
    return total


def _warn_of_old_name(old: str, new: str) -> None:
    text = f"evidence.{old} is now evidence.{new}; the old name goes with version 0.3"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
