"""`diagnostics()`: did the runs agree, did they find everything, are they enough?

Nothing here evaluates the model. Leave-one-out gains and the learning curve value subsets of the
runs (`subsets`); what was found by whom comes from the same draws (`coverage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vbstack.analysis.coverage import Coverage, coverage
from vbstack.analysis.enough import TOLERANCE, enough_runs, missing_mass
from vbstack.analysis.subsets import LearningCurve, Subsets, learning_curve, leave_one_out_gains
from vbstack.arrays import Array
from vbstack.posterior import StackedPosterior
from vbstack.stacking.elbo import perplexity
from vbstack.stacking.sample_problem import SampleProblem
from vbstack.stacking.weights import CERTIFIED

DISAGREEMENT = 4.0  # standard errors between the runs' own values and pooled ones
UNNOTABLE = 0.02  # nats between them that are not worth a word, however small their errors
NOTABLE = 0.05  # share of mass that only one run covers, from which on it is named


@dataclass(frozen=True)
class StackedRun:
    """What a run is to the stack.

    Attributes
    ----------
    elbo, elbo_sd : float
        Its own ELBO.
    weight : float
        Its share of the stack.
    gain : float
        Nats that the ELBO loses without it, weights solved again.
    covered, alone : float
        Share of posterior mass that it covers, and that only it covers.
    """

    elbo: float
    elbo_sd: float
    weight: float
    gain: float
    covered: float
    alone: float


@dataclass(frozen=True)
class RunDiagnostics:
    """One run that was given to `stack`.

    Attributes
    ----------
    index : int
        Its place among the runs given.
    dropped : str
        Why it was left out; empty when it was stacked.
    in_stack : StackedRun or None
        What it is to the stack; None when it was left out. Its numbers can also be read as `elbo`,
        `elbo_sd` (None when left out), `weight`, `gain`, `covered` and `alone` (then zero).
    """

    index: int
    dropped: str
    in_stack: StackedRun | None

    @property
    def elbo(self) -> float | None:
        return None if self.in_stack is None else self.in_stack.elbo

    @property
    def elbo_sd(self) -> float | None:
        return None if self.in_stack is None else self.in_stack.elbo_sd

    @property
    def weight(self) -> float:
        return 0.0 if self.in_stack is None else self.in_stack.weight

    @property
    def gain(self) -> float:
        return 0.0 if self.in_stack is None else self.in_stack.gain

    @property
    def covered(self) -> float:
        return 0.0 if self.in_stack is None else self.in_stack.covered

    @property
    def alone(self) -> float:
        return 0.0 if self.in_stack is None else self.in_stack.alone


@dataclass(frozen=True)
class Diagnostics:
    """What can be known about a stack from its runs alone.

    Attributes
    ----------
    runs : tuple of RunDiagnostics
        Every run that was given, in order, dropped ones too.
    coverage : Coverage
        Which run found what; the overlap of runs.
    expected_gain, largest_gain : float
        Mean and largest leave-one-run-out gain in nats: the mean estimates what one more run would
        bring. Infinite with a single run, which cannot be left out.
    effective_runs, effective_components : float
        exp of the entropy of the weights.
    noise_share : float or None
        For noisy problems whose evaluations were not pooled: how much of the scatter of the
        components' gains, by which weights are given, is the error of their log-joints; 0 to 1.
    learning_curve : LearningCurve
    enough : bool
        Whether more runs are unlikely to change the result (the rule of `analysis.enough`).
    runs_needed : int
        The fewest runs that can be enough: four, or up to eight that look elsewhere less often.
    verdict : str
        The same in words, with what it rests on.
    warnings : tuple of str
        What to worry about, in words.
    """

    runs: tuple[RunDiagnostics, ...]
    coverage: Coverage
    expected_gain: float
    largest_gain: float
    effective_runs: float
    effective_components: float
    noise_share: float | None
    learning_curve: LearningCurve
    enough: bool
    runs_needed: int
    verdict: str
    warnings: tuple[str, ...]

    @property
    def more_runs_needed(self) -> bool:
        """The opposite of `enough`."""
        return not self.enough

    @property
    def single_run_mass(self) -> float:
        """Share of posterior mass that exactly one run covers."""
        return self.coverage.by_one

    @property
    def missing_mass(self) -> float:
        """Share of the posterior mass that no run found, estimated (`analysis.enough`)."""
        return missing_mass(self.coverage.by_distinct_runs)

    def summary(self) -> str:
        """The verdict and every warning, a line each."""
        return "\n".join([self.verdict, *(f"Warning: {text}" for text in self.warnings)])


def diagnostics(
    posterior: StackedPosterior, *, tolerance: float = TOLERANCE, seed: int = 0
) -> Diagnostics:
    """What the runs of a stack say about it: agreement, coverage, and whether they are enough.

    Parameters
    ----------
    tolerance : float
        Nats that no single run may be worth, and share of the mass that may be missing (see
        `analysis.enough`).
    seed : int
        Of the draws and of the subsets on the learning curve.

    Of a refined stack everything here is about the stack of the runs' components alone: components
    that were fitted to the evaluations of all runs were found by none of them.
    """
    posterior = posterior.unrefined
    subsets = Subsets.of(posterior, seed)
    found = coverage(posterior.runs, subsets.mixture, posterior.weights, subsets.sample)
    gains = leave_one_out_gains(subsets)
    own_noise = posterior.evidence.noisy and posterior.evidence.from_pool is None
    noise = _noise_share(posterior, subsets) if own_noise else None
    noise_sd = posterior.evidence.sd if posterior.evidence.noisy else 0.0
    looks = sum(posterior.runs[first].looks for first in np.unique(found.group))
    rule = enough_runs(gains, found.by_distinct_runs, looks, tolerance, noise_sd)
    return Diagnostics(
        runs=_run_diagnostics(posterior, found, gains),
        coverage=found,
        expected_gain=float(gains.mean()),
        largest_gain=float(gains.max()),
        effective_runs=perplexity(posterior.run_weights),
        effective_components=perplexity(posterior.weights),
        noise_share=noise,
        learning_curve=learning_curve(subsets, seed),
        enough=rule.enough,
        runs_needed=rule.at_least,
        verdict=rule.text,
        warnings=tuple(_warnings(posterior, found, noise)),
    )


def _run_diagnostics(
    posterior: StackedPosterior, found: Coverage, gains: Array
) -> tuple[RunDiagnostics, ...]:
    dropped = [RunDiagnostics(d.index, d.reason, None) for d in posterior.dropped]
    columns = (posterior.run_weights, gains, found.covered, found.alone)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    stacked = [
        RunDiagnostics(index, "", StackedRun(run.elbo, run.elbo_sd, *row))
        for index, run, row in zip(posterior.kept, posterior.runs, numbers, strict=True)
    ]
    return tuple(sorted(dropped + stacked, key=lambda one: one.index))


def _noise_share(posterior: StackedPosterior, subsets: Subsets) -> float:
    """Mean variance of I_j over the variance of g_j = I_j − E_j[log q], q the naive stack.

    Were every I_j exact and q right, g_j would be the log evidence for every component; weights are
    given by its differences.
    """
    mixture = subsets.mixture
    w = mixture.naive_weights
    g = SampleProblem.from_sample(subsets.sample, subsets.rewards).gradient(w)
    error = np.concatenate([np.diag(run.expected_log_joint_covariance) for run in posterior.runs])
    scatter = float(w @ np.square(g - w @ g))
    return min(1.0, float(w @ error) / scatter) if scatter > 0 else 1.0


def disagreement(posterior: StackedPosterior) -> str:
    """A sentence if the runs' own values and the pooled ones differ by more than their errors."""
    e = posterior.unrefined.evidence
    if e.from_pool is None:
        return ""
    error = float(np.hypot(e.total_sd, e.from_pool.elbo_sd))
    if not abs(e.raw - e.from_pool.elbo) > DISAGREEMENT * error + e.gap + UNNOTABLE:
        return ""
    return (
        "the runs' own values and the pooled ones disagree: the ELBO of the stack is "
        f"{e.raw:.3f} by the first and {e.from_pool.elbo:.3f} by the second, with an error of "
        f"{error:.3f}. Were all runs made with the same log density? If so, their surrogates "
        "err by more than they state."
    )


