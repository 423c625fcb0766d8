"""A stacked posterior as one `.npz` file (see `runs.files`)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.checks import checked, checked_word
from vbstack.modes import SolverName
from vbstack.posterior import StackedPosterior
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.files import FileError, pack_runs, read_file, unpack_runs, write_file
from vbstack.runs.header_checks import (
    checked_integer,
    checked_list,
    checked_number,
    checked_object,
    checked_text,
    checked_truth,
)
from vbstack.runs.run import WEIGHT_TOLERANCE, Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.gaussians import Gaussians
from vbstack.stacking.mixture import Mixture, own_log_joints
from vbstack.stacking.refinement import Refined
from vbstack.stacking.screening import Dropped, Screen, screen
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.verification import VerifiedEvidence
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
    if posterior.further is not None:
        arrays |= {"further.x": posterior.further.x, "further.values": posterior.further.values}
        if posterior.further.sds is not None:
            arrays["further.sds"] = posterior.further.sds
    unrefined = None
    if posterior.refined is not None:
        parts = posterior.refined.gaussians
        alone = asdict(posterior.refined.solution)
        arrays |= {
            "refined.weights": parts.weights,
            "refined.centres": parts.centres,
            "refined.factors": parts.factors,
            "unrefined.weights": alone.pop("weights"),
        }
        unrefined = {"solution": alone, "evidence": posterior.refined.evidence.as_dict()}
    header = {
        "runs": headers,
        "kept": list(posterior.kept),
        "dropped": [asdict(d) for d in posterior.dropped],
        "target": posterior.target,
        "settings": asdict(posterior.settings),
        "sources": list(posterior.sources),
        "solution": solution,
        "evidence": posterior.evidence.as_dict(),
        "unrefined": unrefined,
    }
    return write_file(path, "posterior", arrays, header, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, follow: bool = True) -> StackedPosterior:
    """The posterior that `save` wrote, in this version or in 0.1.0."""
    arrays, header = read_file(path, "posterior", follow=follow)
    runs = tuple(unpack_runs(path, arrays, header.get("runs")))
    try:
        return _unpacked(runs, arrays, header)
    except (
        *(KeyError, TypeError, ValueError, IndexError, AttributeError),
        *(OverflowError, FloatingPointError),
    ) as error:
        raise FileError(
            f"{path} is incomplete or invalid: {type(error).__name__}: {error}"
        ) from error


def _unpacked(
    runs: tuple[Run, ...], arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]
) -> StackedPosterior:
    pooled = arrays.get("link_log_joint")
    kept, dropped = _places(header)
    # One problem, and finite statistics: an error, or fewer runs, if they cannot have been stacked.
    usable, _ = screen(runs, Screen(require_converged=False, max_variance=math.inf))
    if len(usable) != len(runs):
        raise ValueError("its runs hold statistics that are not finite")
    refined = _refined(runs, arrays, header)
    return StackedPosterior(
        runs=runs,
        kept=kept,
        dropped=dropped,
        settings=_settings(header),
        solution=_solution(arrays["solution.weights"], header),
        evidence=_evidence(header),
        link_log_joint=own_log_joints(runs) if pooled is None else np.array(pooled, dtype=float),
        sources=_sources(header, runs),
        mixture=Mixture.from_runs(runs, None if refined is None else refined.gaussians),
        further=_further(arrays),
        refined=refined,
    )


def _places(header: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[Dropped, ...]]:
    """The places of the runs that were kept, and the dropped ones."""
    kept = tuple(checked_integer("kept", k) for k in checked_list("kept", header["kept"]))
    dropped = tuple(
        Dropped(checked_integer("dropped", d["index"]), checked_text("dropped", d["reason"]))
        for d in checked_list("dropped", header["dropped"])
    )
    places = [*kept, *(d.index for d in dropped)]
    # Runs of a store are called by their numbers there, which may have gaps.
    if len(set(places)) != len(places):
        raise ValueError(f"its runs have the places {places}")
    return kept, dropped


def _settings(header: Mapping[str, Any]) -> StackSettings:
    """The settings; of those, version 0.1.0 wrote the kind of weights only.

    Where there is no `caution`, the weights were chosen without.
    """
    if "settings" not in header:
        return StackSettings(weights=header["target"], caution=0.0)
    given = {"caution": 0.0, **checked_object("settings", header["settings"])}
    rules = checked_object("screen", given.pop("screen"))
    checked_truth("require_converged", rules["require_converged"])
    checked_number("max_variance", rules["max_variance"], finite=False)
    checked_number("tolerance", given["tolerance"])
    return StackSettings(**given, screen=Screen(**rules))


def _refined(
    runs: Sequence[Run], arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]
) -> Refined | None:
    """What refinement added; None where nothing was, as in files of earlier versions."""
    if header.get("unrefined") is None:
        return None
    alone = checked_object("unrefined", header["unrefined"])
    d = runs[0].dimension
    weights = np.array(arrays["refined.weights"], dtype=float)
    parts = Gaussians(
        checked("refined", "weights", weights, (weights.size,)),
        checked("refined", "centres", arrays["refined.centres"], (weights.size, d)),
        checked("refined", "factors", arrays["refined.factors"], (weights.size, d, d)),
    )
    if np.any(parts.weights < 0) or abs(parts.weights.sum() - 1) > WEIGHT_TOLERANCE:
        raise ValueError("refined: weights must be non-negative and sum to one")
    if np.any(np.linalg.det(parts.factors) == 0):
        raise ValueError("refined: a factor is singular")
    return Refined(parts, _solution(arrays["unrefined.weights"], alone), _evidence(alone))


def _solution(weights: NDArray[Any], header: Mapping[str, Any]) -> WeightSolution:
    given = checked_object("solution", header["solution"])
    for name in ("lower", "upper", "gap", "standard_error", "naive"):
        checked_number(f"solution: {name}", given[name], finite=name not in ("upper", "gap"))
    checked_number("solution: charge", given.get("charge", 0.0), least=0.0)
    for name in ("draws", "iterations"):
        checked_integer(f"solution: {name}", given[name])
    checked_text("status", given["status"])
    checked_word("solver", given["solver"], SolverName)
    return WeightSolution(weights=np.array(weights, dtype=float), **given)


def _evidence(header: Mapping[str, Any]) -> Evidence:
    given = checked_object("evidence", header["evidence"])
    optional = (
        *("pooled", "pooled_sd", "pooled_elbo", "pooled_elbo_sd"),
        *("selection", "divergence", "verified"),
    )
    missing = (given.get(name) is None for name in optional if name != "verified")
    if given.get("pooled") is not None and any(missing):
        raise ValueError("some of the pooled estimates are missing")
    texts = ("method", "reason", "not_pooled", "headline_method", "headline_reason")
    for name, value in given.items():
        if name == "noisy":
            checked_truth(name, value)
        elif name in texts:
            checked_text(name, value)
        elif name == "verified" and value is not None:
            _check_verified(checked_object(name, value))
        elif value is not None or name not in optional:
            least = 0.0 if name.endswith("sd") else -math.inf
            checked_number(f"evidence: {name}", value, finite=name != "gap", least=least)
    found = Evidence.from_dict(given)
    for name in ("log_evidence", "sd", "method"):  # version 0.1 had other names and errors
        if name in given and given[name] != getattr(found, name):
            raise ValueError(f"{name} {given[name]!r} does not fit the estimates beside it")
    return found


def _check_verified(given: Mapping[str, Any]) -> None:
    for field in fields(VerifiedEvidence):
        if field.name in ("n", "outside", "surprises", "evaluations", "rounds"):
            checked_integer(f"verified: {field.name}", given[field.name])
        else:
            if field.name not in given and field.default is not MISSING:
                continue  # a file of an earlier version
            free = field.name.startswith(("shape", "scatter", "stated", "overstated"))
            least = 0.0 if field.name.endswith("_sd") and not free else -math.inf
            checked_number(
                f"verified: {field.name}", given[field.name], finite=not free, least=least
            )


def _further(arrays: Mapping[str, NDArray[Any]]) -> Evaluations | None:
    """The evaluations of no run that were pooled too."""
    if "further.x" not in arrays:
        return None
    sds = arrays.get("further.sds")
    return Evaluations(arrays["further.x"], arrays["further.values"], sds)


def _sources(header: Mapping[str, Any], runs: Sequence[Run]) -> tuple[str, ...]:
    """Digests of the runs given; those dropped are not known in a file of version 0.1.0."""
    if "sources" in header:
        return tuple(checked_text("sources", d) for d in checked_list("sources", header["sources"]))
    sources = [""] * (len(header["kept"]) + len(header["dropped"]))
    for place, run in zip(header["kept"], runs, strict=True):
        sources[place] = run.digest
    return tuple(sources)
