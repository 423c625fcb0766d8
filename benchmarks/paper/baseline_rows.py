"""Scores of the baselines, with the evaluations that the paper's protocol gives them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.baselines import bbvi
from benchmarks.baselines.methods import METHODS
from benchmarks.paper.protocol import Case, filtered, rounded, target_of, truth_of
from benchmarks.problems.neuronal.log_joint_by_modes import fast
from benchmarks.scoring.metrics import metrics

REPEATS = 5
RUNS_OF_BUDGET = 10


def budget_of_runs(case: Case) -> int:
    """The evaluations of the first ten runs that pass the filters."""
    runs = filtered(case).runs[:RUNS_OF_BUDGET]
    return int(sum(len(run.evaluations.values) for run in runs if run.evaluations is not None))


def row_of(case: Case, method: str, repeat: int, limit: int | None = None) -> dict[str, Any]:
    """One repetition of one baseline; `limit` lowers BBVI's budget, to try things."""
    target = fast(target_of(case))
    budget = budget_of_runs(case)
    if method.startswith("bbvi"):
        budget = limit or bbvi.budget_of(target.dimension, target.noise_sd > 0)
    result = METHODS[method](target, budget, repeat)
    scores = rounded({"elbo": result.log_evidence, **asdict(metrics(result, truth_of(case)))})
    known = {key: None if np.isnan(value) else value for key, value in scores.items()}
    return {"problem": case.problem, "method": method, "runs": None, "subset": repeat, **known}
