"""Does a verification notice a stack that is wrong? `python -m benchmarks tampered --keep FOLDER`

Stacks of four native runs of four held-out targets, ten seeds each, are spoilt on purpose: the
heaviest component is moved by two standard deviations of the stack along one parameter, or the
heaviest mode gets twice its weight. They say of themselves what they said before. One round of
verification with 50 draws then has to find a fault. Beside it: how often it finds one in stacks
that nobody touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.making_runs import native
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import StackedPosterior, stack, verify

CHOSEN = ("shoulder3", "quartet3", "uneven4", "beads2")
DRAWS, RUNS = 50, 4
SPREADS = 2.0  # standard deviations of the stack by which a component is moved

Spoil = Callable[[CoverageTarget, StackedPosterior, int], StackedPosterior]


def moved(target: CoverageTarget, posterior: StackedPosterior, seed: int) -> StackedPosterior:
    """The stack with its heaviest component somewhere else."""
    axis = seed % posterior.dimension
    link = posterior.mixture.links[0]
    spread = link.forward(posterior.sample(4000, seed=seed)).std(axis=0)
    centres = posterior.mixture.centres.copy()
    centres[np.argmax(posterior.weights), axis] += SPREADS * spread[axis]
    return replace(posterior, mixture=replace(posterior.mixture, centres=centres))


def doubled(target: CoverageTarget, posterior: StackedPosterior, seed: int) -> StackedPosterior:
    """The stack whose heaviest mode has twice the weight of the others."""
    mode = target.cell(posterior.components.centres)
    heaviest = np.argmax(np.bincount(mode, posterior.weights))
    weights = posterior.weights * np.where(mode == heaviest, 2.0, 1.0)
    solution = replace(posterior.solution, weights=weights / weights.sum())
    return replace(posterior, solution=solution)


def untouched(target: CoverageTarget, posterior: StackedPosterior, seed: int) -> StackedPosterior:
    return posterior


WAYS: dict[str, Spoil] = {
    "a component moved": moved,
    "a mode's weight doubled": doubled,
    "untouched": untouched,
}


def found_faulty(target: CoverageTarget, way: Spoil, seed: int, keep: Path | None) -> bool:
    """Whether the verification says that this stack is wrong."""
    posterior = stack(native(target.truth, seed, 10, {}, keep).runs[:RUNS])
    spoilt = way(target, posterior, seed)
    problem = target.truth.problem()
    found = verify(spoilt, problem, DRAWS, rounds=1, executor="here", seed=seed, progress=False)
    print(f"  {target.name} {way.__name__} seed {seed}: {found.verdict}", flush=True)
    return not found.passed


def main(argv: list[str]) -> None:
    parser = options_of("tampered", __doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="folder of the native runs, made or read")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args(argv)
    lines = [
        "# Does a verification notice a stack that is wrong?",
        "",
        f"`python -m benchmarks tampered` on {machine()}. Stacks of {RUNS} runs called not "
        f"verified in one round with {DRAWS} draws.",
        "",
        "| the stack | " + " | ".join(CHOSEN) + " | all |",
        "|---|" + "---|" * (len(CHOSEN) + 1),
    ]
    for name, way in WAYS.items():
        with threadpool_limits(1):
            counts = [
                sum(
                    found_faulty(TARGETS[target](), way, seed, arguments.keep)
                    for seed in range(arguments.seeds)
                )
                for target in CHOSEN
            ]
        cells = [f"{count} of {arguments.seeds}" for count in counts]
        total = f"{sum(counts)} of {arguments.seeds * len(CHOSEN)}"
        lines.append(f"| {name} | " + " | ".join([*cells, total]) + " |")
        print(lines[-1], flush=True)
    path = arguments.results / "tampered.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
