"""Where the runs of a fit come from: made by an engine, taken from an archive, or by `fit`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.archived_runs import SEED, plan_of, run_of
from benchmarks.coverage.archiving import archived_runs
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.problems import BenchmarkProblem
from vbstack import Run, RunStore, TooFewRuns, fit, load_runs, save_runs
from vbstack.runs.plan import Plan

FIRST_PLAN = 1000  # seed s has the runs of plan 1000 + s


@dataclass(frozen=True)
class Made:
    """Runs, the processor seconds of each, and how many failed."""

    runs: list[Run]
    seconds: list[float]
    failed: int = 0


def native(
    truth: BenchmarkProblem, seed: int, count: int, options: Mapping[str, Any], keep: Path | None
) -> Made:
    """Runs 0 to count − 1 of the seed's own plan, with the starts of `fit`.

    They are kept in the folder `keep`, and read from there where they were made before.
    """
    path = None if keep is None else keep / f"{truth.name}-{seed}.npz"
    if path is not None and path.exists():
        runs = load_runs(path)
        return Made(runs, [run.seconds or np.nan for run in runs], count - len(runs))
    plan = plan_of(truth.problem(), "native", FIRST_PLAN + seed, "sobol")
    made = of_plan(truth, plan, range(count), options)
    if path is not None and made.runs:
        path.parent.mkdir(parents=True, exist_ok=True)
        timed = zip(made.runs, made.seconds, strict=True)
        save_runs(path, [replace(run, seconds=seconds) for run, seconds in timed], overwrite=True)
    return made


def native_with_archived_starts(
    target: CoverageTarget, indices: list[int], options: Mapping[str, Any]
) -> Made:
    """The runs of the archives' plan with these numbers: starts and seeds of the archived ones."""
    return of_plan(target.truth, plan_of(target.truth.problem(), "native"), indices, options)


def archived(target: CoverageTarget, seed: int, count: int) -> Made:
    """Subset `seed` of the archived pyvbmc runs; seconds are wall time, when they were archived."""
    pool = archived_runs(target)
    runs = [pool[place] for place in subset(len(pool), seed, count)]
    return Made(runs, [run.seconds or np.nan for run in runs])


def automatic(target: CoverageTarget, seed: int, options: Mapping[str, Any]) -> Made:
    """The runs that `fit(n_runs="auto")` takes; seconds include its stacks and diagnostics."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            fit(
                target.truth.problem(),
                "auto",
                store=folder,
                executor="here",
                engine="native",
                seed=FIRST_PLAN + seed,
                options=options,
                progress=False,
            )
        except TooFewRuns as error:
            print(f"{target.name}, seed {seed}: {error}", flush=True)
        store = RunStore(folder)
        runs = list(store.runs().values())
        failed = len(store.states()) - len(runs)
    spent = time.process_time() - begun
    return Made(runs, [spent / max(len(runs), 1)] * len(runs), failed)


def subset(pool: int, seed: int, count: int) -> list[int]:
    """Places of the runs of subset `seed` among `pool`: disjoint ones first, then random ones."""
    if (seed + 1) * count <= pool:
        return list(range(seed * count, (seed + 1) * count))
    rng = np.random.default_rng([SEED, pool, seed])
    return sorted(rng.choice(pool, count, replace=False).tolist())


def subsets_of(pool: int, count: int, wanted: int) -> int:
    """How many subsets of `count` runs are taken of a pool.

    One more run, one more subset: 20 archived runs give eleven of ten, 29 and more give twenty.
    """
    return min(wanted, max(pool - count + 1, 0))


def of_plan(
    truth: BenchmarkProblem, plan: Plan, indices: range | list[int], options: Mapping[str, Any]
) -> Made:
    problem = truth.problem()
    runs, seconds = [], []
    for index in indices:
        begun = time.process_time()
        try:
            runs.append(run_of(problem, plan, index, **options))
        except Exception as error:  # a run that fails is a result, as it is for `launch`
            print(f"{truth.name}, plan {plan.seed}, run {index}: {error!r}", flush=True)
        else:
            seconds.append(time.process_time() - begun)
    return Made(runs, seconds, len(indices) - len(runs))
