"""`Evidence`: the stacked ELBO as an estimate of the log evidence, with its parts and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbstack.mixture import Mixture
from vbstack.run import Run
from vbstack.weights import WeightSolution

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Estimates of the log evidence and their uncertainty, in nats.

    Attributes
    ----------
    raw : float
        Σ_j w_j I_j + H[q] on fresh draws (paper, eq. 11).
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
        No weights of the same kind (all, per run, naive) have an ELBO higher than `raw` by more.
    noisy : bool
        Whether any stacked run had a noisy log density.
    headline, headline_sd : float
        The estimate to report.
    headline_method, headline_reason : str
        Which of the estimates it is, and why.
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
    headline_method: str
    headline_reason: str


def evidence(runs: Sequence[Run], mixture: Mixture, solution: WeightSolution) -> Evidence:
    """The evidence of the weights in `solution`, from the runs that were stacked."""
    w, log_joint = solution.weights, mixture.log_joint
    expected = float(w @ log_joint)
    entropy = solution.lower - expected
    run_values = np.bincount(mixture.owner, mixture.own_weights * log_joint)
    gp_sd = float(np.sqrt(max(0.0, _log_joint_variance(runs, mixture, w))))
    estimates = {
        "raw": solution.lower,
        "capped_components": min(expected, float(np.median(log_joint))) + entropy,
        "capped_runs": min(expected, float(np.median(run_values))) + entropy,
        "naive": solution.naive,
    }
    noisy = any(run.is_noisy for run in runs)
    method, reason = _headline(noisy)
    total_sd = float(np.hypot(solution.standard_error, gp_sd))
    return Evidence(
        **estimates,
        expected_log_joint=expected,
        entropy=entropy,
        entropy_sd=solution.standard_error,
        gp_sd=gp_sd,
        total_sd=total_sd,
        gap=solution.gap,
        noisy=noisy,
        headline=estimates[method],
        headline_sd=total_sd,
        headline_method=method,
        headline_reason=reason,
    )


def _headline(noisy: bool) -> tuple[str, str]:
    if noisy:
        return "capped_components", (
            "the log density is noisy: optimised weights favour components whose log-joint was "
            "over-estimated, so the raw ELBO is biased upwards and the median component caps it"
        )
    return "raw", (
        "the log density is exact, so the components' log-joints nearly are, and choosing among "
        "them adds little bias"
    )


def _log_joint_variance(runs: Sequence[Run], mixture: Mixture, w: Array) -> float:
    """Variance of Σ_j w_j I_j: independent runs, each with its own quadrature covariance."""
    total = 0.0
    for m, run in enumerate(runs):
        part = w[mixture.owner == m]
        if part.any():
            total += float(part @ run.expected_log_joint_covariance @ part)
    return total