def _warnings(posterior: StackedPosterior, found: Coverage, noise: float | None) -> Iterator[str]:
    """What to worry about, in words; runs are called by their place among those given."""
    for index, weight, alone in zip(
        posterior.kept, posterior.run_weights, found.alone, strict=True
    ):
        if alone >= NOTABLE and len(posterior.runs) > 1:
            yield (
                f"run {index} holds {weight:.0%} of the stack, and no other run found {alone:.0%} "
                "of the posterior mass that it covers: launch more runs."
            )
    for place in np.flatnonzero(found.group != np.arange(found.group.size)):
        first = posterior.kept[int(found.group[place])]
        yield (
            f"run {posterior.kept[place]} is a copy of run {first}: copies agree without telling "
            "anything; give every run its own seed."
        )
    if posterior.support is not None and posterior.outside_mass > NOTABLE:
        yield (
            f"{posterior.outside_mass:.0%} of the mixture lies where the log density is −inf or "
            "failed, and is cut off: the posterior near that edge is less exact; more runs help."
        )
    if len(posterior.runs) == 1:
        yield "only one run was stacked: nothing can be said about what it missed."
    if len(posterior.dropped) > len(posterior.runs):
        yield (
            f"{len(posterior.dropped)} of {len(posterior.dropped) + len(posterior.runs)} runs were "
            "dropped: look at their reasons, and give runs more evaluations or better bounds."
        )
    if posterior.solution.status != CERTIFIED and posterior.solution.solver == "certified":
        yield f"the weights are {posterior.solution.status} ({posterior.solution.gap:.3f} nats)."
    if posterior.evidence.noisy and posterior.evidence.selection is not None:
        yield (
            "the log density is noisy: the weights rest on the evaluations of all runs "
            f"together, and {posterior.evidence.selection:.3f} nats that they still gained from "
            "noise were taken off."
        )
    if disagreement(posterior):
        yield disagreement(posterior)
    if noise is not None:
        removed = posterior.evidence.raw - posterior.evidence.own
        yield (
            f"the log density is noisy: {noise:.0%} of the differences between components that "
            f"weights are given by is estimation error. The estimate is {removed:.3f} nats below "
            "the raw ELBO, which is too optimistic."
        )
