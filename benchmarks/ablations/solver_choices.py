"""The measurements behind three choices in the solver: `python -m benchmarks choices`.

1. Over-fitting with and without the reference Gaussian: shortfall, on fresh draws, of weights
   fitted to S draws per component, against weights fitted to 512.
2. Gradients until the sample problem is solved to 0.001 nats: the multiplicative update with η > 1
   and backtracking, against L-BFGS in √w.
3. The bound after 30 gradients: of the last gradient alone, and of the bundle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.archived_runs import converged_runs
from benchmarks.arrays import Array
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import Mixture
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.solver import bound, maximise
from vbstack.stacking.weights import FreeWeights

PROBLEMS = ("ring", "gmm", "banana6", "banana10")


def stack_of(problem: str, *, flat: bool = False) -> tuple[Mixture, Array, FreeWeights]:
    """Ten runs; with `flat`, a reference so wide that it cancels nothing."""
    runs = converged_runs(problem)[:10]
    mixture = Mixture.from_runs(runs)
    if flat:
        reference = mixture._reference
        assert reference is not None
        mixture.__dict__["_reference"] = (reference[0], 1e-6 * reference[1])
    free = FreeWeights.of("all", mixture, [run.elbo for run in runs])
    return mixture, own_log_joints(runs), free


def fitted(mixture: Mixture, log_joint: Array, free: FreeWeights, draws: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    sample = Sample.draw(mixture, np.full(mixture.size, draws), rng)
    problem = free.problem(sample, mixture.rewards(log_joint))
    return maximise(problem, free.start, 1e-3).weights


def over_fitting(problem: str, draws: int, *, flat: bool) -> float:
    """Mean shortfall over three samples, in nats."""
    good, log_joint, free = stack_of(problem)
    long = fitted(good, log_joint, free, 512, 99)
    mixture, _, _ = stack_of(problem, flat=flat)
    weights = [fitted(mixture, log_joint, free, draws, seed) for seed in range(3)]
    scores = fresh_elbos(good, log_joint, [long, *weights], 256, np.random.default_rng(7))
    return float(scores.values[0] - scores.values[1:].mean())


def multiplicative(sample_problem: SampleProblem, w: Array) -> Iterator[tuple[float, Array]]:
    """Values and gradients of w ∝ w exp(η (g − L̂)), η grown by half, cut to a third on a fall."""
    g, eta = sample_problem.gradient(w), 1.0
    value = float(w @ g)
    while True:
        trial = w * np.exp(np.clip(eta * (g - value), -50, 50))
        trial /= trial.sum()
        new = sample_problem.gradient(trial)
        yield float(trial @ new), new
        if trial @ new < value and eta > 1:
            eta = max(1.0, eta / 3)
            continue
        w, g, value, eta = trial, new, float(trial @ new), min(1.5 * eta, 100.0)


def gradients_needed(problem: str) -> tuple[int, int, float, float]:
    """Gradients of both methods to 0.001 nats, and both bounds after 30 gradients of L-BFGS."""
    mixture, log_joint, free = stack_of(problem)
    sample = Sample.draw(mixture, np.full(mixture.size, 16), np.random.default_rng(0))
    sample_problem = free.problem(sample, mixture.rewards(log_joint))
    best = maximise(sample_problem, free.start, 1e-5, 2000).value
    plain = next(
        count
        for count, (value, _) in enumerate(multiplicative(sample_problem, free.start), start=2)
        if value > best - 1e-3 or count > 1000
    )
    seen: deque[Array] = deque(maxlen=16)
    values: list[float] = []

    class Watched(SampleProblem):
        def gradient(self, w: Array) -> Array:
            g = super().gradient(w)
            seen.append(g)
            values.append(float(w @ g))
            return g

    watched = Watched(sample_problem.blocks, sample_problem.column_scale, sample_problem.linear)
    maximise(watched, free.start, -1.0, max_gradients=30)
    single, bundle = float(seen[-1].max()) - max(values), bound(seen) - max(values)
    maximise(watched, free.start, -1.0, max_gradients=200)
    ours = next(i for i, value in enumerate(values[30:], start=1) if value > best - 1e-3)
    return plain, ours, single, bundle


def main(argv: list[str]) -> None:
    options_of("choices", __doc__).parse_args(argv)
    lines = [f"Made by `python -m benchmarks choices` on {machine()}; ten runs each.", ""]
    lines += ["Shortfall on fresh draws (nats), S draws per component:", ""]
    lines += [
        "| problem | S = 16, flat | S = 16, Gaussian reference | S = 64, flat | S = 64, Gaussian |"
    ]
    lines += ["|---|---|---|---|---|"]
    with threadpool_limits(1):
        for problem in PROBLEMS:
            cells = [over_fitting(problem, s, flat=f) for s in (16, 64) for f in (True, False)]
            lines.append(f"| {problem} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")
        lines += ["", "Gradients to 0.001 nats, and bounds after 30 gradients (nats):", ""]
        lines += ["| problem | multiplicative | L-BFGS in √w | last gradient | bundle |"]
        lines += ["|---|---|---|---|---|"]
        for problem in PROBLEMS:
            plain, ours, single, bundle = gradients_needed(problem)
            lines.append(f"| {problem} | {plain} | {ours} | {single:.4f} | {bundle:.4f} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "choices.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
