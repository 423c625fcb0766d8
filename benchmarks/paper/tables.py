"""Markdown tables in the paper's layout, the paper's numbers beside ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.experiments import PAPER_PROBLEMS, load
from benchmarks.paper.protocol import interval

PAPER: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text("utf-8"))
TITLES = {
    "gmm": "GMM",
    "ring": "Ring",
    "gmm_noisy": "GMM, noise sd 3",
    "ring_noisy": "Ring, noise sd 3",
    "multisensory": "Multisensory, noise sd 3",
    "neuronal": "Neuronal",
}
SCORES = {"delta_lml": "ΔLML", "mmtv": "MMTV", "gskl": "GsKL"}
# Key of the paper's row, our method and number of runs, and what to call it.
LINES: tuple[tuple[str, str, int | None, str], ...] = (
    ("bbvi50", "bbvi50", None, "BBVI, 50 Gaussians"),
    ("bbvi500", "bbvi500", None, "BBVI, 500 Gaussians"),
    ("nautilus", "nautilus", None, "nautilus, evaluations of 10 runs"),
    ("emcee", "emcee", None, "emcee, evaluations of 10 runs"),
    ("vbmc", "vbmc", 1, "VBMC, one run"),
    ("naive10", "naive", 10, "naive stacking, 10 runs"),
    ("naive20", "naive", 20, "naive stacking, 20 runs"),
    ("runs10", "runs", 10, "one weight per run, 10 runs"),
    ("runs20", "runs", 20, "one weight per run, 20 runs"),
    ("adam10", "adam", 10, "all weights by the paper's Adam, 10 runs"),
    ("pyvbmc10", "pyvbmc", 10, "all weights by pyvbmc's SVBMC, 10 runs"),
    ("all10", "all", 10, "**all weights, 10 runs**"),
    ("all20", "all", 20, "**all weights, 20 runs**"),
    ("pooled10", "pooled", 10, "**all weights, pooled evaluations, 10 runs**"),
    ("pooled20", "pooled", 20, "**all weights, pooled evaluations, 20 runs**"),
)


def write_tables(folder: Path) -> Path:
    """Write `tables.md` from the results in the folder."""
    results = {name: load(folder / f"stack_{name}.json") for name in PAPER_PROBLEMS}
    there = {name: result for name, result in results.items() if result is not None}
    rows = {name: all_rows(folder, name) for name in there}
    parts = [
        "# Our numbers beside the paper's",
        "Made by `python -m benchmarks tables`. Median [95 % interval] over random subsets of "
        "runs, or over repetitions for methods that start from nothing; the paper's numbers in "
        "italics. Smaller is better.",
        *(_scores(name, there[name], rows[name]) for name in there),
        _filters(there),
        _debiasing(there, rows),
        _runtime(load(folder / "runtime.json")),
    ]
    path = folder / "tables.md"
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return path


def all_rows(folder: Path, problem: str) -> list[dict[str, Any]]:
    """Every result of a problem: stacks, baselines and peers."""
    files = [folder / f"{kind}_{problem}.json" for kind in ("stack", "baselines", "peers")]
    return [row for file in files for row in (load(file) or {"rows": []})["rows"]]


def values(rows: Iterable[dict[str, Any]], method: str, size: int | None, key: str) -> list[float]:
    """One number of every row of this method and number of runs; rows without it are left out."""
    return [
        row[key]
        for row in rows
        if row["method"] == method and row["runs"] == size and row.get(key) is not None
    ]


def cell(numbers: list[float]) -> str:
    """Median [95 % interval], two digits."""
    return _triple(interval(np.array(numbers))) if numbers else "–"


def _triple(three: Iterable[float]) -> str:
    median, low, high = (f"{value:.2g}" for value in three)
    return f"{median} [{low}, {high}]"


def _scores(problem: str, result: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    paper = PAPER["scores"][problem]
    lines = [
        f"## {TITLES[problem]}",
        "",
        f"Log evidence {result['log_evidence']:.4f} (± {result['log_evidence_sd']:.1g}); "
        f"{result['filter']['remaining']} archived runs pass the filters, {result['subsets']} "
        f"subsets of each size (one of all of them). {result['true_draws']['number']} draws from "
        f"the truth itself have an MMTV of {result['true_draws']['mmtv']:.2g} by kernel densities.",
        "",
        "| | ΔLML | MMTV | GsKL |",
        "|---|---|---|---|",
    ]
    for key, method, size, title in LINES:
        ours = [cell(values(rows, method, size, score)) for score in SCORES]
        if any(text != "–" for text in ours):
            lines.append(f"| {title} | {' | '.join(ours)} |")
        if key in paper:
            theirs = [f"*{_triple(paper[key][score])}*" for score in SCORES]
            lines.append(f"| *paper, {title.strip('*')}* | {' | '.join(theirs)} |")
    return "\n".join(lines)


def _filters(there: dict[str, dict[str, Any]]) -> str:
    lines = [
        "## Filters",
        "",
        "Archived runs, those not converged, those converged with a log-joint variance of 5 or "
        "more in a component, and those that remain; in italics the paper's.",
        "",
        "| | total | not converged | poorly converged | remaining |",
        "|---|---|---|---|---|",
    ]
    keys = ("total", "unconverged", "poor", "remaining")
    for name, result in there.items():
        pairs = [f"{result['filter'][key]} (*{PAPER['filter'][name][key]}*)" for key in keys]
        lines.append(f"| {TITLES[name]} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def _debiasing(there: dict[str, dict[str, Any]], rows: dict[str, list[dict[str, Any]]]) -> str:
    """Estimates of the log evidence by all-weights stacks, less the true ELBO of each."""
    lines = [
        "## Bias of the estimated ELBO",
        "",
        "Estimate less the true ELBO of the same stack (Monte Carlo with the true log density); "
        "all weights. log Z is the log evidence: the last two columns are what even a perfect "
        "estimate of the ELBO would miss, with own and with pooled values.",
        "",
        "| | runs | raw | capped by components | capped by runs | pooled | true ELBO − log Z "
        "| the same, pooled |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in there.items():
        truth = result["log_evidence"]
        for size in (2, 10, 20, 40):
            own = _differences(
                rows[name], "all", size, ("elbo", "capped_components", "capped_runs")
            )
            pooled = _differences(rows[name], "pooled", size, ("pooled_elbo",))
            if own["true_elbo"]:
                biases = [own["elbo"], own["capped_components"], own["capped_runs"]]
                short = [[v - truth for v in found["true_elbo"]] for found in (own, pooled)]
                columns = [*biases, pooled["pooled_elbo"], *short]
                cells = " | ".join(cell(column) for column in columns)
                lines.append(f"| {TITLES[name]} | {size} | {cells} |")
    return "\n".join(lines)


def _differences(
    rows: list[dict[str, Any]], method: str, size: int, estimates: tuple[str, ...]
) -> dict[str, list[float]]:
    """Of every stack of this method and size: estimates less the true ELBO, and that itself."""
    mine = [
        row
        for row in rows
        if row["method"] == method and row["runs"] == size and "true_elbo" in row
    ]
    found = {name: [row[name] - row["true_elbo"] for row in mine] for name in estimates}
    return {**found, "true_elbo": [row["true_elbo"] for row in mine]}


def _runtime(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    lines = [
        "## Post-processing time",
        "",
        f"`python -m benchmarks runtime` on {result['machine']}. Seconds of the median archived "
        "run, of stacking M runs with all weights by their own values, and by pooled evaluations "
        "where the runs kept surrogates; ratios to one run. The paper: 5 to 15 % at M = 10.",
        "",
        "| | one run, s | " + " | ".join(f"M = {m}" for m in (10, 20, 40)) + " | ratio at M = 10 "
        "| M = 10, pooled | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in PAPER_PROBLEMS:
        rows = {row["runs"]: row for row in result["rows"] if row["problem"] == name}
        if not rows:
            continue
        one = next(iter(rows.values()))["run_seconds"]
        own = [_seconds(rows.get(m, {}).get("seconds"), None) for m in (10, 20, 40)]
        ten = rows.get(10, {})
        ratio = _seconds(ten.get("seconds"), one)
        pooled = [_seconds(ten.get("pooled_seconds"), by) for by in (None, one)]
        cells = " | ".join([*own, ratio, *pooled])
        lines.append(f"| {TITLES[name]} | {one:.0f} | {cells} |")
    return "\n".join(lines)


def _seconds(measured: list[float] | None, one_run: float | None) -> str:
    """The median, in seconds or as a share of one run."""
    if not measured:
        return "–"
    median = float(np.median(measured))
    return f"{median:.2f}" if one_run is None else f"{100 * median / one_run:.1f} %"
