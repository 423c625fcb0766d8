"""Evaluations side by side: `python -m benchmarks batches`.

    python -m benchmarks batches                 everything that is not stored yet
    python -m benchmarks batches --part time     only the race against the clock, made again

Time: ten runs of a two-dimensional banana (rosenbrock2) whose log density sleeps 0.3 s, with
batches on 10, 20 and 40 workers of several kinds, and without batches on ten. The runs with batches
must be the same, bit for bit.
Calls: ten runs of the same target, vectorized, in one process.
Evaluations: what batches cost and whether stacks are as good. Ten runs with the starts and seeds of
one plan, with and without batches, evaluated here and now: per target evaluations per run and the
true ELBO of the stack. Rows that are stored are not made again: `results/batches.json`; the table
is `results/batches.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.archived_runs import plan_of, run_of
from benchmarks.arrays import Array
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.true_elbo import true_elbo
from vbstack import Problem, Run, launch, stack

SLEEP, RUNS, SEED, FIRST_PLAN = 0.3, 10, 7, 500
TIMED = "rosenbrock2"
TARGETS = (
    "gmm",
    "ring",
    "rosenbrock2",
    "student_t",
    "unequal",
    "rosenbrock4",
    "gaussian5",
    "split",
)
PLANS_OF_TIMED, PLANS_OF_OTHERS = 20, 2
STORED = RESULTS / "batches.json"


def sleeping() -> Problem:
    """The banana, each evaluation of which takes 0.3 s of nobody's processor time."""
    target = PROBLEMS[TIMED]()

    def log_density(x: Array) -> float:
        time.sleep(SLEEP)
        return target.log_density(x)

    return _with(log_density)


def _with(log_density: Callable[[Array], Any], vectorized: bool = False) -> Problem:
    target = PROBLEMS[TIMED]()
    return Problem(
        log_density=log_density,
        plausible_lower_bounds=target.plausible_lower_bounds,
        plausible_upper_bounds=target.plausible_upper_bounds,
        vectorized=vectorized,
    )


def made(problem: Problem, **settings: Any) -> tuple[list[Run], float]:
    """Ten runs in a new store, and the seconds that they took."""
    with tempfile.TemporaryDirectory() as directory:
        begun = time.perf_counter()
        runs = launch(
            problem, RUNS, store=directory, seed=SEED, engine="native", progress=False, **settings
        )
        return runs, time.perf_counter() - begun


def digest(runs: Sequence[Run]) -> str:
    """The same for the same runs, bit for bit."""
    whole = hashlib.sha256()
    for run in runs:
        assert run.evaluations is not None
        for part in (run.weights, run.means, run.sds, run.log_joint, run.evaluations.values):
            whole.update(np.ascontiguousarray(part).tobytes())
    return whole.hexdigest()[:12]


@contextmanager
def dask_threads(count: int) -> Iterator[Any]:
    """A Dask cluster in this process."""
    import distributed

    make_cluster: Any = distributed.LocalCluster
    make_client: Any = distributed.Client
    cluster = make_cluster(
        n_workers=1, threads_per_worker=count, processes=False, dashboard_address=":0"
    )
    with cluster, make_client(cluster) as client:
        yield client


def timed() -> list[dict[str, Any]]:
    """The seconds of ten runs on every back end, and what the runs are."""
    rows = []

    def note(where: str, runs: list[Run], seconds: float) -> None:
        paid = sum(run.evaluations.paid for run in runs if run.evaluations is not None)
        row = {"where": where, "seconds": seconds, "evaluations": paid, "digest": digest(runs)}
        rows.append({**row, "load": os.getloadavg()[0]})
        print(f"{where}: {seconds:.1f} s, {paid} evaluations", flush=True)

    note("10 local processes, no batches", *made(sleeping(), n_workers=10, batch=False))
    for workers in (10, 20, 40):
        note(f"{workers} local processes", *made(sleeping(), n_workers=workers, batch=True))
    with ThreadPoolExecutor(40) as pool:
        note("ThreadPoolExecutor(40)", *made(sleeping(), executor=pool))
    with dask_threads(40) as client:
        note("Dask, 40 threads", *made(sleeping(), executor=client))
    return rows


def calls() -> dict[str, Any]:
    """How many points a call has when ten runs of a vectorized log density advance together."""
    sizes: list[int] = []
    target = PROBLEMS[TIMED]()

    def log_density(points: Array) -> Array:
        sizes.append(len(points))
        return target.log_densities(points)

    runs, seconds = made(_with(log_density, vectorized=True), executor="here")
    return {"calls": len(sizes), "points": sum(sizes), "seconds": seconds, "digest": digest(runs)}


