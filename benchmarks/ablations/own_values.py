"""Weights by the runs' own log-joints, with and without caution: `python -m benchmarks own-values`.

For random subsets of 5, 10, 20 and 40 runs of every archive: the true ELBO, by the exact log
density, of cautious weights (`stack(evaluations="own")`), of plain ones (`caution=0`) and of naive
stacking. The true log-joint of every archived component is found once, from 512 quasi-random draws
(16 where an evaluation takes milliseconds); the entropies of a subset's stacks come from common
draws, so that differences are known better than values. `--peers` adds pyvbmc's weights for ten
runs of six problems; that needs torch.

Rows that are there already are not made again, so a command that was interrupted goes on where it
stopped; `--table` only writes the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import archive, converged_runs, passing
from benchmarks.arrays import Array
from benchmarks.folders import ARCHIVES, RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.true_elbo import true_log_joint
from vbstack import Mixture, Run, stack
from vbstack.stacking.elbo import fresh_elbos

SIZES = (5, 10, 20, 40)
SUBSETS = 10
SCORING_DRAWS = 128  # per component that carries weight
PEERS, PEER_SIZE = ("gmm", "ring", "gmm_noisy", "ring_noisy", "unequal", "skew_normal"), 10
# Looked at while the form of the charge and its constant were chosen; all others only reported.
CHOSEN_ON = (
    *("gmm", "ring", "gmm_noisy", "ring_noisy", "multisensory", "multisensory_exact", "unequal"),
    *("rosenbrock4", "rosenbrock6", "student_t", "skew_normal", "two_modes", "contaminated"),
    *("hyperbolic", "cross", "vee", "split", "lognormal", "copula", "gaussian5", "plateau"),
    "funnel",
)
BELOW_NAIVE, BELOW_PEER = 0.002, 0.005  # nats that cautious weights may be worse by
WAYS = ("cautious", "plain", "naive")
Row = dict[str, Any]


def subsets(available: int, size: int, count: int) -> list[list[int]]:
    """`count` random subsets of `size` runs, or the only one."""
    rng = np.random.default_rng([2026, size])
    return [sorted(rng.permutation(available)[:size].tolist()) for _ in range(count)][
        : 1 if size == available else count
    ]


@dataclass(frozen=True)
class Archived:
    """The runs of a problem that pass the filters, with the truth about their components.

    Parameters
    ----------
    runs : list of Run
    truth : list of (K_m,)
        Their true expected log-joints in link space, less the log evidence.
    """

    runs: list[Run]
    truth: list[Array]

    @classmethod
    def of(cls, problem: str) -> Archived:
        target, runs = PROBLEMS[problem](), passing(converged_runs(problem))
        truth = [
            true_log_joint(target, run, place) - target.log_evidence
            for place, run in enumerate(runs)
        ]
        return cls(runs, truth)

    def true_elbos(self, chosen: Sequence[int], weights: Sequence[Array]) -> list[float]:
        """True ELBOs of several weights of the same runs, less the log evidence."""
        mixture = Mixture.from_runs([self.runs[m] for m in chosen])
        truth = np.concatenate([self.truth[m] for m in chosen])
        rng = np.random.default_rng(1)
        return fresh_elbos(mixture, truth, weights, SCORING_DRAWS, rng).values.tolist()

    def measured(self, chosen: Sequence[int]) -> Row:
        """True ELBOs of the three ways, the charge and the gap of one stack."""
        runs = [self.runs[m] for m in chosen]
        cautious = stack(runs, evaluations="own")
        plain = stack(runs, evaluations="own", caution=0.0)
        weights = [cautious.weights, plain.weights, cautious.mixture.naive_weights]
        elbos = dict(zip(WAYS, self.true_elbos(chosen, weights), strict=True))
        solution = cautious.solution
        return {**elbos, "charge": solution.charge, "gap": solution.gap, "status": solution.status}

    def peer_elbo(self, chosen: Sequence[int]) -> float:
        """The true ELBO of pyvbmc's weights."""
        from benchmarks.baselines.peers import pyvbmc_svbmc

        weights = pyvbmc_svbmc([self.runs[m] for m in chosen])["weights"]
        return self.true_elbos(chosen, [weights / weights.sum()])[0]


def archives() -> list[str]:
    """The problems with an archive."""
    return [name for name in PROBLEMS if archive(name, ARCHIVES).exists()]


