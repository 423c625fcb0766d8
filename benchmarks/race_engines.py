"""The native engine against pyvbmc: `python -m benchmarks.race_engines [--problem gmm …]`.

Native runs have the starts and seeds of the archived pyvbmc runs. Per problem: processor seconds
(the log density costs next to nothing), evaluations, the share of runs that pass the filter, the
error of a run's ELBO, how often 2 √J_kk covers the error of I_k, and, for stacks of ten over random
subsets, the true ELBO (Monte Carlo on the exact log density), beside those of the archived runs.
pyvbmc's seconds are of a few runs made here and now (`--timed`).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.make_runs import SEED, archive
from benchmarks.problems import PROBLEMS
from benchmarks.record import BenchmarkProblem
from vbstack import Run, StackedPosterior, load_runs, screen, stack
from vbstack.engine import Recorder
from vbstack.engines import engine_named
from vbstack.journal import Journal
from vbstack.launch import starting_points
from vbstack.worker import run_seed

RESULTS = Path(__file__).parent / "results"
DRAWS = 20_000


def made(name: str, engine: str, indices: range) -> tuple[list[Run], list[float]]:
    """Runs of a problem by an engine, and the processor seconds of each."""
    problem = PROBLEMS[name]().problem()
    starts = starting_points(problem, "uniform", indices.stop, SEED)
    runs, seconds = [], []
    for index in indices:
        seed = run_seed(SEED, index)
        recorder = Recorder(problem, seed, Journal())
        begun = time.process_time()
        runs.append(engine_named(engine)(problem, starts[index], seed, recorder, {}))
        seconds.append(time.process_time() - begun)
    return runs, seconds


def true_elbo(target: BenchmarkProblem, posterior: StackedPosterior) -> float:
    x = posterior.sample(DRAWS, seed=1)
    return float(np.mean(target.log_densities(x) - posterior.log_pdf(x)))


def passing(runs: list[Run]) -> list[Run]:
    """The runs that the default filter keeps."""
    return [runs[index] for index in screen(runs)[0]]


def covered(target: BenchmarkProblem, run: Run) -> float:
    """Share of components whose I_k is within 2 √J_kk (and Monte Carlo error) of the truth."""
    rng = np.random.default_rng(0)
    inside = []
    for k in range(run.n_components):
        u = run.means[k] + run.sds[k] * rng.standard_normal((4000, run.dimension))
        truth = target.log_densities(run.transform.inverse(u)) + run.transform.log_jacobian(u)
        error = abs(float(truth.mean()) - float(run.expected_log_joint[k]))
        spread = np.sqrt(run.expected_log_joint_covariance[k, k] + truth.var() / len(u))
        inside.append(error < 2 * spread)
    return float(np.mean(inside))


def described(name: str, runs: list[Run], seconds: list[float], subsets: int) -> dict[str, Any]:
    """Everything that the table says about the runs of one engine."""
    target, kept = PROBLEMS[name](), passing(runs)
    errors = [abs(run.elbo - true_elbo(target, stack([run], weights="naive"))) for run in kept]
    rng = np.random.default_rng(0)
    stacks = []
    for _ in range(subsets):
        chosen = rng.choice(len(kept), min(10, len(kept)), replace=False)
        stacks.append(true_elbo(target, stack([kept[index] for index in chosen])))
    return {
        "runs": len(runs),
        "passing": len(kept),
        "seconds": float(np.median(seconds)),
        "timed": len(seconds),
        "evaluations": float(np.median([len(r.evaluations.values) for r in runs if r.evaluations])),
        "elbo": float(np.median([run.elbo for run in kept])),
        "elbo_error_90": float(np.quantile(errors, 0.9)),
        "covered": float(np.mean([covered(target, run) for run in kept[:10]])),
        "stack": np.quantile(stacks, [0.5, 0.025, 0.975]).tolist(),
        "log_evidence": target.log_evidence,
    }


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = [
        "# Native engine and pyvbmc",
        "",
        "`python -m benchmarks.race_engines`; medians; true ELBO of stacks of ten with the central "
        "95 % over random subsets.",
        "",
        "| problem | engine | runs (passing) | processor s | evaluations | run's ELBO | its error, "
        "90 % | I_k covered | true ELBO of ten stacked | log evidence |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, engines in results.items():
        for engine, r in engines.items():
            middle, low, high = r["stack"]
            lines.append(
                f"| {name} | {engine} | {r['runs']} ({r['passing']}) | {r['seconds']:.2f} "
                f"| {r['evaluations']:.0f} | {r['elbo']:.3f} | {r['elbo_error_90']:.3f} "
                f"| {r['covered']:.0%} | {middle:.3f} ({low:.3f} to {high:.3f}) "
                f"| {r['log_evidence']:.3f} |"
            )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = ("gmm", "ring", "banana6", "banana10")
    parser.add_argument("--problem", nargs="+", choices=known, default=known)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--subsets", type=int, default=20)
    parser.add_argument("--timed", type=int, default=2, help="pyvbmc runs to time")
    arguments = parser.parse_args()
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name in arguments.problem:
        archived = load_runs(archive(name))[: arguments.runs]
        runs, seconds = made(name, "native", range(len(archived)))
        timed = made(name, "pyvbmc", range(arguments.timed))[1]
        results[name] = {
            "native": described(name, runs, seconds, arguments.subsets),
            "pyvbmc": described(name, archived, timed, arguments.subsets),
        }
        print(table({name: results[name]}).splitlines()[-2:], flush=True)
    (RESULTS / "race_engines.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "race_engines.md").write_text(table(results))


if __name__ == "__main__":
    main()
