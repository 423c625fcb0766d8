"""Figures of draws: corner plots of the stack, and the single runs beside it."""

from __future__ import annotations

from collections.abc import Mapping

import corner
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from vbstack.arrays import Array
from vbstack.output.figure_style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Units,
    axis_labels,
    limits_of,
    plain,
)
from vbstack.posterior import StackedPosterior
from vbstack.stacking.mixture import Mixture

_OVERLAYS = (RED, GREEN, PURPLE, ORANGE)
_LEVELS = (0.393, 0.865)  # mass within one and two standard deviations of a Gaussian in 2-D


def corner_plot(
    posterior: StackedPosterior,
    *,
    overlays: Mapping[str, ArrayLike] | None = None,
    units: Units = None,
    n: int = 20_000,
    seed: int = 0,
    fig: Figure | None = None,
) -> Figure:
    """Every marginal and every pair of parameters of the stack, with 39 % and 86 % regions.

    Parameters
    ----------
    overlays : mapping of names to draws (n, D), optional
        Drawn as lines over the stack: reference samples, or single runs (see `run_draws`).
    units : mapping of parameter names to units, optional
    n, seed : int
        Draws of the stack that are shown.
    """
    dimension = posterior.dimension
    draws = {"stack": posterior.sample(n, seed=seed)}
    for name, given in (overlays or {}).items():
        if name == "stack":
            raise ValueError("overlays: 'stack' is the name of the stack itself; use another")
        draws[name] = np.asarray(given, dtype=float)
        if draws[name].ndim != 2 or draws[name].shape[1] != dimension:
            raise ValueError(
                f"overlays[{name!r}] has shape {draws[name].shape}, expected (n, {dimension})"
            )
    side = 3.0 + 1.4 * dimension if dimension <= 5 else 1.3 * dimension
    fig = fig or Figure(figsize=(side, side))
    limits = limits_of(list(draws.values()))
    colours = [BLUE, *(_OVERLAYS[i % len(_OVERLAYS)] for i in range(len(draws) - 1))]
    labels = axis_labels(posterior.names, units)
    for place, (points, colour) in enumerate(zip(draws.values(), colours, strict=True)):
        _corner(fig, points, limits, labels, colour, filled=place == 0)
    _tidy_corner(fig, dimension)
    if len(draws) > 1:
        lines = [Line2D([], [], color=colour, lw=3) for colour in colours]
        fig.legend(lines, [plain(name) for name in draws], loc="upper right", frameon=False)
    return fig


def run_draws(posterior: StackedPosterior, place: int, n: int = 5_000, seed: int = 0) -> Array:
    """Draws (n, D) of one stacked run's own posterior; `place` is its index in `posterior.runs`."""
    single = Mixture.from_runs([posterior.runs[place]])
    return single.sample(single.own_weights, n, np.random.default_rng(seed))


def runs_plot(
    posterior: StackedPosterior,
    *,
    pair: tuple[str, str] | None = None,
    units: Units = None,
    most: int = 19,
    fig: Figure | None = None,
) -> Figure:
    """The stack beside its runs, each as draws of one pair of parameters.

    By default the two parameters about which the runs disagree most. At most `most` runs are shown,
    those with the largest weights.
    """
    a, b = _pair(posterior, pair)
    weights = posterior.run_weights
    shown = np.sort(np.argsort(-weights, kind="stable")[:most])
    panels = [("stack", posterior.sample(3000, seed=0)[:, [a, b]], BLUE)]
    for place in shown:
        title = f"run {posterior.kept[place]}: {weights[place]:.1%}"
        panels.append((title, run_draws(posterior, int(place), 3000)[:, [a, b]], GREY))
    columns = min(len(panels), min((4, 5, 6), key=lambda c: -len(panels) % c))  # fewest gaps
    rows = -(-len(panels) // columns)
    fig = fig or Figure(figsize=(2.1 * columns + 0.5, 2.1 * rows + 0.5))
    axes = _grid(fig, rows, columns, len(panels))
    limits = limits_of([draws for _, draws, _ in panels])
    for ax, (title, draws, colour) in zip(axes, panels, strict=True):
        ax.set_title(title, fontsize=9, color=colour, fontweight="bold" if colour == BLUE else None)
        if a == b:
            ax.hist(draws[:, 0], bins=60, range=limits[0], density=True, color=colour)
        else:
            ax.plot(*draws.T, ".", ms=1.6, alpha=0.35, color=colour, rasterized=True)
    axes[0].set_xlim(limits[0])
    if a != b:
        axes[0].set_ylim(limits[1])
    labels = axis_labels(posterior.names, units)
    width, height = fig.get_size_inches()
    fig.supxlabel(labels[a], fontsize=10, y=0.08 / height, va="bottom")
    fig.supylabel(labels[b] if a != b else "density", fontsize=10, x=0.08 / width, ha="left")
    return fig


def _grid(fig: Figure, rows: int, columns: int, count: int) -> list[Axes]:
    """`count` panels with common axes; the lowest of each column has the numbers."""
    width, height = fig.get_size_inches()
    axes = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    # Set by hand: a layout engine takes seconds for twenty panels.
    fig.subplots_adjust(
        left=0.75 / width, right=1 - 0.08 / width, bottom=0.6 / height, top=1 - 0.3 / height,
        wspace=0.07, hspace=0.17,
    )  # fmt: skip
    for place, ax in enumerate(axes):
        ax.set_visible(place < count)
        ax.tick_params(labelsize=8, labelbottom=count - columns <= place < count)
    return list(axes[:count])


def _corner(
    fig: Figure, draws: Array, limits: list[tuple[float, float]], labels: list[str], colour: str,
    *, filled: bool,
) -> None:  # fmt: skip
    corner.corner(
        draws,
        bins=45,
        range=limits,
        smooth=1.1,
        levels=_LEVELS,
        weights=np.full(len(draws), 1 / len(draws)),
        color=colour,
        fig=fig,
        labels=labels,
        plot_datapoints=False,
        plot_density=False,
        fill_contours=filled,
        no_fill_contours=not filled,
        max_n_ticks=4 if len(limits) <= 5 else 3,
        hist_kwargs={"lw": 1.6 if filled else 1.2},
        contour_kwargs={"linewidths": 1.1},
        quiet=True,
    )


def _tidy_corner(fig: Figure, dimension: int) -> None:
    """Marginals that hold every curve, and text of a size that fits the panels."""
    axes = np.array(fig.axes).reshape(dimension, dimension)
    for d in range(dimension):
        heights = [patch.get_xy()[:, 1].max() for patch in axes[d, d].patches]
        axes[d, d].set_ylim(0, 1.1 * max(heights))
    size = 10 if dimension <= 5 else 8
    for ax in axes.ravel():
        ax.tick_params(labelsize=size - 2)
        ax.xaxis.label.set_size(size)
        ax.yaxis.label.set_size(size)


def _pair(posterior: StackedPosterior, pair: tuple[str, str] | None) -> tuple[int, int]:
    names = posterior.names
    if pair is not None:
        unknown = set(pair) - set(names)
        if unknown or len(pair) != 2:
            raise ValueError(f"pair={pair!r} should be two of the parameters {names}")
        return names.index(pair[0]), names.index(pair[1])
    if len(names) == 1:
        return 0, 0
    means = np.array(
        [run_draws(posterior, m, 500).mean(axis=0) for m in range(len(posterior.runs))]
    )
    scatter = means.std(axis=0) / np.sqrt(np.diag(posterior.moments()[1]))
    first, second = sorted(np.argsort(-scatter, kind="stable")[:2].tolist())
    return int(first), int(second)
