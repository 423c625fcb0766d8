"""`summary()`: a stack in words and numbers, for a terminal."""

from __future__ import annotations

import numpy as np

from vbstack.analysis.diagnosis import disagreement
from vbstack.posterior import StackedPosterior
from vbstack.runs.printable import in_few_words, printable
from vbstack.stacking.weights import WeightSolution


def summary(posterior: StackedPosterior) -> str:
    """A readable table: the runs, the evidence and the parameters."""
    parts = _run_lines(posterior), _evidence_lines(posterior), _parameter_lines(posterior)
    return "\n\n".join("\n".join(map(printable, lines)) for lines in parts)


def _run_lines(posterior: StackedPosterior) -> list[str]:
    lines = [
        f"Stack of {len(posterior.runs)} runs, {posterior.weights.size} components, "
        f"{np.count_nonzero(posterior.weights)} with weight (weights: {posterior.target})",
        f"{'run':>5} {'ELBO':>10} {'± sd':>8} {'components':>11} {'weight':>8}",
    ]
    for place, run, weight in zip(
        posterior.kept, posterior.runs, posterior.run_weights, strict=True
    ):
        lines.append(
            f"{place:>5} {run.elbo:>10.3f} {run.elbo_sd:>8.3f} {run.n_components:>11} "
            f"{weight:>8.4f}"
        )
    lines += [
        f"{place:>5} {run.floored} failed evaluations were replaced by a low value"
        for place, run in zip(posterior.kept, posterior.runs, strict=True)
        if run.floored
    ]
    if posterior.refined is not None:
        lines.append(
            f"{posterior.refined.gaussians.size} components fitted to the pooled surrogate hold "
            f"{posterior.refined_weight:.0%} of the stack; weights of runs are those without them"
        )
    if posterior.support is not None:
        seen = posterior.support
        asked = f", {seen.rejected} more points by the constraint" if seen.rejected else ""
        lines.append(
            f"{seen.outside} of {seen.evaluations} evaluations are outside the support (−inf or "
            f"failed){asked}; {posterior.outside_mass:.1%} of the mixture lies there and is cut off"
        )
    return lines + [f"{d.index:>5} dropped: {_reason(d.reason)}" for d in posterior.dropped]


def _reason(reason: str) -> str:
    """Why a run was dropped; what a failed one said was shown when it failed."""
    if not reason.startswith("failed: "):
        return reason
    words = in_few_words(reason.removeprefix("failed: "))
    return f"failed: {words} (posterior.dropped has the message)"


def _evidence_lines(posterior: StackedPosterior) -> list[str]:
    e, s = posterior.evidence, posterior.solution
    return [
        f"Log evidence  {e.log_evidence:.4f} ± {e.sd:.4f}  ({e.method}: {e.reason})",
        *([] if e.verified is None else [f"  {e.verified.verdict}"]),
        f"  ELBO of the stack {e.elbo:.4f} ± {e.elbo_sd:.4f}",
        f"  own ELBOs: raw {e.raw:.4f}   capped by components {e.capped_components:.4f}   "
        f"by runs {e.capped_runs:.4f}   naive stacking {e.naive:.4f}",
        *_pooled_lines(posterior),
        f"  entropy s.e. {e.entropy_sd:.4f}   quadrature s.d. {e.gp_sd:.4f}",
        f"Weights       within {s.gap:.4f} nats of the best of their kind ({posterior.target}), "
        f"which lies in [{s.lower - s.charge:.4f}, {s.upper - s.charge:.4f}]",
        *_charge_line(s),
        f"  {s.status}; {s.draws} draws, {s.iterations} gradients",
    ]


def _charge_line(solution: WeightSolution) -> list[str]:
    if solution.charge == 0:
        return []
    return [f"  after {solution.charge:.4f} is taken off for errors of own log-joints (caution)"]


def _pooled_lines(posterior: StackedPosterior) -> list[str]:
    pooled = posterior.evidence.from_pool
    if pooled is None:
        return []
    worry = disagreement(posterior)
    return [
        f"  pooled: ELBO {pooled.elbo:.4f} (selection of {pooled.selection:.4f} taken off), "
        f"divergence from the posterior {pooled.divergence:.4f}",
        *([f"  Beware: {worry}"] if worry else []),
    ]


def _parameter_lines(posterior: StackedPosterior) -> list[str]:
    mean, covariance = posterior.moments()
    sd, mode = np.sqrt(np.diag(covariance)), posterior.mode()
    width = max(9, *(len(name) for name in posterior.names))
    lines = [f"{'parameter':<{width}} {'mean':>11} {'sd':>11} {'mode':>11}"]
    for row in zip(posterior.names, mean, sd, mode, strict=True):
        lines.append(f"{row[0]:<{width}} {row[1]:>11.4g} {row[2]:>11.4g} {row[3]:>11.4g}")
    return lines
