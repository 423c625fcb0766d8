"""The figure of the method's page: `python -m examples.method_figures` writes docs/images.

Log evidence of stacks of the first M archived runs, with an exact and with a noisy log density.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.archived_runs import archive
from benchmarks.problems import PROBLEMS
from vbstack import Evidence, load_runs, stack

OUTPUT = Path(__file__).parents[1] / "docs" / "images"
SERIES = (
    ("raw", "raw", "#0072B2", "-"),
    ("capped_components", "capped by components", "#D55E00", "--"),
    ("naive", "naive stacking", "#999999", ":"),
)


def evidences(name: str, most: int) -> dict[int, Evidence]:
    """The evidence of the first 1, 2, … runs of an archive."""
    runs = load_runs(archive(name))[:most]
    return {m: stack(runs[:m]).evidence for m in range(1, len(runs) + 1)}


def main() -> None:
    from matplotlib.figure import Figure

    fig = Figure(figsize=(10, 4), layout="constrained")
    axes = fig.subplots(1, 2, sharey=True)
    panels = (("gmm", "exact log density"), ("gmm_noisy", "noise of 3 nats"))
    for ax, (name, title) in zip(axes, panels, strict=True):
        found = evidences(name, 15)
        for field, label, colour, style in SERIES:
            values = [getattr(e, field) for e in found.values()]
            ax.plot(list(found), values, style, color=colour, label=label, lw=2)
        ax.axhline(PROBLEMS[name]().log_evidence, color="black", lw=1, label="truth, log 20")
        ax.set(title=title, xlabel="runs stacked")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("log evidence (nats)")
    axes[0].legend(frameon=False)
    fig.savefig(OUTPUT / "evidence.png", dpi=130)


if __name__ == "__main__":
    main()
