"""The paper's figures from our results: scores against M, bias, overhead, posteriors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from benchmarks.paper.experiments import load
from benchmarks.paper.protocol import Case, filtered, interval, subsets, target_of, truth_of
from benchmarks.paper.tables import SCORES, TITLES, all_rows, values
from vbstack import Mixture, stack

UNITS = {
    **dict.fromkeys(("sigma_vis_1", "sigma_vis_2", "sigma_vis_3", "sigma_vest", "kappa"), " (°)"),
    "resistivity": " (Ω cm)",
    "reversal": " (mV)",
    "conductance": " (µS/cm²)",
    "gradient": " (1/µm)",
}
COLOURS = {
    "all": "#0072B2",
    "runs": "#56B4E9",
    "naive": "#7f7f7f",
    "vbmc": "#D55E00",
    "pooled": "#AA3377",
}
LABELS = {
    "all": "all weights",
    "runs": "per run",
    "naive": "naive",
    "vbmc": "one VBMC run",
    "pooled": "pooled evaluations",
}
THRESHOLDS = {"delta_lml": 1.0, "mmtv": 0.2, "gskl": 0.125}
SHOWN_RUNS = 10
POINTS = 1500
# A PNG that holds no version or date is the same on every run.
PLAIN = {"Software": None}


def write_figures(folder: Path, cases: list[Case]) -> list[Path]:
    """Every figure for which there are results in the folder."""
    there = [case for case in cases if (folder / f"stack_{case.problem}.json").exists()]
    figures = {"scores": scores(folder, there), "bias": bias(folder, there)}
    runtime = load(folder / "runtime.json")
    if runtime is not None:
        figures["overhead"] = overhead(runtime)
    planar = [case for case in there if target_of(case).dimension == 2]
    if planar:
        figures["overlays"] = overlays(planar)
    figures |= {f"corner_{c.problem}": corner(c) for c in there if target_of(c).dimension > 2}
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=120, metadata=PLAIN)
        plt.close(figure)
    return paths


def scores(folder: Path, cases: list[Case]) -> Any:
    """ELBO, ΔLML, MMTV and GsKL against the number of runs, one row of panels per problem."""
    keys = ("elbo", *SCORES)
    figure, axes = plt.subplots(
        len(cases), 4, figsize=(12, 2.6 * len(cases) + 0.6), squeeze=False, sharex=True
    )
    for line, case in zip(axes, cases, strict=True):
        rows = all_rows(folder, case.problem)
        for axis, key in zip(line, keys, strict=True):
            for method in COLOURS:
                _line(axis, rows, method, key)
            shown = axis.get_ylim()
            _bbvi(axis, rows, key)
            axis.set_xscale("log")
            if key == "elbo":
                axis.set_ylim(shown)  # BBVI may be far below
                axis.axhline(truth_of(case).log_evidence, color="black", lw=1)
                axis.set_ylabel(TITLES[case.problem])
            else:
                axis.set_yscale("log")
                axis.axhline(THRESHOLDS[key], color="black", ls="--", lw=0.8)
    for axis, key in zip(axes[0], keys, strict=True):
        axis.set_title({"elbo": "estimated ELBO", **SCORES}[key])
    for axis in axes[-1]:
        axis.set_xticks([1, 2, 4, 10, 20, 40], ["1", "2", "4", "10", "20", "40"])
        axis.minorticks_off()
        axis.set_xlabel("runs stacked")
    _legend(figure, axes[:, 0], ncols=6)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.45 / figure.get_figheight()))
    return figure


def _line(axis: Any, rows: list[dict[str, Any]], method: str, key: str) -> None:
    sizes = sorted({row["runs"] for row in rows if row["method"] == method})
    if not sizes:
        return
    triples = np.array([interval(np.array(values(rows, method, m, key))) for m in sizes])
    middle, low, high = triples.T
    axis.errorbar(
        sizes, middle, [middle - low, high - middle], color=COLOURS[method], marker="o", ms=3.5,
        lw=1.2, capsize=2, label=LABELS[method],
    )  # fmt: skip


def _bbvi(axis: Any, rows: list[dict[str, Any]], key: str) -> None:
    """The better of the two BBVI baselines, at the right edge as in the paper."""
    groups = [values(rows, method, None, key) for method in ("bbvi50", "bbvi500")]
    groups = [numbers for numbers in groups if numbers]
    if not groups:
        return
    worst = key != "elbo"
    best = min(groups, key=np.median) if worst else max(groups, key=np.median)
    middle, low, high = interval(np.array(best))
    axis.errorbar(
        [48], [middle], [[middle - low], [high - middle]], color="#009E73", marker="s", ms=4,
        capsize=2, label="best BBVI",
    )  # fmt: skip


def bias(folder: Path, cases: list[Case]) -> Any:
    """Estimates of the ELBO and of the expected log-joint beside the truth, against M."""
    shown = [c for c in cases if any("true_elbo" in r for r in all_rows(folder, c.problem))]
    figure, axes = plt.subplots(2, len(shown), figsize=(3.6 * len(shown), 6), squeeze=False)
    for column, case in zip(axes.T, shown, strict=True):
        rows = all_rows(folder, case.problem)
        curves = (
            ("all", "elbo", "raw", "#0072B2", "-"),
            ("all", "capped_runs", "capped by runs", "#E69F00", "-"),
            ("all", "capped_components", "capped by components", "#CC79A7", "-"),
            ("all", "true_elbo", "true ELBO of the stack", "black", "-"),
            ("pooled", "pooled_elbo", "pooled", "#009E73", "-"),
            ("pooled", "true_elbo", "true ELBO of the pooled stack", "black", "--"),
        )
        _curves(column[0], rows, curves)
        column[0].axhline(truth_of(case).log_evidence, color="black", ls=":", lw=1)
        column[0].set_title(TITLES[case.problem])
        joints = (
            ("all", "expected_log_joint", "by the runs", "#0072B2", "-"),
            ("all", "true_log_joint", "Monte Carlo", "black", "-"),
        )
        _curves(column[1], rows, joints)
        column[1].set_xlabel("runs stacked")
    axes[0, 0].set_ylabel("ELBO (nats)")
    axes[1, 0].set_ylabel("expected log-joint (nats)")
    axes[1, 0].legend(frameon=False, fontsize=8)
    _legend(figure, axes[0], ncols=2 if len(shown) < 3 else 3)
    figure.tight_layout(rect=(0, 0, 1, 0.91))
    return figure


def _legend(figure: Any, axes: Any, ncols: int) -> None:
    """One legend above all panels, with every label that occurs in one of these."""
    found = [axis.get_legend_handles_labels() for axis in axes]
    items = {label: handle for pair in found for handle, label in zip(*pair, strict=True)}
    figure.legend(list(items.values()), list(items), loc="upper center", ncols=ncols, frameon=False)


def _curves(
    axis: Any, rows: list[dict[str, Any]], curves: tuple[tuple[str, str, str, str, str], ...]
) -> None:
    for method, key, label, colour, style in curves:
        sizes = sorted({row["runs"] for row in rows if row["method"] == method})
        if not sizes:
            continue
        triples = np.array([interval(np.array(values(rows, method, m, key))) for m in sizes])
        middle, low, high = triples.T
        axis.errorbar(
            sizes, middle, [middle - low, high - middle], color=colour, marker="o", ms=3, lw=1,
            ls=style, capsize=2, label=label,
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xticks([2, 4, 10, 20, 40], ["2", "4", "10", "20", "40"])
    axis.minorticks_off()


def overhead(runtime: dict[str, Any]) -> Any:
    """Seconds of stacking against M, and of one run."""
    problems = list(dict.fromkeys(row["problem"] for row in runtime["rows"]))
    figure, axes = plt.subplots(1, len(problems), figsize=(3.2 * len(problems), 3), squeeze=False)
    for axis, problem in zip(axes[0], problems, strict=True):
        rows = [row for row in runtime["rows"] if row["problem"] == problem]
        sizes = [row["runs"] for row in rows]
        axis.plot(
            sizes, [np.median(row["seconds"]) for row in rows], color=COLOURS["all"], marker="o",
            label="stacking",
        )  # fmt: skip
        axis.axhline(rows[0]["run_seconds"], color=COLOURS["vbmc"], label="one VBMC run")
        axis.set(title=TITLES[problem], xlabel="runs stacked", xscale="log", yscale="log")
        axis.set_xticks([2, 4, 10, 20, 40], ["2", "4", "10", "20", "40"])
        axis.xaxis.minorticks_off()
    axes[0, 0].set_ylabel("seconds")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def overlays(cases: list[Case]) -> Any:
    """Draws of one run, of a naive stack and of the stack over the target density."""
    figure, axes = plt.subplots(
        len(cases), 3, figsize=(9, 3 * len(cases)), squeeze=False, sharex=True, sharey=True
    )
    x = np.linspace(-12, 12, 400)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    for line, case in zip(axes, cases, strict=True):
        line[0].set_ylabel(f"{TITLES[case.problem]}\n\nx2")
        density = np.exp(target_of(case).log_densities(grid)).reshape(x.size, x.size)
        for axis, (title, draws) in zip(line, examples(case).items(), strict=True):
            axis.pcolormesh(x, x, np.sqrt(density), cmap="Greys", shading="auto", rasterized=True)
            axis.scatter(*draws.T, s=3, color="#D55E00", alpha=0.55, lw=0, rasterized=True)
            axis.set(title=title, xlim=(-12, 12), ylim=(-12, 12))
            axis.set_aspect("equal")
    for axis in axes[-1]:
        axis.set_xlabel("x1")
    figure.tight_layout()
    return figure


def examples(case: Case) -> dict[str, Any]:
    """Draws (POINTS, D) of one run and of stacks of the first subset of SHOWN_RUNS runs."""
    runs = filtered(case).runs
    size = min(SHOWN_RUNS, len(runs))
    chosen = [runs[i] for i in subsets(len(runs), size)[0]]
    one = Mixture.from_runs(chosen[:1])
    rng = np.random.default_rng(0)
    return {
        "one run": one.sample(one.own_weights, POINTS, rng),
        f"naive, {size} runs": stack(chosen, weights="naive").sample(POINTS, seed=0),
        f"all weights, {size} runs": stack(chosen, refine=False).sample(POINTS, seed=0),
    }


def corner(case: Case) -> Any:
    """Marginals and pairs of one run (orange) and of the stack (blue) over the truth (black)."""
    shown = list(examples(case).values())
    pair = {"one VBMC run": (shown[0], COLOURS["vbmc"]), "stack": (shown[2], COLOURS["all"])}
    truth = truth_of(case)
    names = [f"{name}{UNITS.get(name, '')}" for name in target_of(case).names]
    d = len(names)
    reference = truth.draws[:POINTS]
    low, high = np.quantile(truth.draws, [0.001, 0.999], axis=0)
    margin = 0.15 * (high - low)
    figure, axes = plt.subplots(d, 2 * d, figsize=(3.2 * d, 1.7 * d), squeeze=False)
    for half, (title, (draws, colour)) in enumerate(pair.items()):
        for i in range(d):
            for j in range(d):
                axis = axes[i, j + half * d]
                if j > i:
                    axis.set_axis_off()
                    continue
                axis.set_xlim(low[j] - margin[j], high[j] + margin[j])
                if i == j:
                    axis.plot(truth.grids[i], truth.densities[i], color="black", lw=1)
                    axis.hist(draws[:, i], 40, density=True, color=colour, alpha=0.6)
                    axis.set_yticks([])
                else:
                    axis.scatter(*reference[:, [j, i]].T, s=1, color="black", alpha=0.35, lw=0)
                    axis.scatter(*draws[:, [j, i]].T, s=1, color=colour, alpha=0.35, lw=0)
                    axis.set_ylim(low[i] - margin[i], high[i] + margin[i])
                _labels(axis, i, j, d, names)
        axes[0, half * d].set_title(title, color=colour)
    figure.tight_layout(pad=0.3, h_pad=0.2, w_pad=0.2)
    return figure


def _labels(axis: Any, i: int, j: int, d: int, names: list[str]) -> None:
    axis.tick_params(labelsize=6)
    if i == d - 1:
        axis.set_xlabel(names[j], fontsize=7)
    else:
        axis.set_xticklabels([])
    if j == 0 and i > 0:
        axis.set_ylabel(names[i], fontsize=7)
    else:
        axis.set_yticklabels([])