def row(name: str, plan_number: int, batch: bool) -> dict[str, Any]:
    """Ten runs of a plan and their stack."""
    target = PROBLEMS[name]()
    problem = target.problem()
    plan = plan_of(problem, "native", FIRST_PLAN + plan_number, "sobol")
    runs = [run_of(problem, plan, index, batch=batch) for index in range(RUNS)]
    posterior = stack(runs)
    paid = [run.evaluations.paid for run in runs if run.evaluations is not None]
    return {
        "target": name,
        "plan": plan_number,
        "batch": batch,
        "evaluations": float(np.mean(paid)),
        "true_elbo": true_elbo(target, posterior) - target.log_evidence,
        "seconds": float(np.mean([run.seconds for run in runs if run.seconds is not None])),
    }


def table(found: dict[str, Any]) -> str:
    lines = [
        "# Evaluations side by side",
        "",
        f"`python -m benchmarks batches` on {machine()}, {os.cpu_count()} cores shared with other "
        "work (the load is that of the last minute; an idle machine has less than one for each "
        "core).",
        "",
    ]
    if "time" in found:
        lines += _time_table(found["time"])
    if "calls" in found:
        lines += _calls_text(found["calls"])
    return "\n".join([*lines, *_cost_table(found.get("rows", [])), ""])


def _time_table(rows: list[dict[str, Any]]) -> list[str]:
    ten = next(r for r in rows if r["where"] == "10 local processes")
    batches = [r for r in rows if "no batches" not in r["where"]]
    same = len({r["digest"] for r in batches}) == 1
    return [
        "## Time",
        "",
        f"Ten runs of {TIMED}, of which each evaluation sleeps {SLEEP} s. The runs with batches "
        f"are {'the same in all rows, bit for bit' if same else 'NOT THE SAME'}.",
        "",
        "| evaluations on | evaluations | seconds | of the time with ten | load |",
        "|---|---|---|---|---|",
        *(
            f"| {r['where']} | {r['evaluations']} | {r['seconds']:.1f} "
            f"| {r['seconds'] / ten['seconds']:.2f} | {r['load']:.0f} |"
            for r in rows
        ),
        "",
    ]


def _calls_text(found: dict[str, Any]) -> list[str]:
    mean = found["points"] / found["calls"]
    return [
        "## Calls",
        "",
        f'Ten runs of {TIMED}, vectorized, with `executor="here"`: {found["points"]} evaluations '
        f"in {found['calls']} calls, {mean:.1f} points in each, {found['seconds']:.1f} s.",
        "",
    ]


def _cost_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Evaluations and quality",
        "",
        f"Stacks of {RUNS} runs of the same plans, one point after the other and with batches. "
        "True ELBO of the stack less the log evidence, mean over plans; the difference with its "
        "standard error.",
        "",
        "| target | plans | evaluations a run | with batches | more | true ELBO | with batches "
        "| difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(r["target"] for r in rows):
        by = {(r["plan"], r["batch"]): r for r in rows if r["target"] == name}
        plans = sorted(plan for plan, batch in by if batch and (plan, False) in by)
        if plans:
            lines.append(_cost_line(name, [(by[k, False], by[k, True]) for k in plans]))
    return lines


def _cost_line(name: str, pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    single, batch = (np.array([p[i]["evaluations"] for p in pairs]).mean() for i in (0, 1))
    elbos = np.array([[p[0]["true_elbo"], p[1]["true_elbo"]] for p in pairs])
    change = elbos[:, 1] - elbos[:, 0]
    error = f" ± {change.std(ddof=1) / np.sqrt(len(change)):.4f}" if len(change) > 1 else ""
    return (
        f"| {name} | {len(pairs)} | {single:.0f} | {batch:.0f} | {batch / single - 1:+.0%} "
        f"| {elbos[:, 0].mean():.4f} | {elbos[:, 1].mean():.4f} | {change.mean():+.4f}{error} |"
    )


def _stored() -> dict[str, Any]:
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def _store(**parts: Any) -> None:
    found = {**_stored(), **parts}
    STORED.write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "batches.md").write_text(table(found))


def make_rows() -> None:
    """The rows that are missing, each stored as soon as it is there."""
    rows = _stored().get("rows", [])
    there = {(r["target"], r["plan"], r["batch"]) for r in rows}
    for name, plan in _wanted():
        for batch in (False, True):
            if (name, plan, batch) not in there:
                rows.append(row(name, plan, batch))
                _store(rows=rows)
                print(rows[-1], flush=True)


def _wanted() -> Iterator[tuple[str, int]]:
    """Targets and plans: one of each, all of the one that is timed, then the rest."""
    yield from ((name, 0) for name in TARGETS)
    yield from ((TIMED, plan) for plan in range(PLANS_OF_TIMED))
    yield from ((name, plan) for plan in range(PLANS_OF_OTHERS) for name in TARGETS)


def main(argv: list[str]) -> None:
    parser = options_of("batches", __doc__)
    parser.add_argument("--part", choices=("time", "calls", "rows", "table"))
    part = parser.parse_args(argv).part
    found = _stored()
    if part == "time" or (part is None and "time" not in found):
        _store(time=timed())
    if part == "calls" or (part is None and "calls" not in found):
        _store(calls=calls())
    if part in (None, "rows"):
        make_rows()
    _store()
