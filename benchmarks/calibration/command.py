"""Do the stated errors of the log evidence cover? `python -m benchmarks calibration`

    python -m benchmarks calibration --seeds 10 --keep FOLDER
    python -m benchmarks calibration --table            # only the table, from the stored rows

Every target of the race of the engines and of coverage: the ten native runs of plan 1000 + s for
each seed s, as `python -m benchmarks coverage` makes them, and its first four runs. Each stack by
own values, by pooled evaluations, and verified (`verify(n="auto")`). Of noisy problems the archived
pyvbmc runs, in disjoint subsets and then random ones. Rows that are there are not made again.

The numbers in `stacking/evidence.py` and `stacking/verification.py` were chosen with the
development targets of coverage; all others are reported only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import converged_runs
from benchmarks.calibration.measuring import METHODS, Row, Stated, measured
from benchmarks.coverage.making_runs import native, subset, subsets_of
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS, BenchmarkProblem
from benchmarks.races.race_engines import DEFAULT, NOISY
from vbstack import Run, TooFewRuns
from vbstack.runs.atomic import replacing

ROWS = "calibration"  # their folder among the results
SIZES = (10, 4)
GROUPS = ("development", "report", "noisy")


def targets() -> dict[str, str]:
    """The group of every target, by its name."""
    found = {name: "report" for name in DEFAULT if name not in NOISY}
    for name, make in TARGETS.items():
        target = make()
        if target.truth.noise_sd == 0:
            found[name] = "development" if target.role == "development" else "report"
    return {**found, **dict.fromkeys(NOISY, "noisy")}


def truth_of(name: str) -> BenchmarkProblem:
    return TARGETS[name]().truth if name in TARGETS else PROBLEMS[name]()


def stored(name: str, folder: Path) -> list[Row]:
    """The rows of a target, in the order of their seeds."""
    path = folder / f"{name}.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [
        Row(**{**row, "stated": {m: Stated(**s) for m, s in row["stated"].items()}}) for row in rows
    ]


def add_rows(name: str, seeds: int, folder: Path, keep: Path | None) -> None:
    """Make the missing rows of a target."""
    rows, truth = stored(name, folder), truth_of(name)
    there = {(row.seed, row.runs) for row in rows}
    for seed, size, runs in _fits(name, truth, seeds, there, keep):
        begun = time.monotonic()
        try:
            row = measured(truth, runs, seed)
        except TooFewRuns as error:
            print(f"{name}, seed {seed}, {size} runs: {error}", flush=True)
            continue
        rows.append(row)
        rows.sort(key=lambda one: (one.seed, -one.runs))
        _write(folder / f"{name}.json", rows)
        text = ", ".join(f"{m} {s.log_evidence:+.3f} ± {s.sd:.3f}" for m, s in row.stated.items())
        print(f"{name} seed {seed}, {size} runs: {text}, {time.monotonic() - begun:.0f} s")


def _fits(
    name: str,
    truth: BenchmarkProblem,
    seeds: int,
    there: set[tuple[int, int]],
    keep: Path | None,
) -> list[tuple[int, int, list[Run]]]:
    """Seed, size and runs of the stacks that have no row yet, a seed at a time."""
    found = []
    for seed in range(seeds):
        missing = [size for size in SIZES if (seed, size) not in there]
        if not missing:
            continue
        if name in NOISY:
            pool = converged_runs(name)
            if seed >= subsets_of(len(pool), SIZES[0], seeds):
                continue
            runs = [pool[place] for place in subset(len(pool), seed, SIZES[0])]
        else:
            runs = native(truth, seed, SIZES[0], {}, keep).runs
        found += [(seed, size, runs[:size]) for size in missing]
    return found


def _write(path: Path, rows: Sequence[Row]) -> None:
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, overwrite=True, durable=False) as file:
        file.write(f"[\n{lines}\n]\n".encode())


def table(found: dict[str, list[Row]]) -> str:
    """All targets, and each group together."""
    groups = targets()
    lines = [
        "# Do the stated errors of the log evidence cover?",
        "",
        f"`python -m benchmarks calibration` on {machine()}. Errors of the log evidence in nats, "
        "and the share of fits in which they are within one and two stated standard deviations. "
        "Fits whose stack lacks a mode or a tail (2 % of the posterior's draws where it has less "
        "than e⁻³ of the density) are counted apart: no estimate can know of them. Seeds of a "
        "target are different runs; the stack of four is made of the first four of the ten.",
    ]
    for size in SIZES:
        lines += ["", f"## Stacks of {size} runs", "", *_head()]
        for group in GROUPS:
            names = [name for name in found if groups.get(name) == group]
            rows = {name: [r for r in found[name] if r.runs == size] for name in names}
            lines += [_line(name, own) for name, own in rows.items() if own]
            lines += _together(f"**{group}**", [r for own in rows.values() for r in own])
        exact = [r for n, own in found.items() if groups.get(n) != "noisy" for r in own]
        lines += _together("**exact, all**", [r for r in exact if r.runs == size])
    return "\n".join(lines) + "\n"


def _head() -> list[str]:
    names = ["target", "fits (incomplete)"]
    for method in METHODS:
        names += [f"{method}: rms error", "median sd", "within 1 sd", "2 sd"]
    names += ["ELBO within 2 sd: pooled", "verified", "evaluations more", "passed"]
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def _line(name: str, rows: Sequence[Row]) -> str:
    whole = [row for row in rows if row.complete]
    cells = [name, f"{len(rows)} ({len(rows) - len(whole)})"]
    for method in METHODS:
        cells += _cells([row.stated[method] for row in whole])
    for method in ("pooled", "verified"):
        cells.append(_share([abs(s.elbo) <= 2 * s.elbo_sd for s in _of(whole, method)]))
    cells.append(f"{np.median([row.further / row.evaluations for row in rows]):.0%}")
    cells.append(_share([row.passed for row in rows]))
    return "| " + " | ".join(cells) + " |"


def _together(name: str, rows: Sequence[Row]) -> list[str]:
    return [_line(name, rows)] if rows else []


def _of(rows: Sequence[Row], method: str) -> list[Stated]:
    return [row.stated[method] for row in rows]


def _cells(found: Sequence[Stated]) -> list[str]:
    if not found:
        return ["–"] * 4
    errors = np.array([s.log_evidence for s in found])
    sds = np.array([s.sd for s in found])
    within = [_share((np.abs(errors) <= k * sds).tolist()) for k in (1, 2)]
    return [f"{np.sqrt(np.mean(errors**2)):.3f}", f"{np.median(sds):.3f}", *within]


def _share(hits: Sequence[bool]) -> str:
    return f"{np.mean(hits):.0%}" if len(hits) else "–"


def main(argv: list[str]) -> None:
    parser = options_of("calibration", __doc__)
    parser.add_argument("--target", nargs="+", choices=sorted(targets()), default=list(targets()))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="folder of the native runs, made or read")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="make no rows")
    arguments = parser.parse_args(argv)
    folder = arguments.results / ROWS
    if not arguments.table:
        with threadpool_limits(1):
            for name in arguments.target:
                add_rows(name, arguments.seeds, folder, arguments.keep)
    found = {name: stored(name, folder) for name in targets()}
    text = table({name: rows for name, rows in found.items() if rows})
    (arguments.results / "calibration.md").write_text(text, encoding="utf-8")
