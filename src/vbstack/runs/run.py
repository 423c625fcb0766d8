"""`Run`: the frozen record of one finished VBMC run. Arrays and provenance, no live objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.checks import checked, checked_names
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Transform

WEIGHT_TOLERANCE = 1e-6
NOISY_ELBO_SD = 0.1  # of runs that did not record their noise: exact ones end well below


class TooFewRuns(ValueError):
    """Fewer runs than asked for finished or passed the screen; the message lists the others."""


@dataclass(frozen=True)
class Run:
    """One finished run: a Gaussian mixture in the run's own space, and what the run knows of it.

    Parameters
    ----------
    weights : (K,)
        Component weights; a sum within 1e-6 of one is renormalised, any other is an error.
    means, sds : (K, D)
        Component means and standard deviations in the run's space.
    transform : Transform
        The run's map to the original space.
    log_joint : (Ns, K)
        Expected log-joint of each component, in the run's space, per hyperparameter sample (I_sk).
    log_joint_covariance : (Ns, K, K) or (1, K, K)
        Its Bayesian-quadrature covariance (J_sjk); a first axis of one holds the mean over samples.
    elbo, elbo_sd : float
        The run's own evidence lower bound and its standard deviation.
    converged : bool
        Whether the engine called the run converged.
    noise_level : int or None
        0 exact log density, 1 unknown noise, 2 noise given per evaluation, None not recorded.
    names : (D,) strings
        Parameter names.
    floored : int
        Evaluations that failed and were replaced by a low value.
    looks : int
        Places at which the run could have met a mode that it did not know, and did not.
    """

    weights: Array
    means: Array
    sds: Array
    transform: Transform
    log_joint: Array
    log_joint_covariance: Array
    elbo: float
    elbo_sd: float
    converged: bool
    noise_level: int | None = None
    names: tuple[str, ...] = ()
    surrogate: Surrogate | None = None
    evaluations: Evaluations | None = None
    start: Array | None = None
    seed: int | None = None
    seconds: float | None = None
    engine: str = "unknown"
    versions: dict[str, str] = field(default_factory=dict)
    floored: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        k, d = self._sizes()
        samples = np.shape(self.log_joint)[0]
        j_samples = 1 if np.shape(self.log_joint_covariance)[:1] == (1,) else samples
        shapes = {
            "weights": (k,),
            "means": (k, d),
            "sds": (k, d),
            "log_joint": (samples, k),
            "log_joint_covariance": (j_samples, k, k),
        }
        # A run that failed to converge may hold non-finite statistics; screening drops it by name.
        for name, shape in shapes.items():
            finite = self.converged or name in ("weights", "means", "sds")
            object.__setattr__(
                self, name, checked("run", name, getattr(self, name), shape, finite=finite)
            )
        if self.evaluations is not None and self.evaluations.x.shape[1] != d:
            raise ValueError(
                f"run: evaluations.x has {self.evaluations.x.shape[1]} columns, expected D = {d}"
            )
        if self.start is not None:
            object.__setattr__(self, "start", checked("run", "start", self.start, (d,)))
        self._check_scalars()
        object.__setattr__(self, "weights", _normalised(self.weights))
        object.__setattr__(self, "names", checked_names("run", self.names, d))

    def _sizes(self) -> tuple[int, int]:
        shape = np.shape(self.means)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"run: means has shape {shape}, expected (K, D) with K, D ≥ 1")
        if shape[1] != self.transform.dimension:
            raise ValueError(
                f"run: means has D = {shape[1]} but its transform has "
                f"D = {self.transform.dimension}"
            )
        if np.ndim(self.log_joint) != 2 or np.shape(self.log_joint)[0] < 1:
            raise ValueError(
                f"run: log_joint has shape {np.shape(self.log_joint)}, expected (Ns, K), Ns ≥ 1"
            )
        return shape[0], shape[1]

    def _check_scalars(self) -> None:
        if np.any(self.sds <= 0):
            raise ValueError(f"run: sds must be positive, the smallest is {self.sds.min()}")
        for name in ("elbo", "elbo_sd"):
            value = float(getattr(self, name))
            object.__setattr__(self, name, value)
            if self.converged and not np.isfinite(value):
                raise ValueError(f"run: {name} is {value} although the run is marked converged")
        if not isinstance(self.converged, (bool, np.bool_)):
            raise TypeError(f"run: converged is {self.converged!r}, expected True or False")
        object.__setattr__(self, "converged", bool(self.converged))
        for name, kind in (("noise_level", int), ("seed", int), ("seconds", float)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, kind(getattr(self, name)))

    @classmethod
    def from_pyvbmc(
        cls, vp: Any, gp: Any = None, evaluations: Evaluations | None = None, **details: Any
    ) -> Run:
        """The record of a finished pyvbmc run (pyvbmc 1.0 to 1.5).

        Parameters
        ----------
        vp : pyvbmc.VariationalPosterior
            What `VBMC.optimize` returned.
        gp : gpyreg.GP, optional
            The run's final Gaussian process; kept as plain arrays.
        evaluations : Evaluations, optional
            All evaluations of the log density.
        **details
            `names`, `start`, `seed`, `seconds`, `versions`, `noise_level` where known.
        """
        from vbstack.runs.pyvbmc_objects import read_posterior

        return read_posterior(vp, gp, evaluations, **details)

    @property
    def n_components(self) -> int:
        return int(self.means.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.means.shape[1])

    @property
    def digest(self) -> str:
        """A hexadecimal number for the content of this run: its components and evaluations."""
        digest = sha256()
        # Weights are left out: they are normalised whenever a run is made or read, which may change
        # their last bit.
        for array in (self.means, self.sds, self.log_joint):
            digest.update(np.ascontiguousarray(array).tobytes())
        if self.evaluations is not None:
            digest.update(np.ascontiguousarray(self.evaluations.values).tobytes())
        return digest.hexdigest()

    @property
    def is_noisy(self) -> bool:
        """Whether the log density was noisy; where that was not recorded, the ELBO's sd decides."""
        if self.noise_level is None:
            return self.elbo_sd > NOISY_ELBO_SD
        return self.noise_level > 0

    @property
    def expected_log_joint(self) -> Array:
        """L_k (K,): expected log-joint in the run's space, mean over hyperparameter samples."""
        return np.asarray(self.log_joint.mean(axis=0))

    @property
    def expected_log_joint_covariance(self) -> Array:
        """Covariance (K, K) of L: quadrature variance plus the spread over hyperparameters."""
        covariance = self.log_joint_covariance.mean(axis=0)
        if len(self.log_joint) > 1:
            covariance = covariance + np.cov(self.log_joint, rowvar=False).reshape(covariance.shape)
        return np.asarray(covariance)


def _normalised(weights: Array) -> Array:
    total = float(weights.sum())
    if np.any(weights < 0) or abs(total - 1) > WEIGHT_TOLERANCE:
        raise ValueError(
            f"run: weights must be non-negative and sum to one within {WEIGHT_TOLERANCE:g}; "
            f"they sum to {total!r} and the smallest is {float(weights.min())!r}"
        )
    normalised = weights / total
    normalised.flags.writeable = False
    return normalised
