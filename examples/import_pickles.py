"""Posteriors that you pickled after pyvbmc runs, stacked without running anything again.

    python -m examples.import_pickles FOLDER

The folder holds what `vp.save(...)` of pyvbmc or `pickle.dump(vp, ...)` wrote. Loading a pickle can
execute any code in it, so do this only with your own files. On the command line:

    vbstack import FOLDER/*.pkl --out results --trust-pickles
    vbstack stack results
"""

from __future__ import annotations

import sys
from pathlib import Path

import dill

from vbstack import Run, StackedPosterior, stack


def main(folder: Path) -> StackedPosterior:
    paths = sorted(folder.glob("*.pkl"))
    runs = [Run.from_pyvbmc(dill.loads(path.read_bytes())) for path in paths]
    posterior = stack(runs)
    print(posterior.summary())
    return posterior


if __name__ == "__main__":
    main(Path(sys.argv[1]))
