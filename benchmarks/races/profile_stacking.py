"""Where the time of a stack goes: `python -m benchmarks profile-stacking`.

Wall time of the phases of `stack`, measured around the functions that do the work; the medians of
seven stacks with different seeds, one thread. Phases do not overlap.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import converged_runs
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import stack
from vbstack.stacking import solver, weights
from vbstack.stacking.sample_problem import Sample

PHASES = {
    "draws and component densities": (Sample, "draw"),
    "gradients": (solver, "_evaluate"),
    "bound (linear programme)": (solver, "bound"),
    "fresh draws": (weights, "fresh_elbos"),
    "bracket": (weights, "bracket"),
}


def timed(function: Callable[..., Any], phase: str, clock: dict[str, float]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            clock[phase] += time.perf_counter() - begun

    return wrapper


def profile(problem: str, size: int) -> dict[str, float]:
    """Median seconds of each phase, and of the whole."""
    runs = converged_runs(problem)[:size]
    stack(runs[:2], evaluations="own")
    clocks = []
    for seed in range(7):
        clock: dict[str, float] = defaultdict(float)
        originals = {phase: getattr(*place) for phase, place in PHASES.items()}
        for phase, (owner, name) in PHASES.items():
            setattr(owner, name, timed(originals[phase], phase, clock))
        begun = time.perf_counter()
        stack(runs, evaluations="own", seed=seed)
        clock["whole"] = time.perf_counter() - begun
        for phase, (owner, name) in PHASES.items():
            setattr(owner, name, originals[phase])
        clocks.append(clock)
    return {phase: float(np.median([c[phase] for c in clocks])) for phase in [*PHASES, "whole"]}


def main(argv: list[str]) -> None:
    parser = options_of("profile-stacking", __doc__)
    parser.add_argument("--problem", nargs="+", default=["gmm", "ring"])
    parser.add_argument("--runs", nargs="+", type=int, default=[10, 40])
    arguments = parser.parse_args(argv)
    with threadpool_limits(1):
        columns = {
            f"{p}, {m} runs": profile(p, m) for p in arguments.problem for m in arguments.runs
        }
    lines = [
        f"Made by `python -m benchmarks profile-stacking` on {machine()}. Seconds.",
        "",
        f"| phase | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for phase in [*PHASES, "whole"]:
        cells = " | ".join(f"{column[phase]:.3f}" for column in columns.values())
        lines.append(f"| {phase} | {cells} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "profile_stacking.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
