"""Stack archived VBMC runs of the ring and the GMM: `make demo`.

Prints each stack's summary beside the true log evidence and writes `demo-results/demo.png`: single
runs find a part of the target, the stack finds all of it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.make_runs import archive
from benchmarks.problems import PROBLEMS
from benchmarks.record import BenchmarkProblem
from vbstack import StackedPosterior, load_runs, stack

OUTPUT = Path("demo-results")
INK, DRAWS = "#0b3c5d", "#D55E00"


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    OUTPUT.mkdir(exist_ok=True)
    fig, axes = plt.subplots(2, 4, figsize=(13, 8.2), sharey="row", layout="constrained")
    for row, name in zip(axes, ("gmm", "ring"), strict=True):
        problem = PROBLEMS[name]()
        runs = load_runs(archive(name))[:10]
        begun = time.perf_counter()
        posterior = stack(runs)
        seconds = time.perf_counter() - begun
        print(f"=== {name}: ten VBMC runs, stacked in {seconds:.2f} s\n")
        print(posterior.summary())
        print(f"True log evidence  {problem.log_evidence:.4f}\n")
        draw_row(row, problem, posterior)
    path = OUTPUT / "demo.png"
    fig.savefig(path, dpi=130)
    print(f"Figure: {path}")


def draw_row(axes: Any, problem: BenchmarkProblem, posterior: StackedPosterior) -> None:
    """Three single runs, and the stack, as draws over contours of the target."""
    best = np.argsort([run.elbo for run in posterior.runs])
    shown = [int(best[i]) for i in (0, len(best) // 2, -1)]
    for ax, m in zip(axes, shown, strict=False):
        run = posterior.runs[m]
        single = stack([run], weights="naive")
        decorate(ax, problem, single.sample(1500, seed=0))
        ax.set_title(f"{problem.name}, run {posterior.kept[m]} alone\nELBO {run.elbo:.2f}")
    evidence = posterior.evidence
    decorate(axes[-1], problem, posterior.sample(1500, seed=0))
    axes[-1].set_title(
        f"{problem.name}, stack of {len(posterior.runs)} runs\nELBO {evidence.headline:.2f}, "
        f"true log evidence {problem.log_evidence:.2f}"
    )
    axes[0].set_ylabel("x2")


def decorate(ax: Any, problem: BenchmarkProblem, draws: np.ndarray) -> None:
    lower, upper = 1.35 * problem.plausible_lower_bounds, 1.35 * problem.plausible_upper_bounds
    x1, x2 = (np.linspace(a, b, 400) for a, b in zip(lower, upper, strict=True))
    grid = np.stack(np.meshgrid(x1, x2), axis=-1)
    values = problem.log_densities(grid.reshape(-1, 2)).reshape(400, 400)
    levels = values.max() + np.array([-4.5, -2.0, -0.5])
    ax.contour(x1, x2, values, levels, colors=INK, linestyles="solid", linewidths=0.6)
    ax.plot(*draws.T, ".", ms=2, alpha=0.5, color=DRAWS, rasterized=True)
    ax.set(xlabel="x1", xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]), aspect="equal")


if __name__ == "__main__":
    main()
