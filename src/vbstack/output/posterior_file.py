"""A stacked posterior as one `.npz` file (see `runs.files`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.posterior import StackedPosterior
from vbstack.runs.files import FileError, pack_runs, read_file, unpack_runs, write_file
from vbstack.runs.run import Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.mixture import Mixture, own_log_joints
from vbstack.stacking.screening import Dropped, Screen
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.weights import WeightSolution


def save(
    posterior: StackedPosterior, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write everything to one `.npz`; an existing file is kept unless `overwrite` is given.

    Expected log-joints are written where they are not the runs' own.
    """
    arrays, headers = pack_runs(posterior.runs)
    solution = asdict(posterior.solution)
    arrays["solution.weights"] = solution.pop("weights")
    if posterior.evidence.from_pool is not None:
        arrays["link_log_joint"] = posterior.link_log_joint
    header = {
        "runs": headers,
        "kept": list(posterior.kept),
        "dropped": [asdict(d) for d in posterior.dropped],
        "target": posterior.target,
        "settings": asdict(posterior.settings),
        "sources": list(posterior.sources),
        "solution": solution,
        "evidence": posterior.evidence.as_dict(),
    }
    return write_file(path, "posterior", arrays, header, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> StackedPosterior:
    """The posterior that `save` wrote, in this version or in 0.1.0."""
    arrays, header = read_file(path, "posterior")
    runs = tuple(unpack_runs(path, arrays, header.get("runs")))
    try:
        pooled = arrays.get("link_log_joint")
        return StackedPosterior(
            runs=runs,
            kept=tuple(header["kept"]),
            dropped=tuple(Dropped(**d) for d in header["dropped"]),
            settings=_settings(header),
            solution=WeightSolution(weights=_weights(arrays), **header["solution"]),
            evidence=Evidence.from_dict(header["evidence"]),
            link_log_joint=own_log_joints(runs) if pooled is None else pooled,
            sources=tuple(header["sources"]) if "sources" in header else _sources(header, runs),
            mixture=Mixture.from_runs(runs),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(f"{path} is incomplete or invalid: {error}") from error


def _settings(header: Mapping[str, Any]) -> StackSettings:
    """The settings; of those, version 0.1.0 wrote the kind of weights only."""
    if "settings" not in header:
        return StackSettings(weights=header["target"])
    given = dict(header["settings"])
    return StackSettings(**{**given, "screen": Screen(**given["screen"])})


def _sources(header: Mapping[str, Any], runs: Sequence[Run]) -> tuple[str, ...]:
    """Digests of the runs given; those dropped are not known in a file of version 0.1.0."""
    sources = [""] * (len(header["kept"]) + len(header["dropped"]))
    for place, run in zip(header["kept"], runs, strict=True):
        sources[place] = run.digest
    return tuple(sources)


def _weights(arrays: Mapping[str, NDArray[Any]]) -> Array:
    return np.asarray(arrays["solution.weights"], dtype=float)
