"""How many runs are enough? `python -m benchmarks enough-runs [--subsets 20]`

Random subsets of the archived GMM and ring runs are stacked. What each stack misses is known here:
log evidence − E_q[log p − log q], with the true log density at 20,000 draws. Rules that see the
runs alone say whether they are enough; a rule is wrong when it says so and more than 0.1 nats are
missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import converged_runs
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.true_elbo import true_elbo
from vbstack import stack
from vbstack.analysis.diagnosis import diagnostics
from vbstack.analysis.enough import FEWEST_WITHOUT_LOOKS as FEWEST
from vbstack.analysis.enough import TOLERANCE

SIZES = (3, 5, 7, 10, 15, 20)
TOO_MUCH = 0.1  # nats missing


@dataclass(frozen=True)
class Trial:
    """One subset: what it misses, and what its diagnostics say."""

    problem: str
    runs: int
    missing: float
    mean_gain: float
    largest_gain: float
    single_run_mass: float
    enough: bool
    seconds: float


RULES: dict[str, Callable[[Trial], bool]] = {
    "mean gain < 0.05": lambda t: t.mean_gain < 0.05,
    "largest gain < 0.05": lambda t: t.largest_gain < 0.05,
    "largest gain < 0.02": lambda t: t.largest_gain < 0.02,
    "largest gain and single-run mass < 0.05": lambda t: (
        max(t.largest_gain, t.single_run_mass) < 0.05
    ),
    f"largest gain and single-run mass < {TOLERANCE:g}": lambda t: (
        max(t.largest_gain, t.single_run_mass) < TOLERANCE
    ),
    f"`enough`: gain and missing mass < {TOLERANCE:g}, at least {FEWEST} runs": lambda t: t.enough,
}


def trials(problem: str, count: int) -> list[Trial]:
    """Diagnostics of random subsets, half as many of 15 and 20 runs."""
    truth = PROBLEMS[problem]()
    runs = converged_runs(problem)
    rng = np.random.default_rng(20251115)
    found = []
    for size in SIZES:
        for _ in range(count if size <= 10 else count // 2):
            members = rng.choice(len(runs), size, replace=False)
            posterior = stack([runs[m] for m in members], evaluations="own", caution=0.0)
            begun = time.process_time()
            d = diagnostics(posterior)
            seconds = time.process_time() - begun
            elbo = true_elbo(truth, posterior)
            found.append(
                Trial(
                    problem,
                    size,
                    truth.log_evidence - elbo,
                    d.expected_gain,
                    d.largest_gain,
                    d.single_run_mass,
                    d.enough,
                    seconds,
                )
            )
    return found


def rule_table(found: list[Trial]) -> list[str]:
    """For each rule and number of runs: how often it says enough, and how often wrongly."""
    lines = ["| rule | " + " | ".join(f"M = {m}" for m in SIZES) + " |"]
    lines += ["|---|" + "---|" * len(SIZES)]
    for name, rule in RULES.items():
        cells = []
        for size in SIZES:
            here = [t for t in found if t.runs == size]
            said = [t for t in here if rule(t)]
            wrong = sum(t.missing > TOO_MUCH for t in said)
            cells.append(f"{len(said)} of {len(here)}, {wrong} wrong" if said else "never")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def problem_table(found: list[Trial]) -> list[str]:
    """Medians for each number of runs, and the slowest diagnostics."""
    lines = [
        "| M | missing, median | missing > 0.1 | mean gain | largest gain | single-run mass "
        "| diagnostics, slowest (processor time) |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        here = [t for t in found if t.runs == size]
        names = ("missing", "mean_gain", "largest_gain", "single_run_mass")
        missing, mean, largest, mass = (np.median([getattr(t, n) for t in here]) for n in names)
        much = sum(t.missing > TOO_MUCH for t in here)
        slowest = max(t.seconds for t in here)
        lines.append(
            f"| {size} | {missing:.3f} | {much} of {len(here)} | {mean:.3f} | {largest:.3f} "
            f"| {mass:.3f} | {slowest:.2f} s |"
        )
    return lines


def main(argv: list[str]) -> None:
    parser = options_of("enough-runs", __doc__)
    parser.add_argument("--subsets", type=int, default=20, help="for each number of runs")
    count = parser.parse_args(argv).subsets
    with threadpool_limits(1):
        found = {problem: trials(problem, count) for problem in ("gmm", "ring")}
    lines = [f"Made by `python -m benchmarks enough-runs` on {machine()}; medians, in nats.", ""]
    for problem, here in found.items():
        lines += [f"## {problem}", "", *problem_table(here), "", *rule_table(here), ""]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "enough_runs.md").write_text("\n".join(lines).rstrip() + "\n")
    table = [asdict(t) for here in found.values() for t in here]
    (RESULTS / "enough_runs.json").write_text(json.dumps(table, indent=1) + "\n")
    print("\n".join(lines))
