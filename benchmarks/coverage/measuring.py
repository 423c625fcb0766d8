"""One fit measured: where its mass is, what it lost, and what its diagnostics say."""

from __future__ import annotations

import numpy as np

from benchmarks.arrays import Array
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.fit_row import FitRow
from benchmarks.coverage.making_runs import Made
from vbstack import Run, StackedPosterior, TooFewRuns, diagnostics, stack

DRAWS = 20_000  # of a stack: a share of 5 % is known to 0.15 %
RUN_DRAWS = 2_000  # of a run: to 0.5 %


def measured(target: CoverageTarget, seed: int, made: Made) -> FitRow:
    """The row of these runs and their default stack."""
    posterior = _stack(made.runs)
    shares = np.zeros(target.masses.size)
    lost, enough, kept = None, False, 0
    if posterior is not None:
        x = posterior.sample(DRAWS, seed=1)
        shares = target.shares(x)
        elbo = float(np.mean(target.truth.log_densities(x) - posterior.log_pdf(x)))
        lost = round(target.truth.log_evidence - elbo, 5)
        enough, kept = diagnostics(posterior).enough, len(posterior.runs)
    return FitRow(
        seed=seed,
        runs=len(made.runs) + made.failed,
        failed=made.failed,
        stacked=kept,
        shares=shares.round(5).tolist(),
        lost_nats=lost,
        run_shares=[target.shares(drawn(run)).round(4).tolist() for run in made.runs],
        evaluations=[run.evaluations.size for run in made.runs if run.evaluations is not None],
        seconds=[round(value, 3) for value in made.seconds],
        enough=enough,
    )


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
