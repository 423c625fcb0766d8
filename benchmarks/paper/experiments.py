"""The whole experiments on a problem: run them and write their results, as JSON, to a folder.

`stack_study` and `baseline_study` are deterministic. `runtime_study` measures seconds, so it is not
part of `all` and its file changes whenever it is run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines.methods import METHODS
from benchmarks.folders import ARCHIVES, RESULTS
from benchmarks.machine import machine
from benchmarks.paper import baseline_rows, protocol
from benchmarks.paper.protocol import Case
from vbstack import Run, stack
from vbstack.modes import EvaluationsUsed
from vbstack.stacking.pooling import why_not_pool

PAPER_RESULTS = RESULTS / "paper"
PAPER_PROBLEMS = ("gmm", "ring", "gmm_noisy", "ring_noisy", "multisensory", "neuronal")
STORED_ONLY = ("neuronal",)  # baselines that take hours; `baselines --problem neuronal` makes them


def available(
    problems: Sequence[str], archives: Path = ARCHIVES, data: Path | None = None
) -> list[Case]:
    """Those of the problems whose archive and reference are there."""
    cases = [Case(name, archives, data) for name in problems]
    return [c for c in cases if c.archive.exists() and protocol.target_of(c).reference is not None]


def stack_study(case: Case, folder: Path, workers: int, sizes: Sequence[int], count: int) -> Path:
    """Stack subsets of every size in every way; rows and the filter's counts as JSON."""
    todo = list(protocol.tasks(case, sizes, count))
    rows = _spread(partial(protocol.rows_of, count=count), todo, workers)
    kept = protocol.filtered(case)
    content = {
        "problem": case.problem,
        "log_evidence": protocol.truth_of(case).log_evidence,
        "log_evidence_sd": protocol.truth_of(case).log_evidence_sd,
        "true_draws": protocol.draws_scored(case),
        "filter": {
            "total": kept.total,
            "unconverged": kept.unconverged,
            "poor": kept.poor,
            "remaining": len(kept.runs),
        },
        "subsets": count,
        "rows": [row for group in rows for row in group],
    }
    return _write(folder / f"stack_{case.problem}.json", content)


def baseline_study(
    case: Case, folder: Path, workers: int, repeats: int, limit: int | None = None
) -> Path:
    """Repetitions of every baseline that starts from nothing."""
    todo = [(case, method, i) for method in METHODS for i in range(repeats)]
    rows = _spread(partial(_baseline_row, limit=limit), todo, workers)
    content = {
        "problem": case.problem,
        "repeats": repeats,
        "sampler_budget": baseline_rows.budget_of_runs(case),
        "rows": rows,
    }
    return _write(folder / f"baselines_{case.problem}.json", content)


def runtime_study(cases: Sequence[Case], folder: Path, sizes: Sequence[int], count: int) -> Path:
    """Seconds of a run and of stacking, in one process with one thread, median over subsets."""
    rows = []
    for case in cases:
        runs = protocol.filtered(case).runs
        stack(runs[:2])
        run_seconds = float(np.median([run.seconds for run in runs if run.seconds is not None]))
        for size in [s for s in sizes if 1 < s <= len(runs)]:
            chosen = [
                [runs[i] for i in subset] for subset in protocol.subsets(len(runs), size, count)
            ]
            rows.append(
                {
                    "problem": case.problem,
                    "runs": size,
                    "run_seconds": run_seconds,
                    "seconds": [_seconds(some, "own") for some in chosen],
                    "pooled_seconds": [
                        _seconds(some, "pooled") for some in chosen if not why_not_pool(some)
                    ],
                }
            )
    return _write(folder / "runtime.json", {"machine": machine(), "rows": rows})


def _seconds(runs: Sequence[Run], evaluations: EvaluationsUsed) -> float:
    begun = time.perf_counter()
    stack(runs, evaluations=evaluations, caution=0.0, refine=False)
    return time.perf_counter() - begun


def _baseline_row(task: tuple[Case, str, int], limit: int | None) -> dict[str, Any]:
    return baseline_rows.row_of(*task, limit)


def peer_study(case: Case, folder: Path, count: int) -> Path:
    """Subsets of ten runs stacked by pyvbmc's SVBMC, which needs torch."""
    available = protocol.subsets(len(protocol.filtered(case).runs), protocol.ADAM_SIZE)
    indices = range(min(count, len(available)))
    rows = [protocol.peer_row(case, protocol.ADAM_SIZE, index) for index in indices]
    return _write(folder / f"peers_{case.problem}.json", {"problem": case.problem, "rows": rows})


def _spread(function: Callable[[Any], Any], todo: Sequence[Any], workers: int) -> list[Any]:
    """The function's answers in order, from `workers` processes."""
    if workers <= 1:
        return [function(item) for item in todo]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, todo))


def _write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in content["rows"])
    head = {key: value for key, value in content.items() if key != "rows"}
    text = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
    path.write_text(f'{text},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    return path


def load(path: Path) -> dict[str, Any] | None:
    """A study's results, or None when there are none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
