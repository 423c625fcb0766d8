"""One run of the native engine over time, as a figure: `python -m benchmarks engine-figure`.

A run on the development target `ring2`: where it evaluated, in which of its stages, and what it
found there. Writes `docs/images/engine_run.png`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks.archived_runs import plan_of
from benchmarks.arrays import Array
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import ROOT
from benchmarks.options import options_of
from vbstack.engines.native import evaluating, looks, loop
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal

TARGET, PLAN, RUN = "ring2", 77, 1
STAGES = {  # and the functions that make their evaluations
    "first points": (evaluating, "first"),
    "chosen by the surrogate": (evaluating, "more"),
    "looks": (looks, "_place"),
    "climbs": (looks, "_climbed"),
    "validation": (loop, "_validated"),
}
COLOURS = ("#555555", "#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd")


def stages_of_a_run() -> tuple[Array, Array, list[str]]:
    """The points (n, D), values (n,) and stages of a run's evaluations, in order."""
    problem = TARGETS[TARGET]().truth.problem()
    plan = plan_of(problem, "native", PLAN, "sobol")
    recorder = Recorder(problem, plan.run_seed(RUN), Journal())
    spans: list[tuple[int, int, str]] = []

    def watched(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            begun = len(recorder.made)
            found = function(*arguments)
            spans.append((begun, max(len(recorder.made), begun + (stage == "looks")), stage))
            return found

        return call

    with ExitStack() as patches:
        for stage, (module, name) in STAGES.items():
            watching = watched(stage, getattr(module, name))
            patches.enter_context(mock.patch.object(module, name, watching))
        loop.run_native(problem, plan.start(RUN), plan.run_seed(RUN), recorder, {})
    made = recorder.evaluations()
    labels = ["climbs"] * made.values.size  # the points around a look are part of a climb
    order = list(STAGES)
    for begun, ended, stage in sorted(spans, key=lambda span: order.index(span[2])):
        labels[begun:ended] = [stage] * (ended - begun)
    return made.x, made.values, labels


def figure() -> Figure:
    """Left: the plane; right: values in the order of the evaluations."""
    x, values, labels = stages_of_a_run()
    truth = TARGETS[TARGET]().truth
    found, (plane, time) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    low, high = truth.plausible_lower_bounds, truth.plausible_upper_bounds
    axes = [np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    log_density = truth.log_densities(grid.reshape(-1, 2)).reshape(200, 200)
    levels = log_density.max() - np.array([12.0, 6.0, 3.0, 1.0])
    plane.contour(*axes, log_density, levels=levels, colors="#bbbbbb", linewidths=0.8)
    for stage, colour in zip(STAGES, COLOURS, strict=True):
        here = np.array([label == stage for label in labels])
        size = 34 if stage == "looks" else 16
        plane.scatter(*x[here].T, s=size, color=colour, label=stage, zorder=3)
        time.scatter(np.flatnonzero(here) + 1, values[here], s=size, color=colour)
    plane.set(xlabel="x1", ylabel="x2", title="Where a run evaluates")
    time.set(xlabel="evaluation", ylabel="log density", title="What it finds there")
    time.set_yscale("symlog", linthresh=10)
    found.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return found


def main(argv: list[str]) -> None:
    options_of("engine-figure", __doc__).parse_args(argv)
    path = ROOT / "docs" / "images" / "engine_run.png"
    figure().savefig(path, dpi=110)
    print(path.relative_to(ROOT))
