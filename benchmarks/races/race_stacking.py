"""Race the stacking: vbstack against pyvbmc.SVBMC and svbmc.SVBMC on the same runs.

`make bench`, or `python -m benchmarks race-stacking [--problem gmm ring] [--sizes 5 10 20 40]`, in
an environment that has torch, pyvbmc and svbmc. Everything is timed in one process with one thread,
one after the other, on the same archived runs; vbstack's time is the median of five. Each
competitor's weights are then scored by the same fresh draws, 200 per component, with our unbiased
estimator; differences have the standard error of common draws. Peak memory is what the process
needed on top of what it held before; vbstack's is taken in a fresh process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import converged_runs
from benchmarks.baselines.peers import pyvbmc_svbmc, svbmc_svbmc
from benchmarks.folders import RESULTS
from benchmarks.machine import PeakMemory, machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from vbstack import Mixture, Run, stack
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.mixture import own_log_joints

SCORING_DRAWS = 200
REPEATS = 5


def ours(runs: list[Run]) -> dict[str, Any]:
    posterior = stack(runs, evaluations="own", caution=0.0)  # what the peers stack, and maximise
    return {"weights": posterior.weights, "gap": posterior.solution.gap}


COMPETITORS: dict[str, Callable[[list[Run]], dict[str, Any]]] = {
    "vbstack": ours,
    "pyvbmc 1.5.0": pyvbmc_svbmc,
    "svbmc 0.1.2": svbmc_svbmc,
}


def timed(
    competitor: Callable[[list[Run]], dict[str, Any]], runs: list[Run], repeats: int
) -> dict[str, Any]:
    """The competitor's answer with its median time and peak extra memory."""
    seconds, megabytes = [], []
    for _ in range(repeats):
        with PeakMemory() as memory:
            begun = time.perf_counter()
            answer = competitor(runs)
            seconds.append(time.perf_counter() - begun)
        megabytes.append(memory.megabytes)
    return {**answer, "seconds": float(np.median(seconds)), "megabytes": max(megabytes)}


def memory_of_ours(problem: str, size: int) -> float:
    """Peak extra memory of `stack` in a fresh process: here freed memory would hide the need."""
    runs = converged_runs(problem)[:size]
    ours(runs[:2])
    with PeakMemory() as memory:
        ours(runs)
    return memory.megabytes


def race(problem: str, size: int, slow: bool) -> list[dict[str, Any]]:
    """One row per competitor: seconds, ratio, memory, ELBO on common fresh draws, gap."""
    runs = converged_runs(problem)[:size]
    # Imports and first-call costs are nobody's race.
    ours(runs[:2])
    results = {}
    for name, competitor in COMPETITORS.items():
        if name.startswith("svbmc") and not slow:
            continue
        results[name] = timed(competitor, runs, REPEATS if name == "vbstack" else 1)
    with get_context("spawn").Pool(1) as pool:
        results["vbstack"]["megabytes"] = pool.apply(memory_of_ours, (problem, size))
    mixture = Mixture.from_runs(runs)
    scores = fresh_elbos(
        mixture,
        own_log_joints(runs),
        [answer["weights"] / answer["weights"].sum() for answer in results.values()],
        SCORING_DRAWS,
        np.random.default_rng(12345),
    )
    fastest = results["vbstack"]["seconds"]
    return [
        {
            "problem": problem,
            "runs": len(runs),
            "competitor": name,
            "seconds": answer["seconds"],
            "ratio": answer["seconds"] / fastest,
            "megabytes": answer["megabytes"],
            "elbo": float(scores.values[i]),
            "elbo_se": scores.standard_error(i),
            "elbo_below_vbstack": float(scores.values[0] - scores.values[i]),
            "difference_se": scores.standard_error(0, i),
            "gap": answer.get("gap"),
            "log_evidence": PROBLEMS[problem]().log_evidence,
        }
        for i, (name, answer) in enumerate(results.items())
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| problem | runs | stacking by | seconds | slower than vbstack | peak extra MB | "
        "ELBO on common draws | below vbstack | certified gap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gap = "–" if row["gap"] is None else f"{row['gap']:.4f}"
        lines.append(
            f"| {row['problem']} | {row['runs']} | {row['competitor']} | {row['seconds']:.3f} | "
            f"{row['ratio']:.0f}× | {row['megabytes']:.0f} | "
            f"{row['elbo']:.4f} ± {row['elbo_se']:.4f} | "
            f"{row['elbo_below_vbstack']:+.4f} ± {row['difference_se']:.4f} | {gap} |"
        )
    return "\n".join(lines)


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds and ELBO against the number of runs, one column per problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    problems = list(dict.fromkeys(row["problem"] for row in rows))
    styles = {"vbstack": ("#0072B2", "o"), "pyvbmc 1.5.0": ("#D55E00", "s")}
    styles["svbmc 0.1.2"] = ("#009E73", "^")
    fig, axes = plt.subplots(
        2, len(problems), figsize=(4.2 * len(problems), 6.4), squeeze=False, sharex="col"
    )
    for column, problem in enumerate(problems):
        for name, (colour, marker) in styles.items():
            mine = [r for r in rows if r["problem"] == problem and r["competitor"] == name]
            sizes = [r["runs"] for r in mine]
            axes[0, column].loglog(
                sizes, [r["seconds"] for r in mine], color=colour, marker=marker, label=name
            )
            axes[1, column].errorbar(
                sizes, [r["elbo"] for r in mine], [2 * r["elbo_se"] for r in mine],
                color=colour, marker=marker, label=name,
            )  # fmt: skip
        evidence = PROBLEMS[problem]().log_evidence
        axes[1, column].axhline(evidence, color="0.4", ls="--", label="true log evidence")
        axes[0, column].set(title=problem, ylabel="time to stack (s)")
        axes[1, column].set(xlabel="number of runs M", ylabel="ELBO on common draws (nats)")
        axes[1, column].set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        axes[1, column].minorticks_off()
        for ax in axes[:, column]:
            ax.grid(alpha=0.25)
    axes[0, 0].legend(frameon=False)
    axes[1, -1].legend(frameon=False, fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=130)


def main(argv: list[str]) -> None:
    parser = options_of("race-stacking", __doc__)
    parser.add_argument("--problem", nargs="+", default=["gmm", "ring", "gmm_noisy"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[5, 10, 20, 40])
    parser.add_argument("--svbmc-up-to", type=int, default=10, help="svbmc is skipped above this M")
    arguments = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1):
        _one_torch_thread()
        for problem in arguments.problem:
            available = len(converged_runs(problem))
            for size in arguments.sizes:
                if size <= available:
                    rows += race(problem, size, slow=size <= arguments.svbmc_up_to)
                    print(table(rows[-3:]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "race_stacking.json").write_text(
        json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n"
    )
    text = f"Made by `python -m benchmarks race-stacking` on {machine()}.\n\n{table(rows)}\n"
    (RESULTS / "race_stacking.md").write_text(text)
    figure(rows, RESULTS / "race_stacking.png")
    print(text)


def _one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)
