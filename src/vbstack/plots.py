"""Figures of a stack under their public name; they are made in `vbstack.output`."""

from vbstack.output.plots import (
    corner_plot,
    coverage_plot,
    evaluations_plot,
    evidence_plot,
    learning_curve_plot,
    overlap_plot,
    run_draws,
    runs_plot,
    weights_plot,
)

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
