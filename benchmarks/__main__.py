"""The paper's experiments: `python -m benchmarks run|stack|baselines|tables|figures|paper|all`.

`paper` is everything that follows from the archives: stack, tables and figures, with the stored
baselines; `all` makes the baselines again too (but for the neuronal one, which takes long). `run`
makes or extends the archives themselves (hours), `runtime` measures seconds, and `peers` stacks ten
runs with pyvbmc's SVBMC, in an environment with torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import protocol, studies
from benchmarks.baselines import REPEATS
from benchmarks.figures import write_figures
from benchmarks.make_runs import ARCHIVES, extend
from benchmarks.problems import benchmark_of
from benchmarks.tables import write_tables
from vbstack.runs.store import RunStore

RUNTIME_SUBSETS = 5


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    steps = ("run", "stack", "baselines", "peers", "runtime", "tables", "figures", "paper", "all")
    parser.add_argument("step", choices=steps)
    parser.add_argument("--problem", choices=studies.PROBLEMS, action="append")
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
    parser.add_argument("--out", type=Path, default=studies.RESULTS)
    arguments = parser.parse_args()
    elsewhere = arguments.archives != ARCHIVES and arguments.out != studies.RESULTS
    if arguments.data is not None and not (elsewhere and len(arguments.problem or ()) == 1):
        parser.error("--data needs one --problem, and --archives and --out of its own")
    return arguments


def main() -> None:
    a = parsed()
    names = a.problem or list(studies.PROBLEMS)
    if a.step == "run":
        for name in names:
            target = benchmark_of(name, a.data).problem()
            store, path = RunStore(a.archives / "stores" / name), a.archives / f"{name}.npz"
            extend(target, a.runs or 100, 10, a.workers, store, path)
        return
    cases = studies.available(names, a.archives, a.data)
    for name in sorted(set(names) - {case.problem for case in cases}):
        print(f"{name}: left out, it has no archive in {a.archives} or no reference", flush=True)
    if not cases:
        raise SystemExit("nothing to do: make runs first, with python -m benchmarks run")
    sizes = [size for size in a.sizes if a.runs is None or size <= a.runs]
    for case in cases:
        if a.step in ("stack", "paper", "all"):
            print(studies.stack_study(case, a.out, a.workers, sizes, a.subsets), flush=True)
        wanted = a.step == "all" and case.problem not in studies.STORED_ONLY
        if a.step == "baselines" or wanted:
            print(studies.baseline_study(case, a.out, a.workers, a.repeats, a.limit), flush=True)
        if a.step == "peers":
            print(studies.peer_study(case, a.out, min(a.subsets, protocol.ADAM_SUBSETS)))
    if a.step == "runtime":
        print(studies.runtime_study(cases, a.out, sizes, RUNTIME_SUBSETS))
    if a.step in ("tables", "paper", "all"):
        print(write_tables(a.out))
    if a.step in ("figures", "paper", "all"):
        for path in write_figures(a.out, cases):
            print(path)


if __name__ == "__main__":
    main()
