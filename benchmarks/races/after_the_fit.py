"""What a user waits for after a fit: `python -m benchmarks after-the-fit`.

Wall seconds of `diagnostics` of a stack of twenty runs and of the HTML report of a stack of ten,
medians over repetitions; the first of each in a process, imports included, is not counted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.archived_runs import converged_runs
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import diagnostics, stack


def seconds(work: Callable[[], object], repetitions: int) -> float:
    """Median wall time of `work`, after a first time that does not count."""
    work()
    taken = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


def row(problem: str, repetitions: int) -> str:
    twenty, ten = (stack(converged_runs(problem)[:count]) for count in (20, 10))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        reported = seconds(lambda: ten.report(page, overwrite=True), repetitions)
        size = page.stat().st_size / 1e6
    diagnosed = seconds(lambda: diagnostics(twenty), repetitions)
    return f"| {problem} | {diagnosed:.2f} | {reported:.2f} | {size:.2f} |"


def main(argv: list[str]) -> None:
    parser = options_of("after-the-fit", __doc__)
    parser.add_argument("--problem", nargs="+", default=["gmm", "ring", "gmm_noisy"])
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args(argv)
    lines = [
        f"Made by `python -m benchmarks after-the-fit` on {machine()}.",
        "",
        "| problem | `diagnostics` of 20 runs, s | report of 10 runs, s | its size, MB |",
        "|---|---|---|---|",
    ]
    for problem in arguments.problem:
        lines.append(row(problem, arguments.repetitions))
        print(lines[-1], flush=True)
    (RESULTS / "after_the_fit.md").write_text("\n".join(lines) + "\n")
