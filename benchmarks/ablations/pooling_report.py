"""Tables and figure of `python -m benchmarks pooling`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from benchmarks.folders import RESULTS

Row = dict[str, Any]
RESAMPLES = 2000


def report(name: str, rows: list[Row], lucks: list[Row], costs: list[Row], machine: str) -> str:
    """The Markdown text; also written, with JSON and figure, to `results/<name>.*`."""
    RESULTS.mkdir(exist_ok=True)
    summaries = summarise(rows)
    record = {"machine": machine, "summary": summaries, "luck": lucks, "cost": costs, "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=0) + "\n")
    flag = " --exact" if name.endswith("exact") else ""
    text = "\n".join(
        [
            f"Made by `python -m benchmarks pooling{flag}` on {machine}.",
            "",
            "Medians over random subsets of runs, with 95 % bootstrap intervals of the median "
            "(of the choice of subsets: all come from the same archive and share its luck). "
            "bias: estimate − ELBO of the same stack under the exact log density; error: of the "
            "log evidence; covered: the log evidence within 1.96 stated standard deviations.",
            *(f"\n{_luck_line(entry)}" for entry in lucks),
            *(_table(summaries, *key) for key in _keys(summaries)),
            "",
            _cost_table(costs),
            "",
        ]
    )
    (RESULTS / f"{name}.md").write_text(text)
    figure(summaries, RESULTS / f"{name}.png")
    return text


def summarise(rows: list[Row]) -> list[Row]:
    """One row per problem, number of runs and method."""
    keys = dict.fromkeys((row["problem"], row["runs"], row["method"]) for row in rows)
    return [_summary(key, [r for r in rows if _key(r) == key]) for key in keys]


def _key(row: Row) -> tuple[str, int, str]:
    return row["problem"], row["runs"], row["method"]


def _summary(key: tuple[str, int, str], mine: list[Row]) -> Row:
    columns = {name: np.array([row[name] for row in mine], dtype=float) for name in _MEASURES}
    columns["absolute_error"] = np.abs(columns["error"])
    columns["absolute_bias"] = np.abs(columns["bias"])
    return {
        **dict(zip(("problem", "runs", "method"), key, strict=True)),
        "subsets": len(mine),
        "covered": float(np.mean([row["covered"] for row in mine])),
        **{name: [float(np.median(v)), *_interval(v)] for name, v in columns.items()},
    }


_MEASURES = ("bias", "error", "sd", "true_elbo", "mmtv", "gskl")


def _interval(values: Array) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(low), float(high)


def _keys(summaries: list[Row]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["problem"], row["runs"]) for row in summaries))


def _luck_line(entry: Row) -> str:
    return (
        f"{entry['problem']}: {entry['runs']} usable runs, {entry['evaluations']} evaluations; "
        f"their mean noise within two nats of the top is {entry['mean_noise']:+.3f} ± "
        f"{entry['mean_noise_se']:.3f} (an offset that no method can see)."
    )


def _table(summaries: list[Row], problem: str, size: int) -> str:
    mine = [row for row in summaries if (row["problem"], row["runs"]) == (problem, size)]
    lines = [
        "",
        f"## {problem}, M = {size}, {mine[0]['subsets']} subsets",
        "",
        "| estimate | bias | error of log evidence | its size | covered | MMTV | GsKL | ELBO |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in mine:
        lines.append(
            f"| {row['method']} | {_cell(row['bias'], '+.3f')} | {_cell(row['error'], '+.3f')} | "
            f"{_cell(row['absolute_error'], '.3f')} | {_covered(row)} | "
            f"{_cell(row['mmtv'], '.3f')} | {_cell(row['gskl'], '.4f')} | "
            f"{_cell(row['true_elbo'], '.3f')} |"
        )
    return "\n".join(lines)


def _covered(row: Row) -> str:
    return "–" if np.isnan(row["sd"][0]) else f"{100 * row['covered']:.0f} %"


def _cell(values: list[float], style: str) -> str:
    middle, low, high = (format(value, style) for value in values)
    return f"{middle} [{low}, {high}]"


def _cost_table(costs: list[Row]) -> str:
    lines = [
        "## Cost of `pool`, one thread",
        "",
        "| problem | M (distinct runs) | evaluations used | rank | CPU seconds | peak extra MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in costs:
        lines.append(
            f"| {row['problem']} | {row['runs']} ({row['distinct_runs']}) | {row['evaluations']} | "
            f"{row['rank']} | {row['cpu_seconds']:.2f} | {row['megabytes']:.0f} |"
        )
    return "\n".join(lines)


STYLES = {
    "own values: raw": ("#D55E00", "s", "own values, raw"),
    "own values: capped by components": ("#CC79A7", "v", "own, capped by components"),
    "own values: capped by runs": ("#999999", "P", "own, capped by runs"),
    "own values: pyvbmc 1.5's two-level shrinkage": ("#E69F00", "^", "own, pyvbmc's shrinkage"),
    "pooled: log evidence": ("#0072B2", "o", "pooled"),
}
PANELS = {
    "bias": "bias of the ELBO (nats)",
    "error": "error of the log evidence (nats)",
    "mmtv": "MMTV",
    "gskl": "GsKL",
}


def figure(summaries: list[Row], path: Path) -> None:
    """Bias, error, MMTV and GsKL against the number of runs, one row per problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    problems = list(dict.fromkeys(row["problem"] for row in summaries))
    fig, axes = plt.subplots(
        len(problems), len(PANELS), figsize=(15, 3.6 * len(problems) + 0.5), squeeze=False
    )
    for line, problem in zip(axes, problems, strict=True):
        for ax, (measure, label) in zip(line, PANELS.items(), strict=True):
            _panel(ax, [row for row in summaries if row["problem"] == problem], measure)
            ax.set(title=problem, xlabel="number of runs M", ylabel=label)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.tight_layout(rect=(0, 0.5 / (3.6 * len(problems) + 0.5), 1, 1))
    fig.legend(handles, labels, loc="lower center", ncol=len(STYLES), frameon=False)
    fig.savefig(path, dpi=110)
    plt.close(fig)


def _panel(ax: Any, rows: list[Row], measure: str) -> None:
    """Medians with 95 % intervals; MMTV and GsKL are the same for all estimates of one stack."""
    methods = ("own values: raw", "pooled: log evidence") if measure in ("mmtv", "gskl") else STYLES
    for shift, method in enumerate(methods):
        colour, marker, label = STYLES[method]
        mine = [row for row in rows if row["method"] == method]
        middle, low, high = np.array([row[measure] for row in mine]).T
        sizes = np.array([row["runs"] for row in mine]) + 0.25 * (shift - 2)
        ax.errorbar(
            sizes, middle, [middle - low, high - middle],
            color=colour, marker=marker, label=label, capsize=2, lw=1.2, ms=5,
        )  # fmt: skip
    ax.set_xticks(sorted({row["runs"] for row in rows}))
    if measure in ("bias", "error"):
        ax.axhline(0, color="0.4", lw=0.8, ls="--")
        ax.axhspan(-0.1, 0.1, color="0.93", zorder=0)
    else:
        ax.set_ylim(bottom=0)
    ax.grid(alpha=0.25)
