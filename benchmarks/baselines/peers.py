"""The peers' stacking of the same runs: pyvbmc.SVBMC and svbmc.SVBMC, which need torch."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

import numpy as np

from vbstack import Run


def to_variational_posterior(run: Run) -> Any:
    """A pyvbmc VariationalPosterior with the run's mixture, transform and statistics."""
    from pyvbmc.parameter_transformer import ParameterTransformer
    from pyvbmc.variational_posterior import VariationalPosterior

    map_ = run.transform
    transformer = ParameterTransformer(
        run.dimension,
        map_.lower[None],
        map_.upper[None],
        scale=map_.scale,
        rotation_matrix=map_.rotation,
    )
    transformer.type = map_.kinds.astype(float)
    transformer.mu, transformer.delta = map_.centre.copy(), map_.width.copy()
    transformer.bounded_types = sorted(set(map_.kinds.tolist()) - {0}) or [12]
    transformer._set_bounded_transforms()

    vp = VariationalPosterior(
        run.dimension, run.n_components, parameter_transformer=transformer, rng=0
    )
    # pyvbmc writes σ_kd = sigma_k λ_d, so the ratios to the first component's are λ's.
    vp.lambd = run.sds[0][:, None].copy()
    vp.sigma = (run.sds[:, :1] / run.sds[0, 0]).T
    vp.w, vp.mu = run.weights[None].copy(), run.means.T.copy()
    samples = len(run.log_joint)
    vp.stats = {
        "elbo": run.elbo,
        "elbo_sd": run.elbo_sd,
        "stable": run.converged,
        "I_sk": run.log_joint.copy(),
        # An archived run keeps the mean of J over hyperparameter samples; so every sample gets it.
        "J_sjk": np.broadcast_to(
            run.log_joint_covariance, (samples, *run.log_joint_covariance.shape[1:])
        ).copy(),
        "uncertainty_handling_level": run.noise_level or 0,
    }
    return vp


def pyvbmc_svbmc(runs: list[Run]) -> dict[str, Any]:
    from pyvbmc.svbmc import SVBMC

    logging.getLogger("SVBMC").setLevel(logging.ERROR)
    stacked = SVBMC(_posteriors(runs), M_min=1, s_max=np.inf, seed=0, show_tips=False)
    stacked.optimize()
    return {"weights": stacked.w.ravel(), "elbo": float(stacked.elbo)}


def svbmc_svbmc(runs: list[Run]) -> dict[str, Any]:
    import torch
    from svbmc import SVBMC

    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  svbmc draws from NumPy's global state
    with contextlib.redirect_stdout(io.StringIO()):
        stacked = SVBMC(_posteriors(runs), M_min=1, s_max=np.inf)
        stacked.optimize()
    return {"weights": np.ravel(np.asarray(stacked.w))}


def _posteriors(runs: list[Run]) -> list[Any]:
    return [to_variational_posterior(run) for run in runs]
