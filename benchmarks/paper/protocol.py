"""The paper's protocol (sec. 4.1): random subsets of the archived runs, stacked and scored.

For every number of runs M, twenty random subsets of those that pass the filters; each is stacked in
every way, and compared with the truth. Tables show medians with 95 % intervals from 10,000
bootstrap resamples. Everything is seeded; nothing written depends on the machine's speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.archived_runs import archive
from benchmarks.arrays import Array
from benchmarks.folders import ARCHIVES
from benchmarks.problems import BenchmarkProblem, benchmark_of
from benchmarks.problems.reference_posterior import Reference
from benchmarks.scoring.metrics import Approximation, metrics, of_draws, of_mixture, of_stack
from vbstack import Mixture, Run, StackedPosterior, load_runs, screen, stack
from vbstack.stacking.pooling import why_not_pool

SIZES = (1, 2, 4, 6, 10, 14, 20, 30, 40)
SUBSETS = 20
RESAMPLES = 10_000
TRUTH_DRAWS = 4000  # of a stack, at which the true log density is evaluated
ADAM_SIZE, ADAM_SUBSETS = 10, 5
# Pooling takes most of the time: exact runs at the tables' sizes only, noisy ones at a few more.
EXACT_POOLED_SIZES, NOISY_POOLED_SIZES = (10, 20), (2, 4, 6, 10, 20)
SLOW = ("neuronal",)  # problems whose log density is too slow for the Monte Carlo truth
# By own values with the paper's objective. Naive stacking is known by a stack of all weights.
METHODS: dict[str, dict[str, Any]] = {
    "runs": {"weights": "runs", "evaluations": "own", "caution": 0.0},
    "all": {"weights": "all", "evaluations": "own", "caution": 0.0},
    "pooled": {"weights": "all", "evaluations": "pooled"},  # not in the paper
    "adam": {"weights": "all", "solver": "adam", "evaluations": "own", "caution": 0.0},
}


@dataclass(frozen=True)
class Case:
    """A problem, the folder of its archive, and other data than the shipped if given."""

    problem: str
    archives: Path = ARCHIVES
    data: Path | None = None

    @property
    def archive(self) -> Path:
        return archive(self.problem, self.archives)


Task = tuple[Case, int, int]  # with M and the number of the subset


@dataclass(frozen=True)
class Filtered:
    """How many archived runs there are, how many each filter drops, and those that remain."""

    total: int
    unconverged: int
    poor: int
    runs: tuple[Run, ...]


@lru_cache(maxsize=2)
def filtered(case: Case) -> Filtered:
    """The archived runs of a problem that pass the paper's filters, in order."""
    runs = load_runs(case.archive)
    kept, dropped = screen(runs)
    unconverged = sum(not runs[item.index].converged for item in dropped)
    return Filtered(
        len(runs), unconverged, len(dropped) - unconverged, tuple(runs[i] for i in kept)
    )


@lru_cache(maxsize=2)
def target_of(case: Case) -> BenchmarkProblem:
    return benchmark_of(case.problem, case.data)


def truth_of(case: Case) -> Reference:
    """The problem's reference, which must be there."""
    reference = target_of(case).reference
    if reference is None:
        raise LookupError(f"{case} has no reference; python -m benchmarks references makes one")
    return reference


def subsets(available: int, size: int, count: int = SUBSETS) -> list[tuple[int, ...]]:
    """`count` random subsets of `size` runs, or the one there is; the same on every machine."""
    rng = np.random.default_rng([2025, size])
    return [
        tuple(sorted(rng.permutation(available)[:size].tolist()))
        for _ in range(_possible(available, size, count))
    ]


def _possible(available: int, size: int, count: int) -> int:
    return 1 if size == available else count


def tasks(case: Case, sizes: Sequence[int], count: int) -> Iterator[Task]:
    """One per subset, for every M that the archive allows."""
    available = len(filtered(case).runs)
    for size in sizes:
        if size <= available:
            possible = _possible(available, size, count)
            yield from ((case, size, index) for index in range(possible))


