"""The paper's experiments, one step at a time or together.

`run` makes or extends the archives (hours). `stack` stacks subsets of the archived runs and scores
them, `baselines` scores what starts from nothing, `peers` stacks ten runs with pyvbmc's SVBMC (in
an environment with torch), and `runtime` measures seconds. `tables` and `figures` show what is
stored. `paper` is everything that follows from the archives: stack, tables and figures, with the
stored baselines; `all` makes the baselines again too, but for the neuronal ones, which take hours.
All steps have the same options and read those that concern them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.archived_runs import extend
from benchmarks.folders import ARCHIVES
from benchmarks.options import options_of
from benchmarks.paper import experiments, protocol
from benchmarks.paper.baseline_rows import REPEATS
from benchmarks.paper.experiments import PAPER_PROBLEMS, PAPER_RESULTS
from benchmarks.paper.figures import write_figures
from benchmarks.paper.tables import write_tables
from benchmarks.problems import benchmark_of
from vbstack.runs.store import RunStore

RUNTIME_SUBSETS = 5


def parsed(step: str, argv: list[str]) -> argparse.Namespace:
    parser = options_of(step, __doc__)
    parser.add_argument("--problem", choices=PAPER_PROBLEMS, action="append")
    parser.add_argument("--runs", type=int, help="run: how many; stack: at most this M")
    parser.add_argument("--subsets", type=int, default=protocol.SUBSETS)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each baseline")
    parser.add_argument("--limit", type=int, help="evaluations of BBVI, instead of the paper's")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(protocol.SIZES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--archives", type=Path, default=ARCHIVES, help="folder of the archives")
    parser.add_argument(
        "--data", type=Path, help="a real session or cell, for --problem of that kind"
    )
    parser.add_argument("--out", type=Path, default=PAPER_RESULTS, help="folder of the results")
    arguments = parser.parse_args(argv)
    elsewhere = arguments.archives != ARCHIVES and arguments.out != PAPER_RESULTS
    if arguments.data is not None and not (elsewhere and len(arguments.problem or ()) == 1):
        parser.error("--data needs one --problem, and --archives and --out of its own")
    return arguments


def main(argv: list[str]) -> None:
    """Do the step that `argv` begins with, with the options that follow."""
    step, a = argv[0], parsed(argv[0], argv[1:])
    names = a.problem or list(PAPER_PROBLEMS)
    if step == "run":
        for name in names:
            target = benchmark_of(name, a.data).problem()
            store, path = RunStore(a.archives / "stores" / name), a.archives / f"{name}.npz"
            extend(target, a.runs or 100, 10, a.workers, store, path)
        return
    cases = experiments.available(names, a.archives, a.data)
    for name in sorted(set(names) - {case.problem for case in cases}):
        print(f"{name}: left out, it has no archive in {a.archives} or no reference", flush=True)
    if not cases:
        raise SystemExit("nothing to do: make runs first, with python -m benchmarks run")
    sizes = [size for size in a.sizes if a.runs is None or size <= a.runs]
    for case in cases:
        if step in ("stack", "paper", "all"):
            print(experiments.stack_study(case, a.out, a.workers, sizes, a.subsets), flush=True)
        wanted = step == "all" and case.problem not in experiments.STORED_ONLY
        if step == "baselines" or wanted:
            print(
                experiments.baseline_study(case, a.out, a.workers, a.repeats, a.limit), flush=True
            )
        if step == "peers":
            print(experiments.peer_study(case, a.out, min(a.subsets, protocol.ADAM_SUBSETS)))
    if step == "runtime":
        print(experiments.runtime_study(cases, a.out, sizes, RUNTIME_SUBSETS))
    if step in ("tables", "paper", "all"):
        print(write_tables(a.out))
    if step in ("figures", "paper", "all"):
        for path in write_figures(a.out, cases):
            print(path)
