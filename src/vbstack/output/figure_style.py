"""What the figures share: colours, labels, limits and axes.

Only the object interface of matplotlib is used, so nothing is left behind in pyplot. Colours are
those of Okabe & Ito, which people with any colour vision tell apart. A parameter name that is valid
mathtext (`$\\alpha$`) is set as such; any other is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from vbstack.arrays import Array

Units = Mapping[str, str] | None

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"),
)
GREY = "#666666"
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
_LONGEST = 22  # characters of a name on an axis


def axis_labels(names: Sequence[str], units: Units = None) -> list[str]:
    """A label per parameter: the name, shortened if very long, and its unit."""
    unknown = set(units or ()) - set(names)
    if unknown:
        raise ValueError(f"units: {sorted(unknown)} are not among the parameters {tuple(names)}")
    labels = []
    for name in names:
        text = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        unit = (units or {}).get(name)
        labels.append(plain(f"{text} ({unit})" if unit else text))
    return labels


def limits_of(draws: Sequence[Array]) -> list[tuple[float, float]]:
    """A range per column that holds all but the outermost draws of every set."""
    low = np.min([np.quantile(d, 0.001, axis=0) for d in draws], axis=0)
    high = np.max([np.quantile(d, 0.999, axis=0) for d in draws], axis=0)
    margin = np.maximum(0.04 * (high - low), 1e-12 + 1e-9 * np.abs(high))
    return [(float(a), float(b)) for a, b in zip(low - margin, high + margin, strict=True)]


def new_axes(size: tuple[float, float]) -> Axes:
    return Figure(figsize=size, layout="constrained").subplots()


def figure_of(ax: Axes) -> Figure:
    figure: Any = ax.figure
    return figure


def finished(*axes: Axes) -> Figure:
    """The figure, without the frame's upper and right lines."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure_of(axes[0])


def plain(text: str) -> str:
    """Text that matplotlib can set: mathtext if it is valid, otherwise with its dollars shown."""
    if text.count("$") < 2:
        return text
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return text.replace("$", r"\$")
    return text
