"""Figures of a stack: returned, never shown. `ax` or `fig` draws into what you have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from vbstack.analysis.diagnosis import Diagnostics
from vbstack.modes import Estimate
from vbstack.output.corner_plots import corner_plot, run_draws, runs_plot
from vbstack.output.estimate_names import ESTIMATE_NAMES
from vbstack.output.figure_style import BLUE, PALETTE, RED, SKY, figure_of, finished, new_axes
from vbstack.posterior import StackedPosterior

__all__ = [
    "corner_plot",
    "coverage_plot",
    "evaluations_plot",
    "evidence_plot",
    "learning_curve_plot",
    "overlap_plot",
    "run_draws",
    "runs_plot",
    "weights_plot",
]


def weights_plot(
    posterior: StackedPosterior, *, ax: Sequence[Axes] | None = None, fig: Figure | None = None
) -> Figure:
    """Weight and ELBO of every stacked run; the line is the stack's ELBO. `ax` takes two."""
    if ax is None:
        height = 1.4 + 0.22 * len(posterior.runs)
        fig = fig or Figure(figsize=(7.2, height), layout="constrained")
        ax = fig.subplots(1, 2, sharey=True)
    left, right = ax
    places = np.arange(len(posterior.runs))
    left.barh(places, posterior.run_weights, color=BLUE, height=0.7)
    left.set(xlabel="weight in the stack", ylabel="run", yticks=places)
    left.set_yticklabels([str(index) for index in posterior.kept], fontsize=8)
    left.set_ylim(len(places) - 0.4, -0.6)
    elbos = np.array([run.elbo for run in posterior.runs])
    sds = np.array([run.elbo_sd for run in posterior.runs])
    right.errorbar(elbos, places, xerr=sds, fmt="o", ms=4, color=BLUE, ecolor=SKY, lw=2)
    e = posterior.evidence
    right.axvspan(e.elbo - e.elbo_sd, e.elbo + e.elbo_sd, color=RED, alpha=0.2)
    right.axvline(e.elbo, color=RED, lw=1.5, label="stack")
    right.set_xlabel("ELBO (nats), ± 1 sd")
    right.legend(frameon=False, fontsize=8, loc="best")
    return finished(left, right)


def overlap_plot(
    posterior: StackedPosterior, found: Diagnostics, *, ax: Axes | None = None
) -> Figure:
    """The mass that each two runs have in common, 0 to 1."""
    overlap = found.coverage.overlap
    size = len(overlap)
    ax = ax or new_axes((3.2 + 0.18 * size, 2.6 + 0.18 * size))
    image = ax.imshow(overlap, vmin=0, vmax=1, cmap="cividis")
    ticks = np.arange(size)
    names = [str(index) for index in posterior.kept]
    small = 8 if size <= 20 else 6
    ax.set_xticks(ticks, names, fontsize=small)
    ax.set_yticks(ticks, names, fontsize=small)
    ax.set(xlabel="run", ylabel="run")
    for a, b in np.ndindex(overlap.shape) if size <= 12 else ():
        shade = "black" if overlap[a, b] > 0.55 else "white"
        text = f"{overlap[a, b]:.2f}".removeprefix("0") if a != b else "1"
        ax.text(b, a, text, ha="center", va="center", fontsize=7, color=shade)
    figure_of(ax).colorbar(image, ax=ax, label="mass in common", fraction=0.046, pad=0.03)
    return figure_of(ax)


