"""The stack in other people's formats: ArviZ, NetCDF, CSV, a Gaussian mixture.

Draws are independent, so they form one chain. They come from the stack, an approximation: MCMC
diagnostics of them (R-hat, effective sample size) say nothing about how good it is.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.posterior import GaussianMixture, Seed, StackedPosterior
from vbstack.runs.atomic import replacing
from vbstack.runs.printable import printable
from vbstack.runs.transform import UNBOUNDED
from vbstack.runs.versions import installed_versions

_ARVIZ_DIMENSIONS = ("chain", "draw")
_CSV_COLUMNS = ("log_density", "run", "component")


def to_gaussian_mixture(posterior: StackedPosterior) -> GaussianMixture:
    """The stack as one exact Gaussian mixture; an error when a parameter has hard bounds.

    Each run's transform is then affine, u → c + A u, so its components stay Gaussian.
    """
    for run in posterior.runs:
        for d in np.flatnonzero(run.transform.kinds != UNBOUNDED):
            raise ValueError(
                f"the stack is no Gaussian mixture in the original space: parameter "
                f"{posterior.names[d]!r} has the hard bounds [{run.transform.lower[d]}, "
                f"{run.transform.upper[d]}], and its map to the real line is not linear. Use "
                "sample(), log_pdf() and moments(), which need no such form"
            )
    mixture = posterior.mixture
    keep = np.flatnonzero(posterior.weights)
    factors = mixture.factors[keep]
    return GaussianMixture(
        weights=posterior.weights[keep],
        means=mixture.centres[keep],
        covariances=np.matmul(factors, factors.transpose(0, 2, 1)),
        run=posterior.places(keep),
        names=posterior.names,
    )


def to_arviz(
    posterior: StackedPosterior,
    n: int = 4000,
    *,
    seed: Seed = None,
    names: Sequence[str] | None = None,
) -> Any:
    """An `xarray.DataTree` by ArviZ's conventions (needs `pip install vbstack[arviz]`).

    Groups: `posterior` with one variable per parameter, one chain of n independent draws;
    `sample_stats` with each draw's log density `lp`, run and component; `stack` with the weights
    and ELBOs. The evidence is in the attributes of the tree.

    Parameters
    ----------
    n : int
        Number of draws, the same as `sample(n, seed)` gives.
    names : sequence of D strings, optional
        Other names for the parameters.
    """
    arviz_base, xarray = _extra("arviz_base"), _extra("xarray")
    columns = _checked_names(posterior, names, _ARVIZ_DIMENSIONS)
    draws, log_density, run, component = labelled_draws(posterior, n, seed)
    chains: dict[str, Any] = {
        "posterior": {name: draws[None, :, d] for d, name in enumerate(columns)},
        "sample_stats": {"lp": log_density[None], "run": run[None], "component": component[None]},
    }
    tree = arviz_base.from_dict(chains, check_conventions=False)
    tree.attrs.update(_attributes(posterior))
    tree["sample_stats"]["lp"].attrs["description"] = "log density of the stack, normalised"
    tree["stack"] = xarray.DataTree(xarray.Dataset(*_stack_variables(posterior)))
    return tree


def to_netcdf(
    posterior: StackedPosterior,
    path: str | os.PathLike[str],
    n: int = 4000,
    *,
    seed: Seed = None,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """The path of a NetCDF file with what `to_arviz` gives; an existing file is an error."""
    target = Path(path)
    target = target if target.suffix else target.with_suffix(".nc")
    _extra("h5netcdf")
    with replacing(target, overwrite=overwrite) as file:
        to_arviz(posterior, n, seed=seed, names=names).to_netcdf(file.name, engine="h5netcdf")
    return target


def to_csv(
    posterior: StackedPosterior,
    path: str | os.PathLike[str],
    n: int = 4000,
    *,
    seed: Seed = None,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """The path of a CSV file with a row per draw: parameters, log_density, run, component."""
    target = Path(path)
    target = target if target.suffix else target.with_suffix(".csv")
    columns = _checked_names(posterior, names, _CSV_COLUMNS)
    draws, *labels = labelled_draws(posterior, n, seed)
    with replacing(target, overwrite=overwrite) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow([*map(_spreadsheet_safe, columns), *_CSV_COLUMNS])
        # Python's own floats are written in full: reading them gives the same numbers.
        rows = zip(draws.tolist(), *(label.tolist() for label in labels), strict=True)
        writer.writerows([*draw, *rest] for draw, *rest in rows)
        text.flush()
        text.detach()
    return target


def _spreadsheet_safe(name: str) -> str:
    """The name without control characters, and quoted where a spreadsheet would see a formula."""
    text = printable(name)
    return f"'{text}" if name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def labelled_draws(
    posterior: StackedPosterior, n: int, seed: Seed
) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Draws (n, D), their log densities, and the run and its component that each comes from."""
    draws, index = posterior.labelled_sample(n, seed)
    place = posterior.components.index[index]
    return draws, posterior.log_pdf(draws), posterior.places(index), place


def _extra(name: str) -> Any:
    """A module of the extra `arviz`, or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{error}; this export needs: pip install 'vbstack[arviz]'") from error


def _attributes(posterior: StackedPosterior) -> dict[str, Any]:
    """The evidence and what made it, as attributes that NetCDF can hold."""
    evidence = {
        f"evidence_{name}": int(value) if isinstance(value, bool) else value
        for name, value in posterior.evidence.as_dict().items()
        if value is not None
    }
    return {
        "inference_library": "vbstack",
        "inference_library_version": installed_versions(["vbstack"])["vbstack"],
        "log_evidence": posterior.evidence.log_evidence,
        "log_evidence_sd": posterior.evidence.sd,
        **evidence,
        "weights_kind": posterior.target,
        "weights_status": posterior.solution.status,
        "dropped_runs": "; ".join(f"{d.index}: {d.reason}" for d in posterior.dropped),
    }


def _stack_variables(posterior: StackedPosterior) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and ELBOs by run, weights and owners by component; and the runs' places."""
    variables = {
        "run_weight": ("run", posterior.run_weights),
        "run_elbo": ("run", np.array([run.elbo for run in posterior.runs])),
        "run_elbo_sd": ("run", np.array([run.elbo_sd for run in posterior.runs])),
        "component_weight": ("component", posterior.weights),
        "component_run": ("component", posterior.places(np.arange(posterior.weights.size))),
    }
    return variables, {"run": np.asarray(posterior.kept)}


def _checked_names(
    posterior: StackedPosterior, names: Sequence[str] | None, reserved: Collection[str]
) -> tuple[str, ...]:
    chosen = posterior.names if names is None else tuple(names)
    if len(chosen) != posterior.dimension or len(set(chosen)) != len(chosen):
        raise ValueError(f"names={chosen}: expected {posterior.dimension} different strings")
    for name in chosen:
        if name in reserved or "/" in name or not name:
            raise ValueError(
                f"the parameter name {name!r} cannot be used in this format (it is empty, holds "
                f"a '/', or is one of {tuple(reserved)}); pass other ones with names=…"
            )
    return chosen