def rows_of(task: Task, count: int) -> list[dict[str, Any]]:
    """One row per method for one subset."""
    case, size, index = task
    runs = filtered(case).runs
    chosen = [runs[i] for i in subsets(len(runs), size, count)[index]]
    if size == 1:
        return [{**_head(task, "vbmc"), **_scores(single(chosen[0]), truth_of(case))}]
    rows = []
    for method, options in METHODS.items():
        if method == "adam" and (size != ADAM_SIZE or index >= ADAM_SUBSETS):
            continue
        if method == "pooled" and not _can_pool(case, chosen):
            continue
        posterior = stack(chosen, seed=index, refine=False, **options)
        e = posterior.evidence
        scores = _scores(
            of_stack(posterior, e.raw if e.pooled is None else e.log_evidence), truth_of(case)
        )
        rows.append({**_head(task, method), **scores, **_evidence(case, posterior, index)})
        if method == "all":
            rows.append({**_head(task, "naive"), **_scores(naive(posterior), truth_of(case))})
    return rows


def _can_pool(case: Case, chosen: Sequence[Run]) -> bool:
    """Whether these runs are pooled: exact ones only if one of them kept its surrogate."""
    if target_of(case).noise_sd:
        return len(chosen) in NOISY_POOLED_SIZES
    return len(chosen) in EXACT_POOLED_SIZES and not why_not_pool(chosen)


def peer_row(case: Case, size: int, index: int) -> dict[str, Any]:
    """The same subset of runs stacked by pyvbmc's SVBMC."""
    from benchmarks.baselines.peers import pyvbmc_svbmc

    runs = filtered(case).runs
    chosen = [runs[i] for i in subsets(len(runs), size)[index]]
    answer = pyvbmc_svbmc(chosen)
    weights = answer["weights"] / answer["weights"].sum()
    result = of_mixture(Mixture.from_runs(chosen), weights, answer["elbo"])
    return {**_head((case, size, index), "pyvbmc"), **_scores(result, truth_of(case))}


def naive(posterior: StackedPosterior) -> Approximation:
    """Every run with the same weight; the ELBO is to some 0.005 nats (its sample was drawn for the
    other weights)."""
    mixture = Mixture.from_runs(posterior.runs)
    return of_mixture(mixture, mixture.naive_weights, posterior.evidence.naive)


def single(run: Run) -> Approximation:
    """One VBMC run by itself, with its own ELBO."""
    return of_mixture(Mixture.from_runs([run]), run.weights, run.elbo)


def draws_scored(case: Case) -> dict[str, float]:
    """The MMTV that draws from the truth itself have: what kernel densities alone cost."""
    truth = truth_of(case)
    scores = metrics(of_draws(truth.draws, truth.log_evidence), truth)
    return {"number": len(truth.draws), **rounded({"mmtv": scores.mmtv})}


def _head(task: Task, method: str) -> dict[str, Any]:
    return {"problem": task[0].problem, "method": method, "runs": task[1], "subset": task[2]}


def _scores(approximation: Approximation, truth: Reference) -> dict[str, float]:
    scores = asdict(metrics(approximation, truth))
    return rounded({"elbo": approximation.log_evidence, **scores})


def _evidence(case: Case, posterior: StackedPosterior, seed: int) -> dict[str, float]:
    """Estimates of the log evidence, and the true ELBO of this stack by Monte Carlo."""
    e = posterior.evidence
    values = {
        "capped_components": e.capped_components,
        "capped_runs": e.capped_runs,
        "expected_log_joint": e.expected_log_joint,
        "gap": e.gap,
    }
    if e.pooled_elbo is not None:
        values["pooled_elbo"] = e.pooled_elbo
    if case.problem not in SLOW:
        draws = posterior.sample(TRUTH_DRAWS, seed=[7, seed])  # type: ignore[arg-type]
        true = float(target_of(case).log_densities(draws).mean())
        values |= {"true_log_joint": true, "true_elbo": true + e.entropy}
    return rounded(values)


def rounded(values: dict[str, float]) -> dict[str, float]:
    """To six digits, or four decimals of numbers above a hundred: more than any table needs, fewer
    than rounding errors reach."""
    return {
        key: round(value, 4) if abs(value) > 100 else float(f"{value:.6g}")
        for key, value in values.items()
    }


def interval(values: Array, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Median and its 95 % percentile bootstrap interval."""
    values = np.asarray(values, dtype=float)
    rng = np.random.default_rng(95)
    picks = rng.integers(values.size, size=(resamples, values.size))
    low, high = np.quantile(np.median(values[picks], axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)
