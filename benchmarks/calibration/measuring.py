"""One stack measured: its log evidence by each method, with the stated error, beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.problems import BenchmarkProblem
from benchmarks.scoring.true_elbo import SLOW, SLOW_DRAWS, true_elbo
from vbstack import Run, StackedPosterior, stack, verify
from vbstack.modes import EvidenceMethod

METHODS: tuple[EvidenceMethod, ...] = ("own", "pooled", "verified")
_DRAWS = 5_000
_THIN = 3.0  # nats by which a stack is below the posterior where a mode, or a tail, is missing
_SHARE = 0.02  # of the posterior's draws there, from which on something is missing


@dataclass(frozen=True)
class Stated:
    """Errors of one method: log evidence and ELBO less the true ones, and the stated errors."""

    log_evidence: float
    sd: float
    elbo: float
    elbo_sd: float


@dataclass(frozen=True)
class Row:
    """One stack of `runs` runs.

    Attributes
    ----------
    seed, runs : int
        Of the fit; how many of its first runs were stacked.
    missing : float
        Share of the true posterior's draws where the stack has less than e⁻³ of the density.
    lost : float
        True log evidence less the true ELBO of the pooled stack.
    evaluations, further : int
        Evaluations of the runs, and of the verification.
    rounds : int
        Of the verification.
    passed : bool
        What it said of the last stack.
    stated : by method
        "own", "pooled" and "verified".
    """

    seed: int
    runs: int
    missing: float
    lost: float
    evaluations: int
    further: int
    rounds: int
    passed: bool
    stated: dict[str, Stated]

    @property
    def complete(self) -> bool:
        """Whether the stack has all the mass that a verification could miss."""
        return self.missing <= _SHARE


def measured(truth: BenchmarkProblem, runs: Sequence[Run], seed: int) -> Row:
    """The stack of these runs by own and by pooled log-joints, and the latter verified."""
    own, pooled = stack(runs, evaluations="own"), stack(runs)
    checked = verify(pooled, truth.problem(), executor="here", seed=seed, progress=False)
    stacks = (own, pooled, checked.posterior)
    stated: dict[str, Stated] = {
        method: _stated(truth, posterior) for method, posterior in zip(METHODS, stacks, strict=True)
    }
    return Row(
        seed=seed,
        runs=len(runs),
        missing=_missing(truth, pooled),
        lost=round(truth.log_evidence - true_elbo(truth, pooled), 5),
        evaluations=sum(run.evaluations.paid for run in runs if run.evaluations is not None),
        further=checked.evidence.evaluations,
        rounds=checked.evidence.rounds,
        passed=checked.passed,
        stated=stated,
    )


def _stated(truth: BenchmarkProblem, posterior: StackedPosterior) -> Stated:
    e = posterior.evidence
    errors = e.log_evidence - truth.log_evidence, e.elbo - true_elbo(truth, posterior)
    return Stated(*(round(float(v), 5) for v in (errors[0], e.sd, errors[1], e.elbo_sd)))


def _missing(truth: BenchmarkProblem, posterior: StackedPosterior) -> float:
    """Share of exact draws where the stack's density is below e⁻³ of the posterior's."""
    n = SLOW_DRAWS if truth.name in SLOW else _DRAWS
    x = truth.sample(n, np.random.default_rng(0))
    log_p = truth.log_densities(x) - truth.log_evidence
    return round(float(np.mean(posterior.log_pdf(x) < log_p - _THIN)), 5)
