"""Ten VBMC runs of a hard target on all cores, stacked: `make demo`, or `make demo-pyvbmc`.

The target is the paper's mixture of twenty Gaussians in four clusters. The runs are kept in
`demo-results/<engine>`: interrupt the demo and start it again, and it goes on where it was. The
figure `demo-results/demo.png` shows that single runs find a part of the target and the stack all of
it; its second row does the same for a ring, from archived runs. The native engine needs seconds,
pyvbmc minutes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.archived_runs import SEED, archive
from benchmarks.problems import PROBLEMS, BenchmarkProblem
from vbstack import Screen, StackedPosterior, fit, load_runs, stack
from vbstack.modes import EngineChoice

EVERY_RUN = Screen(require_converged=False, max_variance=np.inf)
INK, DRAWS = "#0b3c5d", "#D55E00"


def main(
    output: Path = Path("demo-results"),
    n_runs: int = 10,
    engine: EngineChoice = "native",
    **settings: Any,
) -> Path:
    """The figure of a GMM fitted with real runs, and of a ring with archived ones."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    gmm, ring = PROBLEMS["gmm"](), PROBLEMS["ring"]()
    print(f"{n_runs} VBMC runs of a mixture of twenty Gaussians, engine {engine} …", flush=True)
    begun = time.perf_counter()
    store = str(output / engine)
    fitted = fit(gmm.problem(), n_runs, store=store, seed=SEED, engine=engine, **settings)
    print(f"\nRuns and stack took {time.perf_counter() - begun:.0f} s\n")
    print(fitted.summary())
    print(f"True log evidence  {gmm.log_evidence:.4f}\n")
    figure = Figure(figsize=(13, 8.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4, sharey="row")
    draw_row(axes[0], gmm, fitted)
    draw_row(axes[1], ring, stack(load_runs(archive("ring"))[:10]))
    path = output / "demo.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")
    return path


def draw_row(axes: Any, problem: BenchmarkProblem, posterior: StackedPosterior) -> None:
    """Three single runs, and the stack, as draws over contours of the target."""
    best = np.argsort([run.elbo for run in posterior.runs])
    shown = [int(best[i]) for i in (0, len(best) // 2, -1)]
    for ax, m in zip(axes, shown, strict=False):
        run = posterior.runs[m]
        single = stack([run], weights="naive", screen=EVERY_RUN)
        decorate(ax, problem, single.sample(1500, seed=0))
        ax.set_title(f"{problem.name}, run {posterior.kept[m]} alone\nELBO {run.elbo:.2f}")
    evidence = posterior.evidence
    decorate(axes[-1], problem, posterior.sample(1500, seed=0))
    axes[-1].set_title(
        f"{problem.name}, stack of {len(posterior.runs)} runs\nELBO {evidence.log_evidence:.2f}, "
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
    main(engine="pyvbmc" if "pyvbmc" in sys.argv[1:] else "native")
