"""The figure of a model comparison."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from vbstack.analysis.comparison import Comparison
from vbstack.output.figure_style import BLUE, SKY, finished


def comparison_plot(comparison: Comparison, fig: Figure | None = None) -> Figure:
    """Differences in log evidence, and model probabilities."""
    models = comparison.models[::-1]  # matplotlib counts upwards; the best model belongs on top
    fig = fig or Figure(figsize=(9, 1.3 + 0.45 * len(models)), layout="constrained")
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    rows = np.arange(len(models))
    values = [m.difference for m in models]
    errors = [m.sd for m in models]
    left.axvline(0, color="0.8", lw=1)
    left.errorbar(values, rows, xerr=errors, fmt="o", color=BLUE, capsize=4)
    label = f"log evidence minus that of {comparison.models[0].name} (nats), ± 1 sd"
    left.set_xlabel(label, parse_math=False)
    left.set_yticks(rows, [m.name for m in models], parse_math=False)
    left.set_ylim(-0.6, len(models) - 0.4)
    p = np.array([m.probability for m in models])
    ends = np.array([[m.probability_low, m.probability_high] for m in models]).T
    right.barh(rows, p, height=0.55, color=SKY)
    right.errorbar(p, rows, xerr=np.abs(ends - p), fmt="none", color="0.15", capsize=4)
    for row, value, end in zip(rows, p, ends[1], strict=True):
        right.text(max(end, value) + 0.03, row, f"{value:.3g}", va="center")
    right.set_xlabel(f"model probability, {100 * comparison.level:g} % interval")
    right.set_xlim(0, 1.2)
    right.set_xticks([0, 0.25, 0.5, 0.75, 1])
    return finished(left, right)
