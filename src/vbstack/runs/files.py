"""Files: arrays and a JSON header in one `.npz`. Reading one never executes code."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.runs.atomic import replacing
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.run import Run
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Transform

SCHEMA = 1
_HEADER = "header.json"
LATER = "later/"
_RUN_SCALARS = (
    *("elbo", "elbo_sd", "converged", "noise_level", "names"),
    *("seed", "seconds", "engine", "versions", "floored"),
)
_RUN_ARRAYS = ("weights", "means", "sds", "log_joint")
_PARTS: dict[str, type] = {
    "transform": Transform,
    "surrogate": Surrogate,
    "evaluations": Evaluations,
}


class FileError(ValueError):
    """A file that cannot be read as what it was asked for; the message says why."""


class OtherSchema(FileError):
    """A file of another version's format: whole, but not for this version to read."""


def write_file(
    path: str | os.PathLike[str],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    header: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> Path:
    """Write arrays and header to `path`, whole or not at all; a missing suffix becomes `.npz`."""
    target = Path(path)
    target = target if target.suffix else target.with_suffix(".npz")
    text = json.dumps({"format": f"vbstack {kind}", "schema": SCHEMA, **header}, allow_nan=True)
    content = {_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}
    content.update({name: _narrowed(array) for name, array in arrays.items()})
    with replacing(target, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **content)
    return target


def read_file(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the header of a file that `write_file` made for this kind."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        header = json.loads(bytes(arrays.pop(_HEADER)))
        found, schema = header["format"], header["schema"]
    except FileNotFoundError:
        raise
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        RuntimeError,
    ) as error:
        raise FileError(f"{path} is not a vbstack {kind} file, or is damaged: {error}") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"{path} is damaged: {error}") from error
    if found != f"vbstack {kind}":
        raise FileError(f"{path} holds a {found!r}, expected a 'vbstack {kind}'")
    if schema != SCHEMA:
        raise OtherSchema(
            f"{path} has schema version {schema}, this vbstack reads {SCHEMA}: use the version of "
            "vbstack that wrote it, or a newer one"
        )
    return arrays, header


def save_runs(
    path: str | os.PathLike[str],
    runs: Sequence[Run],
    *,
    compact: bool = False,
    overwrite: bool = False,
) -> Path:
    """Write runs to one file.

    `compact` leaves out the surrogate, and keeps of the quadrature covariances J only their mean
    over hyperparameter samples in single precision: about 12 kB a run, with nothing lost that
    stacking uses beyond the seventh digit of J.
    """
    arrays, headers = pack_runs([compacted(run) if compact else run for run in runs])
    return write_file(path, "runs", arrays, {"runs": headers}, overwrite=overwrite)


def load_runs(path: str | os.PathLike[str]) -> list[Run]:
    """The runs that `save_runs` wrote."""
    arrays, header = read_file(path, "runs")
    return unpack_runs(path, arrays, header.get("runs"))


def compacted(run: Run) -> Run:
    """The run without its surrogate and with J averaged over hyperparameter samples."""
    mean = run.log_joint_covariance.mean(axis=0, keepdims=True)
    return replace(run, surrogate=None, log_joint_covariance=mean.astype(np.float32))


def pack_runs(runs: Sequence[Run]) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """Named arrays and JSON headers of runs, for a file."""
    arrays: dict[str, NDArray[Any]] = {}
    headers = []
    for index, run in enumerate(runs):
        rows, columns = np.triu_indices(run.n_components)
        mine = {name: getattr(run, name) for name in _RUN_ARRAYS}
        mine["log_joint_covariance"] = run.log_joint_covariance[:, rows, columns]
        if run.start is not None:
            mine["start"] = run.start
        header = {name: getattr(run, name) for name in _RUN_SCALARS}
        for part, record in _PARTS.items():
            value = getattr(run, part)
            for field in fields(record) if value is not None else ():
                item = getattr(value, field.name)
                if isinstance(item, str):
                    header[f"{part}.{field.name}"] = item
                elif item is not None:
                    mine[f"{part}.{field.name}"] = item
        for name, array in mine.items():
            arrays[f"{_later(name)}{index:04d}/{name}"] = array
        headers.append(header)
    return arrays, headers


def unpack_runs(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    headers: Sequence[Mapping[str, Any]] | None,
) -> list[Run]:
    """The runs that `pack_runs` packed; `path` is named in errors."""
    if not headers:
        raise FileError(f"{path} holds no runs")
    try:
        return [_unpack_run(arrays, f"{i:04d}/", dict(h)) for i, h in enumerate(headers)]
    except (KeyError, ValueError, TypeError) as error:
        raise FileError(f"{path}: a run in it is incomplete or invalid: {error}") from error


def _unpack_run(arrays: Mapping[str, NDArray[Any]], prefix: str, header: dict[str, Any]) -> Run:
    mine: dict[str, Any] = {
        name.removeprefix(LATER).removeprefix(prefix): array
        for name, array in arrays.items()
        if name.removeprefix(LATER).startswith(prefix)
    }
    parts: dict[str, Any] = {}
    for part, record in _PARTS.items():
        names = [field.name for field in fields(record)]
        items = {n: mine.pop(f"{part}.{n}") for n in names if f"{part}.{n}" in mine}
        items |= {n: header.pop(f"{part}.{n}") for n in names if f"{part}.{n}" in header}
        parts[part] = record(**items) if items else None
    triangle = mine.pop("log_joint_covariance")
    size = mine["means"].shape[0]
    rows, columns = np.triu_indices(size)
    covariance = np.empty((len(triangle), size, size))
    covariance[:, rows, columns] = covariance[:, columns, rows] = triangle
    header["names"] = tuple(header["names"])
    return Run(log_joint_covariance=covariance, **mine, **parts, **header)


def _later(name: str) -> str:
    """The prefix of an array that version 0.1.0 did not have: it does not look there."""
    return LATER if name in ("evaluations.seconds", "evaluations.failed") else ""


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Single precision where that loses nothing."""
    array = np.asarray(array)
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = array.astype(np.float32)
        if np.array_equal(single.astype(np.float64), array, equal_nan=True):
            return single
    return array