def add_rows(
    rows: list[Row], problem: str, sizes: Sequence[int], count: int, peers: bool
) -> Iterator[None]:
    """Measures what is missing among `rows`, one at a time."""
    archived = Archived.of(problem)
    known = {(row["problem"], row["runs"], row["subset"]): row for row in rows}
    available = len(archived.runs)
    for size in (size for size in sizes if size <= available):
        for index, chosen in enumerate(subsets(available, size, count)):
            row = known.get((problem, size, index))
            if row is None:
                row = {"problem": problem, "runs": size, "subset": index}
                row |= archived.measured(chosen)
                rows.append(row)
                yield
            if peers and size == PEER_SIZE and problem in PEERS and "pyvbmc" not in row:
                row["pyvbmc"] = archived.peer_elbo(chosen)
                yield


def medians(rows: Sequence[Row]) -> list[Row]:
    """One row per problem and number of runs, in order: medians over its subsets."""
    found = []
    for problem, size in product(PROBLEMS, SIZES):
        mine = [r for r in rows if (r["problem"], r["runs"]) == (problem, size)]
        if not mine:
            continue
        peers = [r for r in mine if "pyvbmc" in r]
        middle: Row = {way: float(np.median([r[way] for r in mine])) for way in WAYS}
        middle["lead"] = float(np.median([r["cautious"] - r["naive"] for r in mine]))
        middle["peer_lead"] = (
            float(np.median([r["cautious"] - r["pyvbmc"] for r in peers])) if peers else None
        )
        middle["peers"] = len(peers)
        certified = sum(r["status"] == "certified" for r in mine)
        found.append(
            {"problem": problem, "runs": size, "subsets": len(mine), "certified": certified}
            | middle
        )
    return found


def table(found: Sequence[Row]) -> str:
    """The medians as Markdown."""
    lines = [
        "| problem | runs | subsets (certified) | cautious | plain | naive "
        "| cautious − naive | cautious − pyvbmc's weights (subsets) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in found:
        cells = [*(f"{r[way]:+.4f}" for way in (*WAYS, "lead")), lead_over_peer(r)]
        head = f"| {r['problem']} | {r['runs']} | {r['subsets']} ({r['certified']}) | "
        lines.append(head + " | ".join(cells) + " |")
    return "\n".join(lines)


def lead_over_peer(row: Row) -> str:
    """How far cautious weights are above pyvbmc's, and the subsets where that was measured."""
    return f"{row['peer_lead']:+.4f} ({row['peers']})" if row["peers"] else "–"


def verdict(found: Sequence[Row]) -> str:
    """In how many places cautious weights are worse than allowed, and where."""
    behind = [r for r in found if r["lead"] < -BELOW_NAIVE]
    beaten = [r for r in found if r["peer_lead"] is not None and r["peer_lead"] < -BELOW_PEER]
    above = sum(r["cautious"] > r["plain"] for r in found)
    places = ", ".join(f"{r['problem']} at {r['runs']}" for r in behind) or "none"
    theirs = ", ".join(f"{r['problem']} at {r['runs']}" for r in beaten) or "none"
    return (
        f"Of {len(found)} medians {above} are higher with caution than without. More than "
        f"{BELOW_NAIVE} nats below naive stacking: {places}. More than {BELOW_PEER} nats below "
        f"pyvbmc's weights: {theirs}."
    )


def report(rows: Sequence[Row]) -> str:
    """The whole page."""
    found = medians(rows)
    chosen = [r for r in found if r["problem"] in CHOSEN_ON]
    others = [r for r in found if r["problem"] not in CHOSEN_ON]
    return "\n\n".join(
        [
            f"Made by `python -m benchmarks own-values` (pyvbmc's weights: `--peers`) on "
            f"{machine()}.",
            "Weights by the runs' own log-joints: true ELBO less the log evidence, in nats, median "
            "over random subsets of the runs; differences are medians of differences. Monte Carlo "
            "error of one true ELBO: some 0.002; of a difference less.",
            verdict(found),
            "## Problems looked at while the charge was chosen",
            table(chosen),
            "## Problems only reported",
            table(others),
        ]
    )


def main(argv: list[str]) -> None:
    parser = options_of("own-values", __doc__)
    parser.add_argument("--problem", nargs="+", choices=archives(), default=archives())
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--subsets", type=int, default=SUBSETS)
    parser.add_argument("--peers", action="store_true", help="pyvbmc's weights too; needs torch")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args(argv)
    path = arguments.results / "own_values.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    arguments.results.mkdir(exist_ok=True)
    with threadpool_limits(1):
        for problem in () if arguments.table else arguments.problem:
            for _ in add_rows(rows, problem, arguments.sizes, arguments.subsets, arguments.peers):
                path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
            print(table([r for r in medians(rows) if r["problem"] == problem]), flush=True)
    (arguments.results / "own_values.md").write_text(report(rows) + "\n")
    print(verdict(medians(rows)))
