"""`Evidence`: the stacked ELBO as an estimate of the log evidence, with its parts and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.modes import Estimate
from vbstack.runs.run import Run
from vbstack.stacking.corrections import corrections
from vbstack.stacking.mixture import Mixture, own_log_joints
from vbstack.stacking.pooling import Pooled
from vbstack.stacking.support import Support
from vbstack.stacking.weights import WeightSolution


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
        `pooled_elbo` when evaluations were pooled, otherwise `raw`.
    noisy : bool
        Whether any stacked run had a noisy log density.
    headline, headline_sd : float
        The estimate to report.
    headline_method, headline_reason : str
        Which of the estimates it is, and why.
    from_pool : PooledEvidence or None
        The estimates by pooled evaluations; None when evaluations were not pooled. They can also
        be read as `pooled_elbo`, `pooled_elbo_sd`, `pooled` and `pooled_sd` (the log evidence),
        `selection` and `divergence`, which are then None.
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
    headline: float
    headline_sd: float
    headline_method: Estimate
    headline_reason: str
    from_pool: PooledEvidence | None = None

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
        """All numbers by name, as files and JSON have them; pooled ones may be None."""
        flat = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "from_pool"}
        return {**flat, **{name: getattr(self, name) for name in _POOLED_NAMES}}

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> Evidence:
        """The evidence that `as_dict` wrote."""
        own = {name: value for name, value in numbers.items() if name not in _POOLED_NAMES}
        if numbers.get("pooled") is None:
            return cls(**own)
        pooled = {field: numbers[name] for name, field in _POOLED_NAMES.items()}
        return cls(**own, from_pool=PooledEvidence(**pooled))


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
    evaluations were not pooled.
    """
    own = own_log_joints(runs)
    w, own_original = solution.weights, mixture.original_log_joint(own)
    change = np.zeros(mixture.size) if pooled is None else own - log_joint
    raw, expected = solution.lower + float(w @ change), float(w @ own_original)
    entropy = raw - expected
    run_values = np.bincount(mixture.owner, mixture.own_weights * own_original)
    gp_sd = float(np.sqrt(max(0.0, _log_joint_variance(runs, mixture, w))))
    noisy = any(run.is_noisy for run in runs)
    total_sd = float(np.hypot(solution.standard_error, gp_sd))
    estimates = {
        "raw": raw,
        "capped_components": min(raw, float(np.median(own_original)) + entropy),
        "capped_runs": min(raw, float(np.median(run_values)) + entropy),
        "naive": solution.naive + float(mixture.naive_weights @ change),
    }
    sds = dict.fromkeys(estimates, total_sd)
    from_pool = (
        None if pooled is None else _from_pool(mixture, log_joint, solution, pooled, rng, support)
    )
    if from_pool is not None:
        estimates |= {"pooled": from_pool.log_evidence, "pooled_elbo": from_pool.elbo}
        sds |= {"pooled": from_pool.log_evidence_sd, "pooled_elbo": from_pool.elbo_sd}
    method, reason = _headline(noisy, pooled is not None, why_not, support is not None)
    return Evidence(
        raw=raw,
        capped_components=estimates["capped_components"],
        capped_runs=estimates["capped_runs"],
        naive=estimates["naive"],
        expected_log_joint=expected,
        entropy=entropy,
        entropy_sd=solution.standard_error,
        gp_sd=gp_sd,
        total_sd=total_sd,
        gap=solution.gap,
        noisy=noisy,
        headline=estimates[method],
        headline_sd=sds[method],
        headline_method=method,
        headline_reason=reason,
        from_pool=from_pool,
    )


def _from_pool(
    mixture: Mixture,
    log_joint: Array,
    solution: WeightSolution,
    pooled: Pooled,
    rng: np.random.Generator,
    support: Support | None,
) -> PooledEvidence:
    """The pooled estimates; their error adds those of quadrature, draws and both corrections."""
    w = solution.weights
    found = corrections(mixture, w, pooled, rng, support)
    used = np.flatnonzero(w)
    quadrature = max(0.0, float(w[used] @ pooled.covariance(used) @ w[used]))
    variance = quadrature + solution.standard_error**2
    elbo = solution.lower - found.selection
    if support is not None:  # the weights were chosen with log-joints that are lowered outside
        elbo += found.cut + float(w @ (pooled.link_log_joint - log_joint))
    return PooledEvidence(
        elbo=elbo,
        elbo_sd=float(np.sqrt(variance + found.selection_sd**2)),
        log_evidence=elbo + found.divergence,
        log_evidence_sd=float(np.sqrt(variance + found.sd**2)),
        selection=found.selection,
        divergence=found.divergence,
    )


def _headline(noisy: bool, pooled: bool, why_not: str, supported: bool) -> tuple[Estimate, str]:
    """Which estimate is the headline, and why."""
    scored = "every component is scored with the evaluations of all runs"
    if pooled and supported:
        return "pooled", f"{scored}; the stack is cut off where the log density is −inf"
    if pooled and noisy:
        return "pooled", (
            f"{scored}; the estimated divergence of the stack from the posterior is added"
        )
    if pooled:
        return "pooled_elbo", (
            f"{scored}; an ELBO, below the log evidence by the divergence of the stack from the "
            "posterior"
        )
    left_out = f"; evaluations were not pooled: {why_not}" if why_not else ""
    if supported:
        left_out += (
            "; the runs' own log-joints hold a low value where the log density is −inf, and the "
            "stack is not cut off in this estimate: it includes that penalty, which pooled "
            "evaluations correct"
        )
    if noisy:
        return "capped_components", (
            "the log density is noisy: optimised weights favour components whose log-joint was "
            "over-estimated, so the raw ELBO is biased upwards and the median component caps it"
            + left_out
        )
    return "raw", (
        "the log density is exact, so the components' log-joints nearly are, and choosing among "
        "them adds little bias" + left_out
    )


def _log_joint_variance(runs: Sequence[Run], mixture: Mixture, w: Array) -> float:
    """Variance of Σ_j w_j I_j: independent runs, each with its own quadrature covariance."""
    total = 0.0
    for m, run in enumerate(runs):
        part = w[mixture.owner == m]
        if part.any():
            total += float(part @ run.expected_log_joint_covariance @ part)
    return total
