"""One fit measured: where its mass is, what it lost, and what its diagnostics say."""

from __future__ import annotations

import numpy as np

from benchmarks.arrays import Array
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.fit_row import FitRow, Wave
from benchmarks.coverage.making_runs import Made
from vbstack import Diagnostics, Run, StackedPosterior, TooFewRuns, diagnostics, stack

DRAWS = 20_000  # of a stack: a share of 5 % is known to 0.15 %
WAVES = (4, 6, 8)  # runs after which `fit(n_runs="auto")` with two workers asks the rule
RUN_DRAWS = 2_000  # of a run: to 0.5 %


def measured(
    target: CoverageTarget, seed: int, made: Made, waves_of: tuple[int, ...] = WAVES
) -> FitRow:
    """The row of these runs and their default stack; `waves_of` so many first runs are kept too."""
    noisy = target.truth.noise_sd > 0
    counts = [count for count in waves_of if count < len(made.runs) and not noisy]
    stacks = {count: _stack(made.runs[:count]) for count in (*counts, len(made.runs))}
    seen = {count: (s, diagnostics(s)) for count, s in stacks.items() if s is not None}
    waves = {count: _wave(target, count, *pair) for count, pair in seen.items()}
    posterior, found = seen.get(len(made.runs), (None, None))
    last = waves.get(len(made.runs))
    return FitRow(
        seed=seed,
        runs=len(made.runs) + made.failed,
        failed=made.failed,
        stacked=len(posterior.runs) if posterior else 0,
        shares=last.shares if last else [0.0] * target.masses.size,
        lost_nats=last.lost_nats if last else None,
        run_shares=[target.shares(drawn(run)).round(4).tolist() for run in made.runs],
        evaluations=[run.evaluations.size for run in made.runs if run.evaluations is not None],
        seconds=[round(value, 3) for value in made.seconds],
        enough=bool(found and found.enough),
        waves=() if noisy else tuple(waves.values()),
    )


def _wave(
    target: CoverageTarget, count: int, posterior: StackedPosterior, seen: Diagnostics
) -> Wave:
    """What a stack of the first `count` runs found, and what the rule sees of it."""
    shares, lost = _against_truth(target, posterior)
    return Wave(
        runs=count,
        shares=shares,
        lost_nats=lost,
        gains=[round(run.gain, 5) for run in seen.runs if run.in_stack],
        by_runs=seen.coverage.by_distinct_runs.round(5).tolist(),
        looks=sum(run.looks for run in posterior.runs),
    )


def _against_truth(
    target: CoverageTarget, posterior: StackedPosterior
) -> tuple[list[float], float]:
    """The stack's mass in each cell, and the nats that it lost."""
    x = posterior.sample(DRAWS, seed=1)
    elbo = float(np.mean(target.truth.log_densities(x) - posterior.log_pdf(x)))
    return target.shares(x).round(5).tolist(), round(target.truth.log_evidence - elbo, 5)


def drawn(run: Run, n: int = RUN_DRAWS) -> Array:
    """Draws (n, D) of a run's own mixture."""
    rng = np.random.default_rng(0)
    k = rng.choice(run.n_components, n, p=run.weights)
    u = run.means[k] + run.sds[k] * rng.standard_normal((n, run.dimension))
    return run.transform.inverse(u)


def _stack(runs: list[Run]) -> StackedPosterior | None:
    """The default stack; None when no run can be stacked."""
    try:
        return stack(runs)
    except TooFewRuns:
        return None
