"""Figures: returned, labelled, and nothing left in pyplot. How they look is for eyes."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.synthetic import random_run
from vbstack import Evaluations, diagnostics, plots, stack
from vbstack.output.figure_style import axis_labels

NAMES = ("rate", "a very long name of a parameter", "cost_$", "$\\alpha$", "$\\broken{$")


def make_posterior(dimension, runs=4, **details):
    rng = np.random.default_rng(dimension)
    x, values = rng.normal(size=(30, dimension)), rng.normal(size=30)
    made = [
        random_run(rng, dimension, names=NAMES[:dimension], evaluations=Evaluations(x, values))
        for _ in range(runs)
    ]
    return stack(made, tolerance=0.2, **details)


@pytest.fixture(scope="module")
def posterior():
    return make_posterior(2)


@pytest.fixture(scope="module")
def found(posterior):
    return diagnostics(posterior)


def drawn(figure):
    """The figure after it was really drawn, as PNG."""
    assert isinstance(figure, Figure)
    figure.savefig(io.BytesIO(), dpi=30)
    assert plt.get_fignums() == []
    return figure


def texts(figure):
    return {text.get_text() for ax in figure.axes for text in (ax.xaxis.label, ax.yaxis.label)}


def test_the_corner_has_names_and_units_and_a_legend_for_overlays(posterior):
    overlays = {"reference": posterior.sample(500, seed=1), "run 0": plots.run_draws(posterior, 0)}
    figure = drawn(plots.corner_plot(posterior, overlays=overlays, units={"rate": "Hz"}, n=2000))
    assert "rate (Hz)" in texts(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["stack", *overlays]
    assert len(figure.axes) == 4


def test_overlays_and_units_that_do_not_fit_are_refused(posterior):
    with pytest.raises(ValueError, match=r"overlays\['x'\] has shape \(5, 3\), expected \(n, 2\)"):
        plots.corner_plot(posterior, overlays={"x": np.zeros((5, 3))})
    with pytest.raises(ValueError, match=r"\['mass'\] are not among the parameters"):
        plots.corner_plot(posterior, units={"mass": "kg"})
    with pytest.raises(ValueError, match="should be two of the parameters"):
        plots.runs_plot(posterior, pair=("rate", "nothing"))


@pytest.mark.parametrize("dimension", [1, 5])
def test_every_parameter_is_drawn_under_its_own_name_whatever_that_is(dimension):
    posterior = make_posterior(dimension)
    figure = drawn(plots.corner_plot(posterior, n=500))
    axes = np.array(figure.axes).reshape(dimension, dimension)
    labels = axis_labels(NAMES[:dimension])
    assert [ax.get_xlabel() for ax in axes[-1]] == labels
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == labels[1:]
    for column, draws in enumerate(posterior.sample(500, seed=0).T):
        low, high = axes[-1, column].get_xlim()
        assert ((draws > low) & (draws < high)).mean() > 0.99


@pytest.mark.parametrize("name", NAMES)
def test_the_runs_are_drawn_with_the_name_of_any_parameter(name):
    posterior = make_posterior(5)
    figure = drawn(plots.runs_plot(posterior, pair=("rate", name)))
    assert figure.get_supxlabel() == "rate"
    own = axis_labels([name])[0]
    assert figure.get_supylabel() == ("density" if name == "rate" else own)


def test_one_parameter_is_drawn_as_a_density():
    figure = drawn(plots.runs_plot(make_posterior(1)))
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("rate", "density")
    areas = [sum(bar.get_height() * bar.get_width() for bar in ax.patches) for ax in figure.axes]
    np.testing.assert_allclose(areas, 1)


def test_labels_show_mathtext_when_it_is_valid_and_dollars_when_not():
    labels = axis_labels(NAMES, {"rate": "1/s"})
    assert labels[0] == "rate (1/s)"
    assert labels[1] == "a very long name of a…"
    assert labels[2:] == ["cost_$", "$\\alpha$", "\\$\\broken{\\$"]


def test_runs_stand_beside_the_stack_with_their_weights(posterior):
    figure = drawn(plots.runs_plot(posterior, most=3))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "stack"
    heavy = int(np.argmax(posterior.run_weights))
    assert f"run {heavy}: {posterior.run_weights[heavy]:.1%}" in titles
    assert len(titles) == 4


def test_weights_and_elbos_are_those_of_the_runs(posterior):
    left, right = drawn(plots.weights_plot(posterior)).axes
    np.testing.assert_allclose([bar.get_width() for bar in left.patches], posterior.run_weights)
    np.testing.assert_allclose(right.lines[0].get_xdata(), [run.elbo for run in posterior.runs])


def test_overlap_and_coverage_show_the_diagnostics(posterior, found):
    image = drawn(plots.overlap_plot(posterior, found)).axes[0].images[0]
    np.testing.assert_array_equal(image.get_array(), found.coverage.overlap)
    bars = drawn(plots.coverage_plot(found)).axes[0].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], found.coverage.by_runs)


def test_the_learning_curve_shows_the_raw_curve_only_when_it_differs(found):
    ax = drawn(plots.learning_curve_plot(found)).axes[0]
    assert "raw, mean" not in ax.get_legend_handles_labels()[1]
    rng = np.random.default_rng(0)
    noisy = stack([random_run(rng, 2, noise_level=2) for _ in range(3)], tolerance=0.2)
    ax = drawn(plots.learning_curve_plot(diagnostics(noisy))).axes[0]
    assert "raw, mean" in ax.get_legend_handles_labels()[1]


def test_the_reported_one_is_marked_among_the_estimates(posterior):
    labels = [t.get_text() for t in drawn(plots.evidence_plot(posterior)).axes[0].get_yticklabels()]
    assert labels == ["raw (reported)", "capped by components", "capped by runs", "naive stacking"]


def test_figures_are_drawn_into_axes_that_are_given(posterior, found):
    figure = Figure()
    first, second, third = figure.subplots(1, 3)
    assert plots.evidence_plot(posterior, ax=first) is figure
    assert plots.weights_plot(posterior, ax=(second, third)) is figure
    assert plots.coverage_plot(found, ax=first) is figure
    mine = Figure(figsize=(4, 4))
    assert plots.corner_plot(posterior, fig=mine, n=200) is mine


def test_evaluations_need_runs_that_kept_them(posterior):
    drawn(plots.evaluations_plot(posterior))
    bare = stack([random_run(np.random.default_rng(0), 2)])
    with pytest.raises(ValueError, match="no run of this posterior has kept its evaluations"):
        plots.evaluations_plot(bare)
