"""Posteriors that users of pyvbmc and svbmc have pickled, as a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dill
import numpy as np

from vbstack.problem import Problem
from vbstack.runs.pyvbmc_objects import read_posterior
from vbstack.runs.run import Run
from vbstack.runs.store import RunStore


def import_pickles(files: Sequence[Path], out: Path) -> int:
    """A new store at `out` with these posteriors as runs, and how many there are.

    Loading a pickle can execute anything: the caller has asked the user.
    """
    if (out / "store.json").exists():
        raise FileExistsError(f"{out} is a store already; import into a new directory")
    imported: list[Run] = []
    for path in files:
        with path.open("rb") as file:
            imported.append(read_posterior(dill.load(file)))
    store = RunStore(out)
    first = imported[0].transform
    half = np.full((1, first.dimension), 0.5)
    described = Problem(
        log_density=_no_density,
        lower_bounds=first.lower,
        upper_bounds=first.upper,
        plausible_lower_bounds=first.inverse(-half)[0],
        plausible_upper_bounds=first.inverse(half)[0],
        names=imported[0].names,
        noisy=imported[0].is_noisy,
    )
    store.open(described, seed=0, options={"imported": [path.name for path in files]})
    for index, one in enumerate(imported):
        store.save(index, one)
    return len(imported)


def _no_density(x: Any) -> float:
    raise RuntimeError("imported runs have no log density")
