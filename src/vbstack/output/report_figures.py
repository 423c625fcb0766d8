"""`Picture`: the figures of a report as data, each with its alternative text and caption."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from vbstack.analysis.diagnosis import Diagnostics
from vbstack.output import plots
from vbstack.output.figure_style import Units
from vbstack.posterior import StackedPosterior

_PIXELS_PER_INCH = 96  # of CSS
_PNG_DPI = 120


@dataclass(frozen=True)
class Picture:
    """One figure: `source` is a data URI, width and height are CSS pixels."""

    name: str
    source: str
    width: int
    height: int
    alt: str
    caption: str
    wide: bool


def pictures(posterior: StackedPosterior, d: Diagnostics, units: Units) -> Iterator[Picture]:
    """The figures of a report, in order."""
    yield _corner(posterior, units)
    if len(posterior.runs) > 1:
        yield _runs(posterior, units)
    yield _weights(posterior)
    yield _evidence(posterior)
    if len(posterior.runs) > 1:
        yield _curve(d)
        yield _coverage(d)
        yield _overlap(posterior, d)
    if any(run.evaluations is not None for run in posterior.runs):
        yield _evaluations(posterior)


def _corner(posterior: StackedPosterior, units: Units) -> Picture:
    mean, covariance = posterior.moments()
    listing = "; ".join(
        f"{name} {m:.3g} ± {s:.2g}"
        for name, m, s in zip(posterior.names, mean, np.sqrt(np.diag(covariance)), strict=True)
    )
    return _png(
        "corner",
        plots.corner_plot(posterior, units=units),
        f"Corner plot of the stacked posterior. Mean and standard deviation: {listing}.",
        "The stacked posterior: every marginal and every pair, with regions of 39 % and 86 % of "
        "the mass (one and two standard deviations, were it Gaussian).",
        wide=posterior.dimension > 3,
    )


def _runs(posterior: StackedPosterior, units: Units) -> Picture:
    weights = posterior.run_weights
    heavy = int(np.argmax(weights))
    return _png(
        "runs",
        plots.runs_plot(posterior, units=units),
        f"Draws of the stack beside draws of its {len(posterior.runs)} runs. The heaviest is run "
        f"{posterior.kept[heavy]} with {weights[heavy]:.0%} of the weight.",
        "The stack beside its runs, in the two parameters about which the runs disagree most; the "
        "share is the run's weight.",
        wide=True,
    )


def _weights(posterior: StackedPosterior) -> Picture:
    elbos = [run.elbo for run in posterior.runs]
    return _svg(
        "weights",
        plots.weights_plot(posterior),
        f"Weights and ELBOs of the runs. ELBOs range from {min(elbos):.3f} to {max(elbos):.3f}; "
        f"the stack has {posterior.evidence.elbo:.3f}.",
        "Weight and ELBO of every run. The red line is the stack's log evidence.",
    )


def _evidence(posterior: StackedPosterior) -> Picture:
    e = posterior.evidence
    return _svg(
        "evidence",
        plots.evidence_plot(posterior),
        f"Estimates of the log evidence: raw {e.raw:.3f}, capped by components "
        f"{e.capped_components:.3f}, capped by runs {e.capped_runs:.3f}, naive {e.naive:.3f}.",
        "Estimates of the log evidence. The filled one is the one to report.",
    )


def _curve(d: Diagnostics) -> Picture:
    curve = d.learning_curve
    means = curve.elbo.mean(axis=0)
    listing = ", ".join(f"{v:.3f} with {n}" for n, v in zip(curve.sizes, means, strict=True))
    return _svg(
        "curve",
        plots.learning_curve_plot(d),
        f"Learning curve. Mean stacked ELBO by number of runs: {listing}.",
        "What fewer of these runs would have given. A curve that still rises asks for more runs.",
    )


def _coverage(d: Diagnostics) -> Picture:
    return _svg(
        "coverage",
        plots.coverage_plot(d),
        f"Share of posterior mass by the number of runs that cover it; {d.single_run_mass:.1%} is "
        "covered by exactly one run.",
        "How many runs found each part of the posterior. What rests on one run is red.",
    )


def _overlap(posterior: StackedPosterior, d: Diagnostics) -> Picture:
    apart = d.coverage.overlap[np.triu_indices(len(posterior.runs), 1)]
    return _svg(
        "overlap",
        plots.overlap_plot(posterior, d),
        f"Matrix of the mass that two runs have in common: from {apart.min():.2f} to "
        f"{apart.max():.2f}, median {np.median(apart):.2f}.",
        "The mass that two runs' own posteriors have in common: 1 for the same, 0 if disjoint.",
    )


def _evaluations(posterior: StackedPosterior) -> Picture:
    counts = [r.evaluations.paid for r in posterior.runs if r.evaluations is not None]
    return _svg(
        "evaluations",
        plots.evaluations_plot(posterior),
        f"Log density against the order of evaluation, {min(counts)} to {max(counts)} evaluations "
        "per run.",
        "Every evaluation of the log density, in order. Values far below the rest are cut off.",
    )


def _png(name: str, figure: Figure, alt: str, caption: str, *, wide: bool) -> Picture:
    return _picture(name, figure, "png", alt, caption, wide)


def _svg(name: str, figure: Figure, alt: str, caption: str) -> Picture:
    return _picture(name, figure, "svg", alt, caption, False)


def _picture(name: str, figure: Figure, kind: str, alt: str, caption: str, wide: bool) -> Picture:
    buffer = io.BytesIO()
    # The same figure gives the same bytes: no date, fixed identifiers.
    with mpl.rc_context({"svg.hashsalt": name}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=_PNG_DPI, metadata=metadata)
    mime = {"svg": "image/svg+xml", "png": "image/png"}[kind]
    source = f"data:{mime};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    width, height = (round(_PIXELS_PER_INCH * side) for side in figure.get_size_inches())
    return Picture(name, source, width, height, alt, caption, wide)
