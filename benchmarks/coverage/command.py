"""Do ten runs find all the mass of posteriors with several modes? `python -m benchmarks coverage`

    python -m benchmarks coverage --role development --seeds 20 --label mine --engine native
    python -m benchmarks coverage --engine pyvbmc          # from the archives, see coverage-runs
    python -m benchmarks coverage --role unimodal --auto   # fit(n_runs="auto") instead of ten runs
    python -m benchmarks coverage --table                  # only the table, from the stored rows

Every fit is a row in `results/coverage/<target>-<engine>-<label>.json`; those that are there are
not made again, and several processes may add to one file. `--label` names what the engine is or
was; the tables of the docs are of the label "present". Seed s makes the native runs of plan
1000 + s. With `--same-starts` they are those of the archives' plan, in the subsets that pyvbmc's
runs are stacked in. `+auto` and `+same-starts` are added to the label.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.coverage import making_runs
from benchmarks.coverage.archiving import archived_runs
from benchmarks.coverage.coverage_table import Summary, line, of_present_engine, summaries, table
from benchmarks.coverage.fit_row import FitRow
from benchmarks.coverage.measuring import measured
from benchmarks.coverage.row_file import RowFile
from benchmarks.coverage.rule_table import rule_table
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import RESULTS
from benchmarks.options import options_of

RUNS = 10
ROWS = "coverage"  # their folder among the results


@dataclass(frozen=True)
class Way:
    """How the runs of a fit are made."""

    engine: str
    runs: int
    options: Mapping[str, Any]
    auto: bool
    same_starts: bool
    keep: Path | None = None  # folder of the runs

    def label(self, given: str) -> str:
        return given + "+auto" * self.auto + "+same-starts" * self.same_starts

    @property
    def from_archive(self) -> bool:
        return self.engine == "pyvbmc"

    def file(self, target: str, label: str, folder: Path) -> RowFile:
        """The file of these rows; of the archive only its size is told."""
        made_with: dict[str, Any] = {} if self.auto else {"runs": self.runs}
        if self.from_archive or self.same_starts:
            made_with["archived"] = len(archived_runs(TARGETS[target]()))
        if self.from_archive:
            return RowFile(target, self.engine, "archived", made_with, folder)
        made_with["options"] = dict(self.options)
        return RowFile(target, self.engine, self.label(label), made_with, folder)

    def seeds(self, file: RowFile, first: int, wanted: int) -> list[int]:
        """The seeds that have no row yet; of an archive, as many subsets as it is good for."""
        last = first + wanted
        if "archived" in file.made_with:
            last = making_runs.subsets_of(file.made_with["archived"], self.runs, last)
        there = {row.seed for row in file.rows()}
        return [seed for seed in range(first, last) if seed not in there]


def fit_row(target: str, way: Way, seed: int) -> FitRow:
    """Make or take the runs of one fit, and measure it."""
    here = TARGETS[target]()
    with threadpool_limits(1):
        if way.from_archive:
            made = making_runs.archived(here, seed, way.runs)
        elif way.auto:
            made = making_runs.automatic(here, seed, way.options)
        elif way.same_starts:
            pool = len(archived_runs(here))
            places = making_runs.subset(pool, seed, way.runs)
            made = making_runs.native_with_archived_starts(here, places, way.options)
        else:
            made = making_runs.native(here.truth, seed, way.runs, way.options, way.keep)
        return measured(here, seed, made)


def add_rows(target: str, way: Way, arguments: argparse.Namespace) -> None:
    """Add the missing rows of a target, with a line for each and one for all."""
    file = way.file(target, arguments.label, arguments.results / ROWS)
    seeds = way.seeds(file, arguments.first_seed, arguments.seeds)
    masses = TARGETS[target]().masses
    for row, seconds in _made(target, way, seeds, arguments.workers):
        file.add(row)
        lost = "nothing stacked" if row.lost_nats is None else f"lost {row.lost_nats:.3f}"
        print(
            f"  {target} {way.engine} seed {row.seed}: mass {row.mass_found(masses):.2f}, {lost}, "
            f"{row.runs} runs, {sum(row.evaluations)} evaluations, enough {row.enough}, "
            f"{seconds:.0f} s",
            flush=True,
        )
    rows = file.rows()
    print(
        line(Summary(file, TARGETS[target](), rows)) if rows else f"{target}: no rows", flush=True
    )


def _made(target: str, way: Way, seeds: list[int], workers: int) -> Iterator[tuple[FitRow, float]]:
    """Rows as they are ready, and the seconds since the one before."""
    begun = time.monotonic()
    if workers == 1:
        rows: Iterator[FitRow] = (fit_row(target, way, seed) for seed in seeds)
        for row in rows:
            yield row, time.monotonic() - begun
            begun = time.monotonic()
        return
    with ProcessPoolExecutor(workers) as pool:
        for row in pool.map(fit_row, [target] * len(seeds), [way] * len(seeds), seeds):
            yield row, time.monotonic() - begun
            begun = time.monotonic()


def parsed_options(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; values are Python literals, or else text."""
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SystemExit(f"--options {pair}: write NAME=VALUE")
        try:
            options[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[name] = text
    return options


def main(argv: list[str]) -> None:
    parser = options_of("coverage", __doc__)
    roles = ("development", "report", "unimodal", "all")
    parser.add_argument("--role", choices=roles, default="development")
    parser.add_argument("--target", nargs="+", choices=list(TARGETS), help="instead of a role")
    parser.add_argument("--engine", nargs="+", choices=["native", "pyvbmc"], default=["native"])
    parser.add_argument("--label", default="default", help="of the native engine's rows")
    parser.add_argument("--seeds", type=int, default=20, help="fits of each target")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=RUNS, help="of a fit")
    parser.add_argument("--options", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--auto", action="store_true", help='fit(n_runs="auto"), native only')
    parser.add_argument("--same-starts", action="store_true", help="those of the archive")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the rows are")
    parser.add_argument("--keep", type=Path, help="folder for the native runs, to measure again")
    parser.add_argument("--table", action="store_true", help="make no rows")
    arguments = parser.parse_args(argv)
    if arguments.auto and (arguments.same_starts or "pyvbmc" in arguments.engine):
        parser.error("--auto is for native runs with starts of their own")
    chosen = arguments.target or [
        name for name, make in TARGETS.items() if arguments.role in ("all", make().role)
    ]
    if not arguments.table:
        options = parsed_options(arguments.options)
        flags = arguments.auto, arguments.same_starts, arguments.keep
        for name in chosen:
            for engine in arguments.engine:
                add_rows(name, Way(engine, arguments.runs, options, *flags), arguments)
    found = summaries(arguments.results / ROWS)
    text = "\n".join([table(found), *rule_table(of_present_engine(found))])
    (arguments.results / "coverage.md").write_text(text, encoding="utf-8")
    if arguments.table:
        print("\n".join(map(line, found)))
