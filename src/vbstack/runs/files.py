"""Files: arrays and a JSON header in one `.npz`. Reading one never executes code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.checks import shortened
from vbstack.runs.atomic import replacing
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.header_checks import checked_run_header
from vbstack.runs.npz import read_arrays
from vbstack.runs.opening import read_regular
from vbstack.runs.printable import LONGEST, printable
from vbstack.runs.run import Run
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Transform

SCHEMA = 1
_HEADER = "header.json"
_LARGEST_HEADER = 2**24  # bytes: thousands of runs
_LARGEST_NUMBER = 1e150  # of a component's place and width: their squares are finite
LATER = "later/"
_ADDED = ("evaluations.seconds", "evaluations.failed", "evaluations.rejected")
_RUN_SCALARS = (
    *("elbo", "elbo_sd", "converged", "noise_level", "names"),
    *("seed", "seconds", "engine", "versions", "floored", "looks"),
)
_RUN_ARRAYS = ("weights", "means", "sds", "log_joint")
_PARTS: dict[str, type] = {
    "transform": Transform,
    "surrogate": Surrogate,
    "evaluations": Evaluations,
}


class FileError(ValueError):
    """A file that cannot be read as what it was asked for; the message says why."""

    def __init__(self, message: str):
        super().__init__(printable(shortened(message, LONGEST), lines=True))


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
    with replacing(target, overwrite=overwrite) as file:
        np.savez_compressed(file, allow_pickle=False, **content)
    return target


def read_file(
    path: str | os.PathLike[str], kind: str, *, follow: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the header of a file that `write_file` made for this kind.

    Errors of the system are raised as they are; whatever is wrong with the content is a FileError.
    `follow` allows the path to be a symbolic link.
    """
    content = read_regular(Path(path), follow=follow)
    try:
        arrays: dict[str, NDArray[Any]] = dict(read_arrays(content))
        text = bytes(arrays.pop(_HEADER).astype(np.uint8, casting="equiv"))
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is not a vbstack {kind} file, or is damaged: {error}") from error
    if len(text) > _LARGEST_HEADER:
        raise FileError(f"{path} is damaged: its header has {len(text)} bytes")
    header = parsed_json(path, text)
    if not isinstance(header, dict):
        raise FileError(f"{path} is not a vbstack {kind} file: its header is no JSON object")
    found, schema = header.get("format"), header.get("schema")
    if not isinstance(found, str) or type(schema) is not int:
        raise FileError(f"{path} is not a vbstack {kind} file, or is damaged: no format or schema")
    if found != f"vbstack {kind}":
        raise FileError(f"{path} holds a {found!r}, expected a 'vbstack {kind}'")
    if schema != SCHEMA:
        raise OtherSchema(
            f"{path} has schema version {schema}, this vbstack reads {SCHEMA}: use the version of "
            "vbstack that wrote it, or a newer one"
        )
    return arrays, header


def parsed_json(path: str | os.PathLike[str], text: bytes) -> Any:
    """What a JSON text holds; a FileError that names the file if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: {error or 'nested too deeply'}") from error


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


def load_runs(path: str | os.PathLike[str], *, follow: bool = True) -> list[Run]:
    """The runs that `save_runs` wrote; `follow` allows the path to be a symbolic link."""
    arrays, header = read_file(path, "runs", follow=follow)
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
    headers: Any,
) -> list[Run]:
    """The runs that `pack_runs` packed; `path` is named in errors."""
    if not headers:
        raise FileError(f"{path} holds no runs")
    if not isinstance(headers, list) or not all(isinstance(header, dict) for header in headers):
        raise FileError(f"{path} is damaged: its runs are not a list of headers")
    try:
        return [_unpack_run(arrays, f"{i:04d}/", dict(h)) for i, h in enumerate(headers)]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise FileError(
            f"{path}: a run in it is incomplete or invalid: {type(error).__name__}: {error}"
        ) from error


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
    covariance = _square(mine.pop("log_joint_covariance"), mine["means"])
    checked_run_header(header)
    header["names"] = tuple(header["names"])
    run = Run(log_joint_covariance=covariance, **mine, **parts, **header)
    _check_geometry(run)
    return run


def _square(triangle: NDArray[Any], means: NDArray[Any]) -> NDArray[Any]:
    """Symmetric matrices (Ns, K, K) from their upper triangles (Ns, K (K + 1) / 2)."""
    if means.ndim != 2 or 0 in means.shape:
        raise ValueError(f"means has shape {means.shape}, expected (K, D)")
    size = means.shape[0]
    if triangle.ndim != 2 or triangle.shape[1] != size * (size + 1) // 2:
        raise ValueError(f"log_joint_covariance has shape {triangle.shape} for {size} components")
    rows, columns = np.triu_indices(size)
    covariance = np.empty((len(triangle), size, size))
    covariance[:, rows, columns] = covariance[:, columns, rows] = triangle
    return covariance


def _check_geometry(run: Run) -> None:
    """An error if the components' places and widths are beyond what can be computed with."""
    map_ = run.transform
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = map_.matrix
        places = map_.centre + run.means @ matrix.T
        widths = np.sqrt(np.square(matrix * run.sds[:, None, :] / 1e150).sum(axis=2)) * 1e150
        narrow = np.abs(matrix).max(axis=0) * run.sds
    bounds = np.concatenate([map_.lower, map_.upper])
    bounds = bounds[np.isfinite(bounds)]
    if not (
        np.all(np.abs(places) < _LARGEST_NUMBER)
        and np.all(widths < _LARGEST_NUMBER)
        and np.all(narrow > 1 / _LARGEST_NUMBER)
        and np.all(np.abs(bounds) < _LARGEST_NUMBER)
        and np.all(np.abs(places[:, map_.link.signs != 0]) < np.log(_LARGEST_NUMBER))
    ):
        raise ValueError("its components or bounds are too far out, too wide or too narrow")
    made = run.evaluations
    for name in ("sds", "seconds"):
        given = None if made is None else getattr(made, name)
        if given is not None and np.any(given < 0):
            raise ValueError(f"evaluations.{name} holds {given.min()}")


def _later(name: str) -> str:
    """The prefix of an array that version 0.1.0 did not have: it does not look there."""
    return LATER if name in _ADDED else ""


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Single precision where that loses nothing."""
    array = np.asarray(array)
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = array.astype(np.float32)
        if np.array_equal(single.astype(np.float64), array, equal_nan=True):
            return single
    return array
