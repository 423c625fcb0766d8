"""What each heuristic of the native engine is worth: `python -m benchmarks ablation`.

    python -m benchmarks ablation --plans 2 --workers 2
    python -m benchmarks ablation --table

Every switch of `Policy` is turned off, one at a time, on the exact development targets of coverage.
Five runs with the starts and seeds of one plan make a stack; the same plan with the whole engine is
what it is compared with. Rows that are stored are not made again: `results/ablation_<label>.json`,
where the label names the engine; the table is beside them. Stored are `first` and `second`, made
before what showed no gain was removed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import plan_of
from benchmarks.arrays import Array
from benchmarks.coverage import making_runs
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.development_targets import DEVELOPMENT
from benchmarks.coverage.fit_row import FitRow
from benchmarks.coverage.measuring import drawn, measured
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import Run

FIRST_PLAN, RUNS, DRAWS = 3000, 5, 5000
WHOLE = "the engine"
# What is left out, and the options that leave it out.
SWITCHES: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "reach of one's own": {"reach": np.inf},
    "looks": {"looks": 0},
    "looks in calm iterations": {"calm_looks": 0},
    "more than eight looks": {"looks": 8},
    "surprise at 3 nats, not 10": {"surprise": 10.0},
    "budget kept for settling": {"look_reserve": 0},
    "weight of a new mode 0.3, not 0.03": {"climb_share": 0.03},
    "tests of the mixture": {"first_tests": 0, "calm_tests": 0},
    "local search": {"local_search": 0},
    "most candidates": {"candidates": 128},
    "wary warm-up": {"wary": False},
    "Gaussian guess": {"gaussian_guess": False},
    "restart": {"restart": np.inf},
    "growth while exploring": {"growth_limit": 0.0},
    "components where mass is lacking": {"lacking": 2.0},
    "changes of space": {"whitenings": 0},
    "best Gaussian": {"best_gaussian": False},
    "own axes": {"own_axes": False},
    "components added at last": {"final_components": 1},
    "penalty for uncertainty": {"penalty": 0.0},
    "unknown components left out": {"largest_variance": np.inf},
    "finer final fit": {"finer": 1},
    "validation": {"validations": 0},
    "iterations by dimension": {"fun_evals_per_iter": 5, "settled_iterations": 4},
}


def targets() -> dict[str, CoverageTarget]:
    """The development targets without noise, by name."""
    made = [make() for make in DEVELOPMENT]
    return {target.name: target for target in made if target.truth.noise_sd == 0}


def row(name: str, switch: str, plan_number: int) -> dict[str, Any]:
    """The runs of a target without one heuristic, and their stack."""
    target = targets()[name]
    plan = plan_of(target.truth.problem(), "native", FIRST_PLAN + plan_number, "sobol")
    with threadpool_limits(1):
        made = making_runs.of_plan(target.truth, plan, range(RUNS), SWITCHES[switch])
        fit = measured(target, plan_number, made, waves_of=())
        true = [true_elbo_of_run(target, run) for run in made.runs]
    known = [run.elbo for run in made.runs]
    return {
        "target": name,
        "switch": switch,
        "plan": plan_number,
        "evaluations": float(np.mean(fit.evaluations)),
        "seconds": float(np.mean(fit.seconds)),
        "lost by a run": float(np.median(target.truth.log_evidence - np.array(true))),
        "error of a run": float(np.mean(np.minimum(np.abs(np.array(known) - true), 1.0))),
        "lost by the stack": 10.0 if fit.lost_nats is None else fit.lost_nats,
        "mass": fit.mass_found(target.masses),
        "modes of a run": float(np.mean(_found(fit, target))),
        "stacked": fit.stacked,
    }


def _found(fit: FitRow, target: CoverageTarget) -> Array:
    return np.asarray(fit.found_by_runs(target.masses).sum(axis=1))


def true_elbo_of_run(target: CoverageTarget, run: Run) -> float:
    """E_q[log p − log q] of a run's own mixture, by draws."""
    x = drawn(run, DRAWS)
    u = run.transform.forward(x)
    z = (u[:, None] - run.means) / run.sds
    logs = -0.5 * np.square(z).sum(axis=2) - np.log(run.sds).sum(axis=1) + np.log(run.weights)
    log_q = logsumexp(logs, axis=1) - 0.5 * run.dimension * np.log(2 * np.pi)
    log_q -= run.transform.log_jacobian(u)
    return float(np.mean(target.truth.log_densities(x) - log_q))


MEASURES = {  # and how two of them are compared
    "evaluations": "ratio",
    "seconds": "ratio",
    "lost by a run": "difference",
    "error of a run": "difference",
    "lost by the stack": "difference",
    "mass": "difference",
    "modes of a run": "difference",
}