def coverage_plot(found: Diagnostics, *, ax: Axes | None = None) -> Figure:
    """Share of posterior mass that exactly 0, 1, 2, … runs cover; what rests on one run is red."""
    share = found.coverage.by_runs
    ax = ax or new_axes((5.2, 3.0))
    count = np.arange(share.size)
    colours = np.where(count <= 1, RED, BLUE)
    ax.bar(count, share, color=list(colours), width=0.8)
    ax.set(xlabel="runs that cover it", ylabel="share of posterior mass", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    return finished(ax)


def learning_curve_plot(found: Diagnostics, *, ax: Axes | None = None) -> Figure:
    """Stacked ELBO against number of runs: every random order, and their mean."""
    curve = found.learning_curve
    ax = ax or new_axes((5.2, 3.2))
    ax.plot(curve.sizes, curve.elbo.T, color=SKY, lw=0.9, alpha=0.8)
    same = np.array_equal(curve.raw, curve.elbo)
    mean = curve.elbo.mean(axis=0)
    label = "mean" if same else "capped, mean"
    ax.plot(curve.sizes, mean, "o-", color=BLUE, lw=2, ms=5, label=label)
    if not same:
        ax.plot(curve.sizes, curve.raw.mean(axis=0), "s--", color=RED, ms=4, label="raw, mean")
    ax.set(xlabel="runs stacked", ylabel="stacked ELBO (nats)", xscale="log")
    ax.set_xticks(curve.sizes, [str(size) for size in curve.sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.plot([], [], color=SKY, lw=0.9, label="random orders of the runs")
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    return finished(ax)


def evidence_plot(posterior: StackedPosterior, *, ax: Axes | None = None) -> Figure:
    """Every estimate of the log evidence with its error; the filled one is the one to report."""
    e = posterior.evidence
    verified = None if e.verified is None else e.verified.log_evidence
    values: dict[Estimate, float | None] = {
        name: verified if name == "verified" else getattr(e, name) for name in ESTIMATE_NAMES
    }
    own: Estimate = "capped_components" if e.noisy else "raw"
    reported: Estimate = own if e.method == "own" else e.method
    known = {name: float(value) for name, value in values.items() if value is not None}
    ax = ax or new_axes((5.6, 1.1 + 0.36 * len(known)))
    for row, (name, value) in enumerate(known.items()):
        chosen = name == reported
        sd = e.sd if chosen else getattr(e, f"{name}_sd", e.total_sd)
        face = RED if chosen else "white"
        ax.errorbar(value, row, xerr=sd, fmt="o", ms=7, color=RED if chosen else BLUE,
                    mfc=face, capsize=3)  # fmt: skip
        ax.annotate(
            f"{value:.3f}", (value, row), (0, 7), textcoords="offset points", ha="center",
            fontsize=8,
        )  # fmt: skip
    labels = [ESTIMATE_NAMES[n] + (" (reported)" if n == reported else "") for n in known]
    ax.set_yticks(range(len(known)), labels)
    ax.set_ylim(len(known) - 0.5, -0.8)
    ax.margins(x=0.15)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_xlabel("log evidence (nats), ± 1 sd")
    return finished(ax)


def evaluations_plot(posterior: StackedPosterior, *, ax: Axes | None = None) -> Figure:
    """The log density that each run saw, in the order of its evaluations, and its best so far."""
    known = [
        (index, run.evaluations.values)
        for index, run in zip(posterior.kept, posterior.runs, strict=True)
        if run.evaluations is not None and len(run.evaluations.values)
    ]
    if not known:
        raise ValueError("no run of this posterior has kept its evaluations")
    ax = ax or new_axes((6.4, 3.4))
    for place, (_, values) in enumerate(known):
        colour, order = PALETTE[place % len(PALETTE)], np.arange(1, len(values) + 1)
        ax.plot(order, values, ".", ms=3, alpha=0.45, color=colour, rasterized=True)
        ax.plot(order, np.maximum.accumulate(values), lw=1.1, color=colour)
    top = max(values.max() for _, values in known)
    late = np.concatenate([values[len(values) // 4 :] for _, values in known])
    # The first points may lie thousands of nats below; they would flatten everything else.
    low = float(np.quantile(late[np.isfinite(late)], 0.02))
    ax.set_ylim(low - 0.1 * (top - low), top + 0.08 * (top - low) + 1e-9)
    ax.set(xlabel="evaluation", ylabel="log density", xlim=(0, None))
    ax.set_title(f"{len(known)} runs; dots: values, lines: best so far", fontsize=9)
    return finished(ax)
