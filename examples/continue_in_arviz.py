"""Go on in ArviZ: `python -m examples.continue_in_arviz [folder]`.

Ten archived VBMC runs of a six-dimensional problem are stacked and handed to ArviZ, which prints
its summary and draws a figure. PyMC users know both. Needs `pip install vbstack[arviz] arviz-stats
arviz-plots`; with Python 3.12 or later `pip install "arviz>=1"` brings all of them, and the
functions are `az.summary` and `az.plot_forest`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.archived_runs import archive
from vbstack import load_runs, stack


def arviz_plots() -> Any:
    """The module arviz_plots; the last version for Python 3.11 expects an old matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # arviz-plots 0.8 uses matplotlib.style.core, which matplotlib 3.11 no longer loads itself.
        if sys.version_info < (3, 12):
            importlib.import_module("matplotlib.style.core")
        return importlib.import_module("arviz_plots")


def main(folder: str = "demo-results") -> None:
    summary = importlib.import_module("arviz_stats").summary
    posterior = stack(load_runs(archive("banana6"))[:10])
    data = posterior.to_arviz(4000, seed=1)
    table = summary(data, kind="stats")
    print(table.to_string())
    evidence = data.attrs["log_evidence"], data.attrs["log_evidence_sd"]
    print("log evidence {:.3f} ± {:.3f}".format(*evidence))

    target = Path(folder)
    target.mkdir(exist_ok=True)
    arviz_plots().plot_forest(data, combined=True).savefig(target / "arviz_forest.png")
    print(f"Figure: {target / 'arviz_forest.png'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