def compared(rows: list[dict[str, Any]], switch: str, measure: str) -> dict[str, Array]:
    """Without the heuristic against with it, plan by plan, for each target."""
    by = {(r["target"], r["plan"], r["switch"]): r[measure] for r in rows}
    found: dict[str, list[float]] = {}
    for (target, plan, name), value in by.items():
        if name == switch and (target, plan, WHOLE) in by:
            whole = by[target, plan, WHOLE]
            ratio = MEASURES[measure] == "ratio"
            found.setdefault(target, []).append(value / whole - 1 if ratio else value - whole)
    return {target: np.array(values) for target, values in found.items()}


def interval(values: dict[str, Array]) -> tuple[float, float, float]:
    """The mean over targets, and 5 and 95 % of it when targets and plans are drawn again."""
    rng = np.random.default_rng(0)
    tables = list(values.values())
    means = []
    for _ in range(1000):
        again = [tables[k] for k in rng.integers(len(tables), size=len(tables))]
        means.append(np.mean([rng.choice(t, t.size).mean() for t in again]))
    low, high = np.quantile(means, [0.05, 0.95])
    return float(np.mean([t.mean() for t in tables])), float(low), float(high)


def change_text(measure: str, values: dict[str, Array]) -> str:
    """The mean change and its interval, as a cell of a table."""
    middle, low, high = interval(values)
    if MEASURES[measure] == "ratio":
        return f"{middle:+.1%} [{low:+.1%}, {high:+.1%}]"
    return f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]"


def table(rows: list[dict[str, Any]]) -> str:
    names = sorted({r["target"] for r in rows})
    plans = len({r["plan"] for r in rows})
    lines = [
        "# What each heuristic of the native engine is worth",
        "",
        f"`python -m benchmarks ablation` on {machine()}. Each row leaves out one heuristic: "
        f"change against the whole engine, mean over {len(names)} development targets and "
        f"{plans} plans of {RUNS} runs, and [5, 95 %] when targets and plans are drawn again. "
        "Lost: log evidence less true ELBO, in nats (more is worse). Error: of a run's own ELBO, "
        "at most 1 nat. Worst: the target whose stack loses most by leaving it out.",
        "",
        f"Targets: {', '.join(names)}.",
        "",
        "| without | evaluations | seconds | lost by a run | error of a run | lost by the stack "
        "| mass found | modes of a run | worst |",
        "|" + "---|" * 9,
    ]
    for switch in dict.fromkeys(r["switch"] for r in rows):
        if switch == WHOLE:
            continue
        cells = [change_text(measure, compared(rows, switch, measure)) for measure in MEASURES]
        stack = compared(rows, switch, "lost by the stack")
        worst = max(stack, key=lambda name: stack[name].mean())
        lines.append(f"| {switch} | {' | '.join(cells)} | {worst} {stack[worst].mean():+.3f} |")
    lines += ["", "## The whole engine", "", "| target | " + " | ".join(MEASURES) + " |"]
    lines.append("|" + "---|" * (len(MEASURES) + 1))
    for name in names:
        own = [r for r in rows if r["target"] == name and r["switch"] == WHOLE]
        means = [f"{np.mean([r[measure] for r in own]):.3g}" for measure in MEASURES]
        lines.append(f"| {name} | {' | '.join(means)} |")
    return "\n".join([*lines, ""])


def missing(
    rows: list[dict[str, Any]], plans: int, switches: list[str], names: list[str]
) -> Iterator[tuple[str, str, int]]:
    """Target, switch and plan of every row that is not there yet."""
    there = {(r["target"], r["switch"], r["plan"]) for r in rows}
    for plan in range(plans):
        for switch in switches:
            for name in names:
                if (name, switch, plan) not in there:
                    yield name, switch, plan


def main(argv: list[str]) -> None:
    parser = options_of("ablation", __doc__)
    parser.add_argument("--label", default="present", help="of the engine; its rows are kept apart")
    parser.add_argument("--plans", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--target", nargs="+", choices=list(targets()), default=list(targets()))
    parser.add_argument("--switch", nargs="+", choices=list(SWITCHES), default=list(SWITCHES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="make no rows")
    arguments = parser.parse_args(argv)
    path = arguments.results / f"ablation_{arguments.label}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    if not arguments.table:
        todo = list(missing(rows, arguments.plans, arguments.switch, arguments.target))
        begun = time.monotonic()
        with ProcessPoolExecutor(arguments.workers) as pool:
            for done, future in enumerate(as_completed([pool.submit(row, *t) for t in todo]), 1):
                rows.append(future.result())
                path.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
                if done % 10 == 0:
                    spent = time.monotonic() - begun
                    print(f"{done} of {len(todo)} after {spent:.0f} s", flush=True)
    path.with_suffix(".md").write_text(table(rows), encoding="utf-8")
