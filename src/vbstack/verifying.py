"""`verify()`: is the stack right? Ask the model at draws of it.

A stack is a density that is cheap to draw from. Evaluations at n of its draws, all side by side,
give its ELBO and the log evidence without trust in any surrogate (`stacking.verified_estimates`).
If values are found that the surrogate did not expect, they join the pool, the stack is made again,
and fresh draws are checked. What cannot be seen so is a mode that every run missed.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.assembly import stacked
from vbstack.checks import checked_seconds, checked_whole
from vbstack.launching.back_ends import check_can_be_sent, check_executor
from vbstack.launching.launcher import checked_store
from vbstack.launching.progress import Reporter
from vbstack.launching.settings import LaunchSettings
from vbstack.launching.side_by_side import evaluated
from vbstack.posterior import StackedPosterior
from vbstack.problem import Evaluation, Problem, checked_problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.plan import Plan
from vbstack.runs.store import RunStore
from vbstack.stacking.verification import Points, Stated, VerifiedEvidence
from vbstack.stacking.verified_estimates import AtDraws, verified

FEWEST = 20  # evaluations of a verification: fewer say little about their own scatter
SHARE = 0.07  # of the runs' evaluations, that "auto" spends
MOST = 100
ROUNDS = 3  # at most: a stack that is wrong after two more attempts needs other runs
_MANY = 8192  # draws for the expectations of the surrogate


class UndeclaredNoise(RuntimeWarning):
    """The log density has noise, or more of it, than was declared; the message says how much."""


@dataclass(frozen=True)
class Verification:
    """A stack that was checked against the model.

    Attributes
    ----------
    posterior : StackedPosterior
        The stack, made again if values were surprising; its evidence is the verified one.
    evidence : VerifiedEvidence
        The estimates, how they were found, and what is wrong (`faults`).
    points : Points
        The draws of the last round, and what was found there.
    """

    posterior: StackedPosterior
    evidence: VerifiedEvidence
    points: Points

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with the stack, as far as its own draws can tell."""
        return self.evidence.passed

    @property
    def verdict(self) -> str:
        """One sentence."""
        return self.evidence.verdict

    def __str__(self) -> str:
        e = self.evidence
        return (
            f"Log evidence {e.log_evidence:.3f} ± {e.log_evidence_sd:.3f} (checked at {e.n} draws, "
            f"{e.evaluations} evaluations)\n"
            f"  ELBO {e.elbo:.3f} ± {e.elbo_sd:.3f}, divergence from the posterior "
            f"{e.divergence:.3f}, effective size {e.effective_size:.0f} of {e.n}, k̂ {e.shape:.2f}\n"
            f"  {self.verdict}"
        )


def verify(
    posterior: StackedPosterior,
    problem: Problem,
    n: int | str = "auto",
    *,
    executor: Any = None,
    n_workers: int | None = None,
    store: RunStore | str | os.PathLike[str] | None = None,
    seed: int = 0,
    rounds: int = ROUNDS,
    timeout: float | None = None,
    progress: bool = True,
    trust_store: bool = False,
) -> Verification:
    """Check a stack with evaluations of the model at n of its draws.

    Parameters
    ----------
    n : int or "auto"
        Evaluations of each round; "auto" is 7 % of those that the runs took, 20 to 100. Two points
        that the runs had evaluated are asked for again in the first round: noise that was not
        declared shows there.
    executor, n_workers
        Where they are made, as for `launch`.
    store : RunStore or path, optional
        The store of the runs. The evaluations are kept there, and never made again; without one
        they are kept until the verification ends.
    seed : int
        Of the draws.
    rounds : int
        How often the stack may be checked. After a round with surprises the evaluations join the
        pool, the stack is made again, and fresh draws are checked.
    timeout : float, optional
        Seconds after which a TimeoutError ends it; what was evaluated is kept in the store.
    trust_store : bool
        Do not ask whether the runs in the store were made with this log density.
    """
    checked_problem(problem)
    count = number_of_draws(posterior, n)
    rounds = checked_whole("rounds", rounds, 1)
    check_executor(executor)
    check_can_be_sent(executor, problem)
    limit = checked_seconds("timeout", timeout)
    deadline = math.inf if limit is None else time.monotonic() + limit
    _check_same(posterior, problem)
    reporter = Reporter(silent=not progress)
    with tempfile.TemporaryDirectory(prefix="vbstack-") as temporary:
        directory, plan = temporary, Plan(problem.description(), seed, "native")
        if store is not None:
            settings = LaunchSettings(
                problem,
                1,
                store=store,
                executor=executor,
                n_workers=n_workers,
                progress=progress,
                trust_store=trust_store,
            )
            directory, plan = checked_store(settings)

        def made(points: Array) -> tuple[list[Evaluation], int]:
            return evaluated(
                problem,
                points,
                directory,
                replace(plan, seed=seed),
                executor=executor,
                n_workers=n_workers,
                deadline=deadline,
            )

        return _verified(posterior, count, seed, rounds, made, reporter, problem.noisy)


