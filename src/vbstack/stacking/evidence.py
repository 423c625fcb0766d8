"""`Evidence`: the stacked ELBO as an estimate of the log evidence, with its parts and errors.

**Pooled evaluations** (see `pool`) give a process f for the log density itself, with mean f̂ and
variance v. On draws x_n of the stack q, with r_n ∝ exp(f̂(x_n)) / q(x_n) that sum to one, it yields
two corrections. What the weights still gained from noise, by Stein's lemma (`Process.average`):

    ELBO of the stack ≈ Σ_j w_j Ī_j + H[q] − selection,   selection = ¼ of Stein's ± ½ of it

A posterior mean under the right prior needs no such correction, one under a vacuous prior all of
it, and adaptive evaluations push the other way. A quarter leaves equal and opposite biases on the
two problems measured (`docs/pooling.md`).

And the distance from the ELBO to the log evidence. E log ∫ exp f exceeds log ∫ exp f̂ by half the
variance of f within the posterior, to second order:

    log Z − ELBO = KL(q ‖ p) ≈ log mean_n exp(f̂ − log q) − mean_n (f̂ − log q)
                               + ½ [ Σ_n r_n v(x_n) − Var(Σ_n r_n f(x_n)) ]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbstack.runs.run import Run
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled
from vbstack.stacking.weights import WeightSolution

Array = NDArray[np.float64]

CORRECTION_DRAWS = 4096
SELECTION_SHARE = 0.25


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
    pooled, pooled_sd : float or None
        `pooled_elbo` + `divergence`, and its standard deviation; None when evaluations were not
        pooled.
    pooled_elbo, pooled_elbo_sd : float or None
        Σ_j w_j I_j + H[q] with the I_j given everyone's evaluations, less `selection`, and the
        errors of quadrature, draws and selection together.
    selection : float or None
        Estimate of what the weights gained from the noise of the pooled evaluations.
    divergence : float or None
        Estimate of KL(q ‖ p), by which any ELBO is below the log evidence.
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
    pooled: float | None = None
    pooled_sd: float | None = None
    pooled_elbo: float | None = None
    pooled_elbo_sd: float | None = None
    selection: float | None = None
    divergence: float | None = None


def evidence(
    runs: Sequence[Run],
    mixture: Mixture,
    solution: WeightSolution,
    pooled: Pooled | None = None,
    why_not: str = "",
    rng: np.random.Generator | None = None,
) -> Evidence:
    """The evidence of the weights in `solution`, from the runs that were stacked.

    With `pooled`, the solution's ELBOs are those of the pooled log-joints; the mixture always holds
    the runs' own. `why_not` says why evaluations were not pooled.
    """
    w, log_joint = solution.weights, mixture.log_joint
    change = np.zeros(mixture.size)
    if pooled is not None:
        change = mixture.link_log_joint - pooled.link_log_joint
    raw, expected = solution.lower + float(w @ change), float(w @ log_joint)
    entropy = raw - expected
    run_values = np.bincount(mixture.owner, mixture.own_weights * log_joint)
    gp_sd = float(np.sqrt(max(0.0, _log_joint_variance(runs, mixture, w))))
    noisy = any(run.is_noisy for run in runs)
    total_sd = float(np.hypot(solution.standard_error, gp_sd))
    estimates = {
        "raw": raw,
        "capped_components": min(raw, float(np.median(log_joint)) + entropy),
        "capped_runs": min(raw, float(np.median(run_values)) + entropy),
        "naive": solution.naive + float(mixture.naive_weights @ change),
    }
    extra = {} if pooled is None else _pooled(mixture, solution, pooled, rng)
    method, reason = _headline(noisy, pooled is not None, why_not)
    return Evidence(
        **estimates,
        expected_log_joint=expected,
        entropy=entropy,
        entropy_sd=solution.standard_error,
        gp_sd=gp_sd,
        total_sd=total_sd,
        gap=solution.gap,
        noisy=noisy,
        headline={**estimates, **extra}[method],
        headline_sd=extra.get(f"{method}_sd", total_sd),
        headline_method=method,
        headline_reason=reason,
        **extra,
    )


def _pooled(
    mixture: Mixture,
    solution: WeightSolution,
    pooled: Pooled,
    rng: np.random.Generator | None,
) -> dict[str, float]:
    """The pooled estimates; their error adds those of quadrature, draws and both corrections."""
    w = solution.weights
    found = corrections(mixture, w, pooled, rng or np.random.default_rng(0))
    used = np.flatnonzero(w)
    quadrature = max(0.0, float(w[used] @ pooled.covariance(used) @ w[used]))
    variance = quadrature + solution.standard_error**2
    elbo = solution.lower - found.selection
    return {
        "pooled": elbo + found.divergence,
        "pooled_sd": float(np.sqrt(variance + found.sd**2)),
        "pooled_elbo": elbo,
        "pooled_elbo_sd": float(np.sqrt(variance + found.selection_sd**2)),
        "selection": found.selection,
        "divergence": found.divergence,
    }


@dataclass(frozen=True)
class Corrections:
    """From a pooled ELBO to the log evidence: selection, KL(q ‖ p), the error of the first and of
    both together."""

    selection: float
    divergence: float
    selection_sd: float
    sd: float


def corrections(
    mixture: Mixture, weights: Array, pooled: Pooled, rng: np.random.Generator
) -> Corrections:
    """Both corrections on common draws; p is known through the process only.

    Importance ratios are cut at √n times their median (Ionides 2008 has the mean, which a single
    draw beyond the evaluations, where the process makes its values up, can raise at will). The
    second-order term is an expectation over what is not known: half of it counts as error, as does
    half of Stein's.
    """
    link = mixture.links[0]
    x = mixture.sample(weights, CORRECTION_DRAWS, rng)
    y = link.forward(x)
    mean, variance = pooled.predict(y)
    log_ratio = mean - mixture.log_density(x, weights) - link.log_jacobian(y)
    relative = log_ratio - np.median(log_ratio)
    ratio = np.exp(np.minimum(relative, 0.5 * np.log(relative.size)))
    known = float(np.log(ratio.mean()) - relative.mean())
    share = ratio / ratio.sum()
    common, gained = pooled.average(y, share)
    unknown = 0.5 * max(0.0, float(share @ variance) - common)
    monte_carlo = np.std(ratio / ratio.mean() - relative) / np.sqrt(relative.size)
    selection_sd = 0.5 * abs(gained)
    sd = np.sqrt(selection_sd**2 + (0.5 * unknown) ** 2 + monte_carlo**2)
    return Corrections(SELECTION_SHARE * gained, known + unknown, selection_sd, float(sd))


def _headline(noisy: bool, pooled: bool, why_not: str) -> tuple[str, str]:
    judged = "every component is judged by the evaluations of all runs together, so no run's "
    if pooled and noisy:
        return "pooled", (
            f"{judged}luck is left to choose; the estimated divergence from the posterior is added"
        )
    if pooled:
        return "pooled_elbo", (
            f"{judged}own error is left to choose; the ELBO, which is below the log evidence by "
            "the stack's divergence from the posterior"
        )
    left_out = f"; evaluations were not pooled: {why_not}" if why_not else ""
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
