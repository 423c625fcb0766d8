"""Rows in words: one line on the terminal, and the table `results/coverage.md`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.arrays import Array
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.fit_row import LARGE, FitRow
from benchmarks.coverage.row_file import RowFile
from benchmarks.coverage.targets import TARGETS
from benchmarks.machine import machine

PRESENT = "present"  # label of the rows of the present engine
HEADS = {
    "development": "Development targets",
    "report": "Report targets",
    "unimodal": "Unimodal targets",
}
COLUMNS = (
    *("target", "D, cells", "runs of", "fits", "mass found: median [5, 95 %]", "mean", "least"),
    *(f"miss ≥ {LARGE:.0%}", "lost nats: median [5, 95 %]", "modes a run finds"),
    *("runs of a fit", "evaluations of a run", "of a fit", "enough", "false", "s a run"),
)


@dataclass(frozen=True)
class Summary:
    """What the rows of one file say."""

    file: RowFile
    target: CoverageTarget
    rows: list[FitRow]

    @property
    def found(self) -> Array:
        """The share of the mass that each fit found."""
        return np.array([row.mass_found(self.target.masses) for row in self.rows])

    @property
    def lost(self) -> Array:
        """Lost nats of each fit; infinite where nothing could be stacked."""
        return np.array([np.inf if r.lost_nats is None else r.lost_nats for r in self.rows])

    @property
    def rates(self) -> Array:
        """How often a run finds each mode, (k,)."""
        every = [row.found_by_runs(self.target.masses) for row in self.rows]
        return np.asarray(np.concatenate(every).mean(axis=0))

    def count(self, what: str) -> int:
        """Fits of which a question of `FitRow` about the masses is true."""
        return sum(getattr(row, what)(self.target.masses) for row in self.rows)

    def per_run(self, what: str) -> float:
        """Median over all runs of "evaluations" or "seconds"."""
        return float(np.median(np.concatenate([getattr(row, what) for row in self.rows])))

    @property
    def evaluations(self) -> float:
        """Median over the fits of all evaluations of one."""
        return float(np.median([sum(row.evaluations) for row in self.rows]))

    @property
    def runs(self) -> float:
        return float(np.median([row.runs for row in self.rows]))

    @property
    def enough(self) -> int:
        return sum(row.says_enough for row in self.rows)


def line(s: Summary) -> str:
    """One line for the terminal."""
    found, n = s.found, len(s.rows)
    return (
        f"{s.file.target:15} {s.file.engine:6} {s.file.label:12} {n:2} fits  mass "
        f"{np.median(found):.3f}/{found.mean():.3f}/{found.min():.3f} (median/mean/least)  "
        f"miss ≥ {LARGE:.0%}: {s.count('misses_large_mode')}  lost {np.median(s.lost):.3f} "
        f"(most {s.lost.max():.3f})  enough {s.enough}, false {s.count('false_enough')}  "
        f"{s.rates.sum():.1f} of {s.rates.size} modes a run  "
        f"{s.runs:.0f} runs of {s.per_run('evaluations'):.0f} evaluations, "
        f"{s.per_run('seconds'):.1f} s"
    )


def summaries(folder: Path) -> list[Summary]:
    """Of every file, in the order of the targets."""
    order = list(TARGETS)
    read = [RowFile.read(path) for path in sorted(folder.glob("*.json"))]
    known = [(file, rows) for file, rows in read if file.target in order and rows]
    known.sort(key=lambda one: (order.index(one[0].target), one[0].engine, one[0].label))
    return [Summary(file, TARGETS[file.target](), rows) for file, rows in known]


def of_present_engine(found: list[Summary]) -> list[Summary]:
    """Those of native runs with the label of the present engine."""
    return [s for s in found if (s.file.engine, s.file.label) == ("native", PRESENT)]


def table(found: list[Summary]) -> str:
    """All rows as Markdown, a table for each role, and how often runs find each mode."""
    lines = [
        "# Coverage: do the runs of a fit find all the mass?",
        "",
        f"`python -m benchmarks coverage` on {machine()}. Found: a mode of true mass p of which "
        "the stack has p/2 at least, by 20,000 draws. Lost: log evidence less the true ELBO of the "
        "stack. A run finds a mode when its own mixture has p/2 or 5 % of its mass there. False: "
        "the diagnostics say enough while more than 2 % of the mass is missing. Fits of pyvbmc are "
        "subsets of ten of its archived runs (their number is in brackets): disjoint ones as far "
        "as they go, then random ones, which overlap, so that intervals are too narrow with few "
        "archived runs. Seconds of a run: native, processor time; pyvbmc, wall time on a shared "
        "machine when archived; `+auto`, with the stacks and diagnostics in between.",
        "",
    ]
    for role, head in HEADS.items():
        here = [s for s in found if s.target.role == role]
        if here:
            lines += [f"## {head}", "", _row(COLUMNS), "|---" * len(COLUMNS) + "|"]
            lines += [*map(_cells, here), ""]
    lines += ["## How often a run finds each mode", "", _row(("target", "runs of", "rates"))]
    lines += ["|---|---|---|", *(_rates(s) for s in found if s.target.role != "unimodal"), ""]
    return "\n".join(lines)


def _cells(s: Summary) -> str:
    found, lost, masses = s.found, s.lost, s.target.masses
    cells = [
        s.file.target,
        f"{s.target.truth.dimension}, {masses.size}",
        _runs_of(s),
        str(len(s.rows)),
        _interval(found),
        f"{found.mean():.3f}",
        f"{found.min():.3f}",
        str(s.count("misses_large_mode")),
        _interval(lost),
        f"{s.rates.sum():.1f}",
        f"{s.runs:.0f}",
        f"{s.per_run('evaluations'):.0f}",
        f"{s.evaluations:.0f}",
        str(s.enough),
        str(s.count("false_enough")),
        f"{s.per_run('seconds'):.1f}",
    ]
    return _row(cells)


def _rates(s: Summary) -> str:
    each = zip(s.target.names, s.target.masses, s.rates, strict=True)
    named = (
        f"{name}: {f:.2f}" if "%" in name else f"{name} ({p:.0%}): {f:.2f}" for name, p, f in each
    )
    return _row((s.file.target, _runs_of(s), "; ".join(named)))


def _runs_of(s: Summary) -> str:
    archived = s.file.made_with.get("archived")
    return f"{s.file.engine} ({archived})" if archived else f"{s.file.engine}, {s.file.label}"


def _interval(values: Array) -> str:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95], method="nearest")
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
