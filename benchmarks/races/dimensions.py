"""Six and ten dimensions: `python -m benchmarks dimensions`.

Ten archived runs each of a banana times a correlated Gaussian. The default stack against an
optimisation with a hundred times its work (ten times the draws, and gradients until the sample
problem is solved to 1e-4 nats, at most 1000), and against naive stacking; all scored by the same
fresh draws.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import archive
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import Mixture, load_runs, stack
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.sample_problem import Sample
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights

PROBLEMS = ("banana6", "banana10")


def compare(problem: str) -> dict[str, Any]:
    """Time, gap and ELBOs of the default stack, the long optimisation and naive stacking."""
    runs = load_runs(archive(problem))
    stack(runs[:2])
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        # The long optimisation is of the plain ELBO of the runs' components.
        posterior = stack(runs, caution=0.0, refine=False)
        seconds.append(time.perf_counter() - begun)
    mixture = Mixture.from_runs(runs)
    rng = np.random.default_rng(77)
    free, log_joint = FreeWeights.of("all", mixture, [r.elbo for r in runs]), own_log_joints(runs)
    draws = 10 * posterior.solution.draws // mixture.size
    sample = Sample.draw(mixture, np.full(mixture.size, draws), rng)
    sample_problem = free.problem(sample, mixture.rewards(log_joint))
    long = maximise(sample_problem, free.start, 1e-4, max_gradients=1000)
    del sample, sample_problem
    compared = [posterior.weights, long.weights, mixture.naive_weights]
    scores = fresh_elbos(mixture, log_joint, compared, 1000, rng)
    return {
        "problem": problem,
        "runs": len(runs),
        "components": mixture.size,
        "seconds": float(np.median(seconds)),
        "gap": posterior.solution.gap,
        "status": posterior.solution.status,
        "elbo": float(scores.values[0]),
        "elbo_se": scores.standard_error(0),
        "long_gradients": long.gradients,
        "below_long": float(scores.values[1] - scores.values[0]),
        "below_long_se": scores.standard_error(0, 1),
        "above_naive": float(scores.values[0] - scores.values[2]),
        "above_naive_se": scores.standard_error(0, 2),
    }


def main(argv: list[str]) -> None:
    options_of("dimensions", __doc__).parse_args(argv)
    with threadpool_limits(1):
        rows = [compare(problem) for problem in PROBLEMS]
    lines = [
        f"Made by `python -m benchmarks dimensions` on {machine()}.",
        "",
        "| problem | components | seconds | certified gap | ELBO | below the 100× longer "
        "optimisation | above naive stacking |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['problem']} | {r['components']} | {r['seconds']:.2f} | {r['gap']:.4f} | "
            f"{r['elbo']:.4f} ± {r['elbo_se']:.4f} | {r['below_long']:+.4f} ± "
            f"{r['below_long_se']:.4f} | {r['above_naive']:+.4f} ± {r['above_naive_se']:.4f} |"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "dimensions.md").write_text("\n".join(lines) + "\n")
    (RESULTS / "dimensions.json").write_text(
        json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n"
    )
    print("\n".join(lines))
