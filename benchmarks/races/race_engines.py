"""The native engine against pyvbmc: `python -m benchmarks race-engines [--problem gmm …]`.

Native runs have the starts and seeds of the archived pyvbmc runs (the engine was tuned with other
seeds). Per problem: processor seconds of a run less those of its evaluations, evaluations, the
share of runs that pass the filter, the error of a run's ELBO, how often 2 √J_kk covers the error of
I_k; and for stacks of ten over random subsets ΔLML, MMTV, GsKL and the true ELBO (Monte Carlo on
the exact log density), with the runs' own values and with pooled evaluations (of the runs that kept
their surrogates), beside those of pyvbmc's runs where an archive has more than ten. pyvbmc's
seconds are of `--timed` runs made here and now; without any, what the archive recorded on a shared
machine. The neuronal model is solved by its modes, equal to NEURON to rounding. Results are added
to those of other problems and engines (`--engine native`) in `results/race_engines.json`; with
`--subsets 0` only what is said about single runs.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.archived_runs import archive, passing, plan_of, run_of
from benchmarks.arrays import Array
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS, BenchmarkProblem
from benchmarks.problems.neuronal.log_joint_by_modes import fast
from benchmarks.scoring.metrics import metrics, of_stack
from benchmarks.scoring.true_elbo import covered, true_elbo
from vbstack import Run, load_runs, stack
from vbstack.modes import EngineName, EvaluationsUsed

SIZE = 10
WITHIN = 0.1  # nats: what a run's ELBO should know of itself
MEASURES = ("delta_lml", "mmtv", "gskl", "true_elbo")
NOISY = ("gmm_noisy", "ring_noisy", "multisensory")
DEFAULT = (
    *("gmm", "ring", "gaussian2", "gaussian5", "gaussian10", "rosenbrock2", "rosenbrock4"),
    *("rosenbrock6", "at_a_bound", "student_t", "banana6", "banana10", "multisensory_exact"),
    *("neuronal", "funnel", "two_modes", "plateau", "skewed", "wave", "cross", "vee", "unequal"),
    *("crescent", "lognormal", "contaminated", "split", "hyperbolic", "bent", "skew_normal"),
    "copula",
    *NOISY,
)


def made(name: str, engine: EngineName, indices: range) -> tuple[list[Run], list[float]]:
    """Runs of a problem by an engine, and the processor seconds of each without its evaluations."""
    target, clock = timed(fast(PROBLEMS[name]()))
    problem = target.problem()
    plan = plan_of(problem, engine)
    runs, seconds = [], []
    for index in indices:
        clock.clear()
        begun = time.process_time()
        runs.append(run_of(problem, plan, index))
        seconds.append(time.process_time() - begun - sum(clock))
    return runs, seconds


def timed(target: BenchmarkProblem) -> tuple[BenchmarkProblem, list[float]]:
    """The same problem, and the processor seconds of its evaluations as they are made."""
    clock: list[float] = []

    def log_densities(x: Array) -> Array:
        begun = time.process_time()
        values = target.log_densities(x)
        clock.append(time.process_time() - begun)
        return values

    return replace(target, log_densities=log_densities), clock


def scores(
    target: BenchmarkProblem, runs: list[Run], evaluations: EvaluationsUsed
) -> dict[str, float]:
    """One stack of these runs against the truth; the log evidence is the stack's headline."""
    posterior = stack(runs, evaluations=evaluations)
    elbo = true_elbo(target, posterior) - target.log_evidence
    headline = posterior.evidence.log_evidence
    found = {"delta_lml": abs(headline - target.log_evidence), "true_elbo": elbo}
    if target.reference is not None:
        measured = metrics(of_stack(posterior, headline), target.reference)
        found |= {"mmtv": measured.mmtv, "gskl": measured.gskl}
    return found


