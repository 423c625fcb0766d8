"""Why noisy runs overrate themselves: `python -m benchmarks noisy-bias`.

Runs of the native engine that differ in one thing only, where they evaluate: where an acquisition
function is highest, at draws of a flattened surrogate, at draws of the mixture itself, or at some
of each, as the engine does. All have the median number of evaluations of the archived pyvbmc runs.
Per way: the runs' ELBO less the true ELBO of the same mixture, and how far that is below the log
evidence; beside them pyvbmc's. Seeds are other than those of the race. Six minutes; writes
`results/noisy_bias.md`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.archived_runs import archive, passing, plan_of, run_of
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS, BenchmarkProblem
from benchmarks.scoring.true_elbo import true_elbo
from vbstack import Run, Screen, load_runs, stack
from vbstack.engines.native import loop
from vbstack.engines.native.acquisition import Way, flattened_draw, mixture_draw, most_promising
from vbstack.engines.native.policy import Policy

SEED, RUNS = 77, 20
WAYS: dict[str, list[Way]] = {
    "acquisition function": [most_promising] * 5,
    "draws of a flattened surrogate": [flattened_draw] * 5,
    "draws of the mixture": [mixture_draw] * 5,
    "two and two, and an exploratory one: the engine": list(
        loop._ways(PROBLEMS["gmm_noisy"]().problem(), [], 5, Policy.of({}, 2, noisy=True))
    ),
}


def runs(target: BenchmarkProblem, ways: Sequence[Way], evaluations: int) -> list[Run]:
    """Runs that choose their evaluations in these ways, one after the other."""
    problem = target.problem()
    plan = plan_of(problem, "native", SEED)
    options = {"max_fun_evals": evaluations, "settled_iterations": 1000}
    with mock.patch.object(loop, "_ways", lambda *arguments: ways[: arguments[2]]):
        return [run_of(problem, plan, index, **options) for index in range(RUNS)]


def described(target: BenchmarkProblem, found: list[Run]) -> dict[str, Any]:
    """Median, mean and spread of the bias, and the median true ELBO."""
    anything = Screen(require_converged=False, max_variance=np.inf)
    true = [true_elbo(target, stack([r], weights="naive", screen=anything)) for r in found]
    bias = np.array([run.elbo for run in found]) - true
    return {
        "runs": len(found),
        "bias": [float(np.median(bias)), float(bias.mean()), float(bias.std())],
        "true_elbo": float(np.median(true)) - target.log_evidence,
    }


def table(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = [
        "# What a noisy run overrates",
        "",
        f"`python -m benchmarks noisy-bias` on {machine()}. Noise of 3 nats. ELBO of a run less "
        "the true one of its mixture: median, mean, standard deviation over runs.",
        "",
        "| problem | evaluations at | runs | median | mean | sd | true ELBO − log evidence |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, ways in results.items():
        for way, r in ways.items():
            bias = " | ".join(f"{value:+.2f}" for value in r["bias"][:2])
            lines.append(
                f"| {name} | {way} | {r['runs']} | {bias} | {r['bias'][2]:.2f} "
                f"| {r['true_elbo']:+.2f} |"
            )
    return "\n".join([*lines, ""])


def main(argv: list[str]) -> None:
    options_of("noisy-bias", __doc__).parse_args(argv)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("gmm_noisy", "ring_noisy"):
        target, theirs = PROBLEMS[name](), passing(load_runs(archive(name)))
        counts = [len(run.evaluations.values) for run in theirs if run.evaluations]
        results[name] = {
            way: described(target, runs(target, ways, int(np.median(counts))))
            for way, ways in WAYS.items()
        }
        results[name]["pyvbmc's runs"] = described(target, theirs)
        print(f"{name}: done", flush=True)
    (RESULTS / "noisy_bias.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "noisy_bias.md").write_text(table(results))
