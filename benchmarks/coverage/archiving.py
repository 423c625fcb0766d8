"""Make or extend the archived pyvbmc runs of the coverage targets; resumable.

    python -m benchmarks coverage-runs

Every target gets its first ten runs, then every target twenty, then every target forty, so that
the archives can be compared whenever the command is stopped. The runs are those of
`launch(seed=2025)` with pyvbmc's default options. A store under `--stores` keeps every evaluation,
so an interrupted command continues where it stopped. The archive is
`benchmarks/archives/coverage/<target>.npz`. Unimodal targets have theirs in `benchmarks/archives`.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.archived_runs import archive, extend
from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import ARCHIVES
from benchmarks.options import options_of
from vbstack import Run, load_runs
from vbstack.runs.store import RunStore

ROUNDS = (10, 20, 40)
FOLDER = ARCHIVES / "coverage"
STORES = ARCHIVES / "stores" / "coverage"


def archived_runs(target: CoverageTarget, folder: Path = FOLDER) -> list[Run]:
    """The archived pyvbmc runs of a target, in order; none if there is no archive yet."""
    path = archive(target.name, ARCHIVES if target.role == "unimodal" else folder)
    return load_runs(path) if path.exists() else []


def main(argv: list[str]) -> None:
    parser = options_of("coverage-runs", __doc__)
    multimodal = [name for name, make in TARGETS.items() if make().role != "unimodal"]
    parser.add_argument("--target", nargs="+", choices=multimodal, default=multimodal)
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS, help="runs of a target")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--stores", type=Path, default=STORES)
    parser.add_argument("--archives", type=Path, default=FOLDER)
    arguments = parser.parse_args(argv)
    arguments.archives.mkdir(parents=True, exist_ok=True)
    for count in arguments.rounds:
        for name in arguments.target:
            begun = time.monotonic()
            store, path = RunStore(arguments.stores / name), archive(name, arguments.archives)
            extend(TARGETS[name]().truth.problem(), count, count, arguments.workers, store, path)
            print(f"{name}: {count} runs after {time.monotonic() - begun:.0f} s", flush=True)