def stacks(
    target: BenchmarkProblem, kept: list[Run], subsets: int, evaluations: EvaluationsUsed
) -> dict[str, list[float]]:
    """Median and central 95 % of every score over random subsets of ten runs."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(subsets):
        chosen = rng.choice(len(kept), SIZE, replace=False)
        rows.append(scores(target, [kept[index] for index in chosen], evaluations))
    return {
        name: np.quantile([row[name] for row in rows], [0.5, 0.025, 0.975]).tolist()
        for name in rows[0]
    }


def described(
    target: BenchmarkProblem,
    runs: list[Run],
    seconds: list[float],
    kind: str,
    subsets: int,
) -> dict[str, Any]:
    """Everything that the tables say about the runs of one engine."""
    kept = passing(runs)
    signed = [run.elbo - true_elbo(target, stack([run], weights="naive")) for run in kept]
    errors = np.abs(signed)
    found: dict[str, Any] = {
        "runs": len(runs),
        "passing": len(kept),
        "seconds": float(np.median(seconds)),
        "evaluations": float(np.median([len(r.evaluations.values) for r in runs if r.evaluations])),
        "elbo": float(np.median([run.elbo for run in kept] or [np.nan])) - target.log_evidence,
        "elbo_bias": float(np.median(signed or [np.nan])),
        "elbo_error_90": float(np.quantile(errors if kept else [np.nan], 0.9)),
        "elbo_within": int(sum(error <= WITHIN for error in errors)),
        "covered": float(np.mean([covered(target, run) for run in kept[:10]] or [np.nan])),
        "kind": kind,
    }
    if subsets:
        known = [run for run in kept if run.surrogate is not None]  # some archives are older
        usable: dict[EvaluationsUsed, list[Run]] = {"own": kept, "pooled": known}
        found["stacks"] = {
            way: stacks(target, runs, subsets, way)
            for way, runs in usable.items()
            if len(runs) > SIZE
        }
    return found


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Single runs, then stacks."""
    single, stacked = [], []
    for name, engines in results.items():
        for engine, r in engines.items():
            single.append(
                f"| {name} | {engine} | {r['runs']} ({r['passing']}) | {r['seconds']:.2f} "
                f"| {r['evaluations']:.0f} | {r['elbo']:+.3f} | {_signed(r.get('elbo_bias'))} "
                f"| {r['elbo_error_90']:.3f} "
                f"({r['elbo_within']}) | {r['covered']:.0%} | {r['kind']} |"
            )
            for way, found in r.get("stacks", {}).items():
                cells = " | ".join(_cell(found.get(measure)) for measure in MEASURES)
                stacked.append(f"| {name} | {engine}, {way} | {cells} |")
    return "\n".join(
        [
            "# Native engine and pyvbmc",
            "",
            f"`python -m benchmarks race-engines` on {machine()}. Medians. ELBOs are less the log "
            "evidence; less true: less the true one of the same mixture. Error of a run's ELBO: "
            f"90 % of the runs have less, and in brackets how many are within {WITHIN}, of all "
            f"exact ones that pass {_calibrated(results)}. I_k covered: within "
            "2 √J_kk of the truth, in the first ten runs that pass; the native engine's J holds a "
            "factor for misfit (docs/engine.md). Seconds: native, processor time of the runs made "
            "here; pyvbmc, see the last column.",
            "",
            "| problem | engine | runs (passing) | seconds | evaluations | run's ELBO | less true "
            "| its error | I_k covered | seconds are |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *single,
            "",
            f"Stacks of {SIZE} runs: medians over random subsets, with the central 95 %. Pooled: "
            "`stack(evaluations='pooled')`.",
            "",
            "| problem | runs of, values | ΔLML | MMTV | GsKL | true ELBO |",
            "|---|---|---|---|---|---|",
            *stacked,
            "",
        ]
    )


def _calibrated(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Per engine: in how many exact runs that pass the ELBO is within 0.1 of the true one."""
    found = []
    for engine in ("native", "pyvbmc"):
        rows = [
            engines[engine]
            for name, engines in results.items()
            if engine in engines and name not in NOISY
        ]
        within, passing = (sum(row[key] for row in rows) for key in ("elbo_within", "passing"))
        found.append(f"{within} of {passing} ({engine})")
    return " and ".join(found)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _cell(values: list[float] | None) -> str:
    if values is None:
        return "–"
    middle, low, high = (f"{value:.2g}" for value in values)
    return f"{middle} [{low}, {high}]"


def raced(name: str, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What is measured anew about a problem, by engine."""
    target = fast(PROBLEMS[name]())
    found = {}
    if "native" in arguments.engine:
        runs, seconds = made(name, "native", range(arguments.runs))
        kind = f"processor, {len(seconds)} runs"
        found["native"] = described(target, runs, seconds, kind, arguments.subsets)
    if "pyvbmc" in arguments.engine and archive(name).exists():
        theirs = load_runs(archive(name))[: arguments.runs]
        timed = made(name, "pyvbmc", range(arguments.timed))[1]
        kind = f"processor, {len(timed)} runs"
        if not timed:
            timed = [run.seconds for run in theirs if run.seconds is not None]
            kind = "wall, evaluations included, when archived"
        found["pyvbmc"] = described(target, theirs, timed, kind, arguments.subsets)
    return found


def main(argv: list[str]) -> None:
    parser = options_of("race-engines", __doc__)
    parser.add_argument("--problem", nargs="+", choices=sorted(PROBLEMS), default=DEFAULT)
    parser.add_argument("--engine", nargs="+", default=["native", "pyvbmc"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--subsets", type=int, default=20)
    parser.add_argument("--timed", type=int, default=0, help="pyvbmc runs to time")
    arguments = parser.parse_args(argv)
    path = RESULTS / "race_engines.json"
    for name in arguments.problem:
        found = raced(name, arguments)
        results = json.loads(path.read_text()) if path.exists() else {}
        known = results.get(name, {})
        for engine, r in found.items():
            before = {key: value for key, value in known.get(engine, {}).items() if key != "of"}
            known[engine] = before | r
        results[name] = known
        results = {each: results[each] for each in DEFAULT if each in results}
        path.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "race_engines.md").write_text(table(results))
        print(f"{name}: done", flush=True)
