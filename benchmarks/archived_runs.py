"""The archived VBMC runs: where they are, and how they are made or extended.

    python -m benchmarks make-runs --problem gmm --runs 60

The runs are those of `launch(seed=2025)` with pyvbmc's default options: run m is the same on every
machine. A store under `--stores` keeps every evaluation, so an interrupted command continues where
it stopped; runs that are in the archive already are not made again. The archive
`benchmarks/archives/<problem>.npz` is written anew whenever `--every` further runs are there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.folders import ARCHIVES
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from vbstack import Problem, Run, TooFewRuns, launch, load_runs, save_runs, screen
from vbstack.engines.recorder import Recorder
from vbstack.engines.registry import engine_named
from vbstack.modes import EngineName, StartsKind
from vbstack.runs.journal import Journal
from vbstack.runs.plan import Plan
from vbstack.runs.store import RunStore

SEED = 2025


def archive(problem: str, folder: Path = ARCHIVES) -> Path:
    """The file of a problem's runs."""
    return folder / f"{problem}.npz"


def converged_runs(problem: str) -> list[Run]:
    """The archived runs that converged, in order."""
    return [run for run in load_runs(archive(problem)) if run.converged]


def passing(runs: list[Run]) -> list[Run]:
    """The runs that the default filter keeps, if any."""
    try:
        return [runs[index] for index in screen(runs)[0]]
    except TooFewRuns:
        return []


def archived(run: Run) -> Run:
    """What the archive keeps: everything, but J averaged over hyperparameter samples and in single
    precision."""
    mean = run.log_joint_covariance.mean(axis=0, keepdims=True)
    return replace(run, log_joint_covariance=mean.astype(np.float32))


def plan_of(
    problem: Problem, engine: EngineName, seed: int = SEED, starts: StartsKind = "uniform"
) -> Plan:
    """The plan of a problem's runs; the archives have uniform random starts."""
    return Plan(problem.description(), seed, engine, starts=starts)


def run_of(problem: Problem, plan: Plan, index: int, **options: Any) -> Run:
    """Run `index` of the plan, made here and now without a store."""
    seed = plan.run_seed(index)
    recorder = Recorder(problem, seed, Journal())
    return engine_named(plan.engine)(problem, plan.start(index), seed, recorder, options)


def extend(
    target: Problem, count: int, every: int, workers: int | None, store: RunStore, path: Path
) -> None:
    """Extend the archive at `path` to `count` runs, written anew after `every` of them.

    A run that fails is missing in the archive, so an archived run's place is told by its seed.
    """
    plan = store.open(target, seed=SEED, engine="pyvbmc", starts="uniform")
    there = load_runs(path) if path.exists() else []
    places: dict[int | None, int] = {plan.run_seed(index): index for index in range(2 * count)}
    for run in there:
        index = places[run.seed]
        if not store.path(index, "npz").exists():
            store.save(index, run)
    for wanted in [*range(len(there) + every, count, every), count]:
        if wanted > len(there):
            runs = launch(target, wanted, store=store, n_workers=workers, engine="pyvbmc")
            save_runs(path, [archived(run) for run in runs], overwrite=True)
            print(f"{path.name}: {len(runs)} runs, {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main(argv: list[str]) -> None:
    parser = options_of("make-runs", __doc__)
    parser.add_argument("--problem", choices=sorted(PROBLEMS), action="append", required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--every", type=int, default=10, help="runs between two archives")
    parser.add_argument("--stores", type=Path, default=ARCHIVES / "stores")
    parser.add_argument("--archives", type=Path, default=ARCHIVES)
    arguments = parser.parse_args(argv)
    for name in arguments.problem:
        extend(
            PROBLEMS[name]().problem(),
            arguments.runs,
            arguments.every,
            arguments.workers,
            RunStore(arguments.stores / name),
            archive(name, arguments.archives),
        )