def number_of_draws(posterior: StackedPosterior, n: int | str) -> int:
    """How many evaluations a round has."""
    if not isinstance(n, str):
        return checked_whole("n", n, 2)
    if n != "auto":
        raise ValueError(f"n={n!r} must be a number of evaluations or 'auto'")
    made = sum(run.evaluations.paid for run in posterior.runs if run.evaluations is not None)
    return int(np.clip(round(SHARE * made), FEWEST, MOST))


def _check_same(posterior: StackedPosterior, problem: Problem) -> None:
    """An error if the posterior is of other parameters than the problem."""
    if posterior.names != problem.names:
        raise ValueError(
            f"the posterior is of the parameters {list(posterior.names)}, the problem of "
            f"{list(problem.names)}: give the problem that the runs were made of"
        )


def _verified(
    posterior: StackedPosterior,
    count: int,
    seed: int,
    rounds: int,
    made: Any,
    reporter: Reporter,
    noisy: bool,
) -> Verification:
    """Check the stack; after a round with surprises, make it again and check it with new draws."""
    again = _evaluated_before(posterior)
    before, differences = 0, np.zeros(0)
    for number in range(1, rounds + 1):
        reporter.say(f"verifying the stack with evaluations at {count} of its draws")
        draws = _draws(posterior, count, seed, number)
        evaluations, _ = made(np.vstack([draws, again.x]) if number == 1 else draws)
        before += len(evaluations)
        if number == 1:
            differences = np.array([e.value for e in evaluations[count:]]) - again.values
        new = Evaluations.of(evaluations[:count], noisy)
        points = _points(posterior, new)
        found = _judged(posterior, points, seed, differences, evaluations=before, rounds=number)
        reporter.say(found.verdict)
        if number == 1 and found.undeclared > 0:
            warnings.warn(UndeclaredNoise(found.undeclared_noise), stacklevel=4)
        if number == rounds or not points.surprising.any() or posterior.surrogate is None:
            break
        reporter.say("the surprising values join the pool, and the stack is made again")
        posterior = _stacked_again(posterior, new)
    return Verification(with_verified(posterior, found), found, points)


def _evaluated_before(posterior: StackedPosterior) -> Evaluations:
    """The best evaluation of the first run and of the last, which are asked for again."""
    kept = [run.evaluations for run in posterior.runs if run.evaluations is not None]
    several = [e for e in (*kept[:1], *kept[1:][-1:]) if np.isfinite(e.values).any()]
    best = [int(np.argmax(e.values)) for e in several]
    x = np.array([e.x[i] for e, i in zip(several, best, strict=True)])
    values = np.array([e.values[i] for e, i in zip(several, best, strict=True)])
    return Evaluations(x.reshape(-1, posterior.dimension), values)


def _draws(posterior: StackedPosterior, count: int, seed: int, number: int) -> Array:
    """Draws (count, D) of a round, each with a seed of its own: more of them begin the same."""
    return np.vstack(
        [posterior.sample(1, np.random.default_rng([seed, number, i])) for i in range(count)]
    )


def _points(posterior: StackedPosterior, made: Evaluations) -> Points:
    """What the stack and its surrogate say about these evaluations."""
    log_q = posterior.log_pdf(made.x)
    if posterior.surrogate is None:
        return Points(made.x, made.values, made.sds, log_q)
    mean, variance = posterior.surrogate_log_density(made.x)
    return Points(made.x, made.values, made.sds, log_q, mean, np.sqrt(variance))


def _judged(
    posterior: StackedPosterior,
    points: Points,
    seed: int,
    repeated: Array,
    *,
    evaluations: int,
    rounds: int,
) -> VerifiedEvidence:
    many = None
    if posterior.surrogate is not None:
        x = posterior.sample(_MANY, seed=np.random.default_rng([seed, 0]))
        mean, variance = posterior.surrogate_log_density(x)
        many = AtDraws(mean - posterior.log_pdf(x), variance)
    e, draws_sd = posterior.evidence, posterior.solution.standard_error
    pool = e.from_pool
    if posterior.support is not None:
        draws_sd = np.nan  # the surrogate's ELBO is not that of a mixture that is cut off
    said = (e.raw, e.total_sd) if pool is None else (pool.elbo, pool.elbo_sd)
    stated = Stated(*said, draws_sd if pool is not None else np.nan)
    return verified(
        points, many, stated=stated, evaluations=evaluations, rounds=rounds, repeated=repeated
    )


def _stacked_again(posterior: StackedPosterior, made: Evaluations) -> StackedPosterior:
    """The stack of the same runs with these evaluations in the pool."""
    further = made if posterior.further is None else _joined(posterior.further, made)
    again = stacked(posterior.runs, posterior.settings, further)
    numbers = [posterior.kept[place] for place in again.kept]
    return replace(again, kept=tuple(numbers), dropped=posterior.dropped, sources=posterior.sources)


def _joined(one: Evaluations, other: Evaluations) -> Evaluations:
    both = None if one.sds is None or other.sds is None else np.concatenate([one.sds, other.sds])
    return Evaluations(
        np.concatenate([one.x, other.x]), np.concatenate([one.values, other.values]), both
    )


def with_verified(posterior: StackedPosterior, found: VerifiedEvidence) -> StackedPosterior:
    """The posterior whose evidence is the verified one."""
    return replace(posterior, evidence=replace(posterior.evidence, verified=found))
