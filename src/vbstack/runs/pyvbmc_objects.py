"""pyvbmc's objects as our records. The only file that knows their attributes.

Nothing of pyvbmc is imported: the objects are read by their attributes (pyvbmc 1.0 to 1.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vbstack.modes import MeanFunction
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.run import Run
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Transform
from vbstack.runs.versions import PYVBMC_PACKAGES, installed_versions

_MEANS: dict[str, MeanFunction] = {
    "NegativeQuadratic": "negative_quadratic",
    "ConstantMean": "constant",
    "ZeroMean": "zero",
}


def read_posterior(
    vp: Any, gp: Any = None, evaluations: Evaluations | None = None, **details: Any
) -> Run:
    """The `Run` that a pyvbmc VariationalPosterior (1.0 to 1.5) and its GP amount to."""
    stats = _statistics(vp)
    return Run(
        weights=np.ravel(vp.w),
        means=np.asarray(vp.mu).T,
        sds=(np.asarray(vp.lambd).reshape(-1, 1) * np.asarray(vp.sigma).reshape(1, -1)).T,
        transform=read_transform(vp.parameter_transformer),
        log_joint=stats["I_sk"],
        log_joint_covariance=stats["J_sjk"],
        elbo=stats["elbo"],
        elbo_sd=stats["elbo_sd"],
        converged=bool(stats["stable"]),
        noise_level=details.pop("noise_level", stats.get("uncertainty_handling_level")),
        surrogate=None if gp is None else read_surrogate(gp),
        evaluations=evaluations,
        engine="pyvbmc",
        versions=details.pop("versions", None) or installed_versions(PYVBMC_PACKAGES),
        **details,
    )


def read_transform(transformer: Any) -> Transform:
    """Our `Transform` from a pyvbmc ParameterTransformer."""
    kinds = np.ravel(transformer.type)
    size = kinds.size
    scale, rotation = transformer.scale, transformer.R_mat
    return Transform(
        kinds=kinds,
        lower=np.ravel(transformer.lb_orig),
        upper=np.ravel(transformer.ub_orig),
        centre=np.ravel(transformer.mu),
        width=np.ravel(transformer.delta),
        scale=np.ones(size) if scale is None else np.ravel(scale),
        rotation=np.eye(size) if rotation is None else rotation,
    )


def read_surrogate(gp: Any) -> Surrogate:
    """Our `Surrogate` from a fitted gpyreg GP with a squared-exponential kernel."""
    kernel, mean = type(gp.covariance).__name__, type(gp.mean).__name__
    if kernel != "SquaredExponential" or mean not in _MEANS:
        raise ValueError(
            f"gp: kernel {kernel} with mean {mean} is not supported; expected SquaredExponential "
            f"with one of {sorted(_MEANS)}. Pass gp=None to keep the run without its surrogate."
        )
    d = gp.X.shape[1]
    hyperparameters = np.array([posterior.hyp.ravel() for posterior in gp.posteriors])
    noise_end = d + 1 + gp.noise.hyperparameter_count()
    noise = [
        np.ravel(gp.noise.compute(hyp[d + 1 : noise_end], gp.X, gp.y, gp.s2))
        * getattr(posterior, "sn2_mult", 1.0)
        for hyp, posterior in zip(hyperparameters, gp.posteriors, strict=True)
    ]
    return Surrogate(
        inputs=gp.X,
        values=np.ravel(gp.y),
        noise_variance=np.array(noise),
        log_lengths=hyperparameters[:, :d],
        log_output=hyperparameters[:, d],
        mean=_MEANS[mean],
        mean_parameters=hyperparameters[:, noise_end:],
    )


def _statistics(vp: Any) -> dict[str, Any]:
    """`vp.stats`, once it is certain that it holds what stacking needs."""
    for attribute in ("w", "mu", "sigma", "lambd", "stats", "parameter_transformer"):
        if not hasattr(vp, attribute):
            raise TypeError(
                f"{type(vp).__name__} is not a VariationalPosterior: it has no `{attribute}`. "
                "Pass what `VBMC.optimize()` returned first."
            )
    missing = {"elbo", "elbo_sd", "stable", "I_sk", "J_sjk"} - set(vp.stats or {})
    if missing:
        raise ValueError(
            f"VariationalPosterior lacks the statistics {sorted(missing)}; only the posterior of a "
            "finished VBMC run can be stacked"
        )
    return dict(vp.stats)
