"""What launching costs, and the plain way beside it: `python -m benchmarks race-end-to-end`.

One table from one session on an idle machine, ten GMM runs on two cores:

- `fit`: everything, from the call to the stacked posterior, processes and files included;
- the same with the native engine, in a new process whose start counts too;
- the plain way: a loop of pyvbmc runs in one process, then `pyvbmc.SVBMC` (needs torch);
- what orchestration adds to a run's CPU time: a run through a worker process with journal, status
  and file, against the same run made by a bare call of pyvbmc, in alternation;
- what one line of the journal costs.

Runs are the archived ones (seed 2025), so every way does the same work. Wants the environment of
the peers: `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.archived_runs import SEED, plan_of
from benchmarks.folders import RESULTS
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from vbstack import fit
from vbstack.launching.worker import Task, perform
from vbstack.modes import EngineName
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal


def through_fit(n_runs: int, workers: int, engine: EngineName = "pyvbmc") -> dict[str, float]:
    """Seconds of `fit`, and the sum of its runs' own seconds."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        problem = PROBLEMS["gmm"]().problem()
        posterior = fit(
            problem,
            n_runs,
            store=folder,
            seed=SEED,
            n_workers=workers,
            progress=False,
            engine=engine,
        )
        seconds = time.perf_counter() - begun
    own = sum(run.seconds or 0.0 for run in posterior.runs)
    return {
        "wall": seconds,
        "sum of runs": own,
        "elbo": posterior.evidence.raw,
    }


def native_way(n_runs: int, workers: int) -> dict[str, float]:
    """`fit` with the native engine in a new process; its wall time holds the process's start."""
    begun = time.perf_counter()
    answer = _in_a_new_process("--one", "native", "--runs", str(n_runs), "--workers", str(workers))
    return {**json.loads(answer), "wall": time.perf_counter() - begun}


def plain_run(index: int) -> Any:
    """One pyvbmc run as a user would write it, with the start and seed of our run `index`."""
    from pyvbmc import VBMC
    from threadpoolctl import threadpool_limits

    target = PROBLEMS["gmm"]()
    problem = target.problem()
    plan = plan_of(problem, "pyvbmc")
    start, seed = plan.start(index), plan.run_seed(index)
    bounds = (target.plausible_lower_bounds, target.plausible_upper_bounds)
    options = {"display": "off", "show_tips": False, "performance_calibration": "off"}
    with threadpool_limits(1):
        vbmc = VBMC(target.log_density, start, None, None, *bounds, options=options, seed=seed)
        return vbmc.optimize()[0]


def plain_way(n_runs: int) -> dict[str, float]:
    """Seconds of a loop of runs, and of pyvbmc's stacking after it."""
    from pyvbmc.svbmc import SVBMC

    begun = time.perf_counter()
    posteriors, seconds = [], []
    for index in range(n_runs):
        started = time.perf_counter()
        posteriors.append(plain_run(index))
        seconds.append(time.perf_counter() - started)
    looped = time.perf_counter() - begun
    stacker = SVBMC(posteriors, seed=0, show_tips=False)
    stacker.optimize()
    wall = time.perf_counter() - begun
    return {
        "wall": wall,
        "runs": looped,
        "stacking": wall - looped,
        "longest run": max(seconds),
        "elbo": float(stacker.elbo),
    }


def cpu_of_one(way: str, index: int) -> float:
    """CPU seconds of run `index`, in a fresh process, the import of the libraries left out."""
    return float(_in_a_new_process("--one", way, "--index", str(index)))


def _in_a_new_process(*arguments: str) -> str:
    """The last line that this command prints with these arguments, one thread."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "race-end-to-end", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return done.stdout.splitlines()[-1]


def one(way: str, index: int) -> float:
    """CPU seconds of one run, bare or as a worker does it."""
    import pyvbmc  # noqa: F401  (its import is not part of a run)

    problem = PROBLEMS["gmm"]().problem()
    with tempfile.TemporaryDirectory() as folder:
        task = Task(folder, index, plan_of(problem, "pyvbmc"))
        before = _cpu()
        if way == "bare":
            plain_run(index)
        else:
            perform(problem, task)
        return _cpu() - before


def journal_seconds(lines: int = 20_000, dimension: int = 10) -> float:
    """Seconds per evaluation that the journal takes, ten parameters, written to disk."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(100, dimension))
    evaluations = [Evaluation(tuple(x), float(x[0]), 1.0, 0.1) for x in points]
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal")
        begun = time.perf_counter()
        for index in range(lines):
            journal.append(evaluations[index % 100])
        seconds = time.perf_counter() - begun
        journal.close()
    return seconds / lines


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def report(result: dict[str, Any]) -> str:
    plain = result.get("plain")
    ways = {
        f"`vbstack.fit`, {result['workers']} processes": result["fit"],
        "the same, native engine, start of Python included": result["native"],
    }
    rows = [
        f"| {way} | {ours['wall']:.1f} | {ours['sum of runs']:.1f} "
        f"| {ours['wall'] / ours['sum of runs']:.2f} | {ours['elbo']:.3f} |"
        for way, ours in ways.items()
    ]
    if plain:
        rows.append(
            f"| loop of pyvbmc runs, then `pyvbmc.SVBMC` | {plain['wall']:.1f} "
            f"| {plain['runs']:.1f} | {plain['wall'] / plain['runs']:.2f} | {plain['elbo']:.3f} |"
        )
    overhead = result["overhead"]
    share = np.median(
        [w / b - 1 for w, b in zip(overhead["worker"], overhead["bare"], strict=True)]
    )
    pairs = ", ".join(
        f"{b:.2f} → {w:.2f}" for w, b in zip(overhead["worker"], overhead["bare"], strict=True)
    )
    return "\n".join(
        [
            f"# {result['runs']} GMM runs from end to end",
            "",
            "`python -m benchmarks race-end-to-end`",
            f"({result['machine']}, {result['cores']} cores)",
            "",
            "| way | wall, s | sum of the runs, s | wall / sum | stacked ELBO |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *([f"The plain way takes {plain['wall'] / result['fit']['wall']:.1f} times as long as "
               f"`fit`, and {plain['wall'] / result['native']['wall']:.0f} times as long as `fit` "
               "with the native engine."] if plain else []),
            "",
            f"CPU seconds of a run, bare → in a worker with journal, status and file: {pairs}; "
            f"median overhead {100 * share:+.1f} %.",
            "",
            f"A line of the journal (ten parameters) takes {1e3 * result['journal']:.3f} ms.",
            "",
        ]
    )  # fmt: skip


def main(argv: list[str]) -> None:
    parser = options_of("race-end-to-end", __doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5, help="runs timed bare and in a worker")
    parser.add_argument("--no-plain", action="store_true", help="leave the plain way out")
    parser.add_argument("--one", choices=("bare", "worker", "native"), help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one == "native":
        print(json.dumps(through_fit(arguments.runs, arguments.workers, "native")))
        return
    if arguments.one:
        print(one(arguments.one, arguments.index))
        return
    result: dict[str, Any] = {
        "runs": arguments.runs,
        "workers": arguments.workers,
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "fit": through_fit(arguments.runs, arguments.workers),
        "native": native_way(arguments.runs, arguments.workers),
        "plain": None if arguments.no_plain else plain_way(arguments.runs),
        "overhead": {"bare": [], "worker": []},
        "journal": journal_seconds(),
    }
    for index in range(arguments.pairs):
        for way in ("bare", "worker"):
            result["overhead"][way].append(cpu_of_one(way, index))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "race_end_to_end.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report(result)
    (RESULTS / "race_end_to_end.md").write_text(text)
    print(text)
