"""Archived VBMC runs as the pyvbmc objects that they once were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pyvbmc.parameter_transformer import ParameterTransformer
from pyvbmc.variational_posterior import VariationalPosterior

from vbstack import Run, load_runs

ARCHIVES = Path(__file__).parents[1] / "benchmarks" / "archives"


def archived_posteriors(name: str, count: int) -> list[Any]:
    """The first `count` archived runs of a problem as pyvbmc VariationalPosteriors."""
    return [as_pyvbmc(run) for run in load_runs(ARCHIVES / f"{name}.npz")[:count]]


def as_pyvbmc(run: Run) -> Any:
    """A real VariationalPosterior with the run's components, transform and statistics."""
    d, k = run.dimension, run.n_components
    map_ = run.transform
    transformer = ParameterTransformer(
        d, map_.lower[None], map_.upper[None], scale=map_.scale, rotation_matrix=map_.rotation
    )
    transformer.mu, transformer.delta = map_.centre, map_.width
    vp = VariationalPosterior(d, k, parameter_transformer=transformer, rng=run.seed)
    vp.w, vp.mu = run.weights[None].copy(), run.means.T.copy()
    # sds are an outer product λ_d σ_k; only the product matters.
    vp.sigma = run.sds[:, :1].T.copy()
    vp.lambd = (run.sds[0] / run.sds[0, 0])[:, None]
    vp.stats = {
        "elbo": run.elbo,
        "elbo_sd": run.elbo_sd,
        "stable": run.converged,
        "I_sk": run.log_joint.copy(),
        "J_sjk": np.repeat(run.log_joint_covariance, len(run.log_joint), axis=0),
        "uncertainty_handling_level": run.noise_level,
    }
    return vp
