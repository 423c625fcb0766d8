"""`Reference`: the true posterior of a problem as a small stored file, and how it was found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from vbstack.runs.files import read_file, write_file

_ARRAYS = ("mean", "covariance", "grids", "densities", "draws")


@dataclass(frozen=True)
class Reference:
    """What a long computation found out about a posterior.

    Parameters
    ----------
    log_evidence, log_evidence_sd : float
        Log evidence and its numerical or Monte Carlo standard error.
    mean, covariance : (D,), (D, D)
        Moments of the posterior.
    grids, densities : (D, G)
        Marginal densities of each parameter on a grid of its own, integrating to one.
    draws : (n, D)
        Draws from the posterior, nearly independent.
    how : str
        The method, its size and its diagnostics, in words.
    """

    log_evidence: float
    log_evidence_sd: float
    mean: Array
    covariance: Array
    grids: Array
    densities: Array
    draws: Array
    how: str

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n of the stored draws: all different up to their number, with replacement beyond."""
        return self.draws[rng.choice(len(self.draws), n, replace=n > len(self.draws))]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to `path`, in place of what is there; draws are kept in single precision."""
        arrays = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        arrays["draws"] = arrays["draws"].astype(np.float32)
        header = {
            "log_evidence": self.log_evidence,
            "log_evidence_sd": self.log_evidence_sd,
            "how": self.how,
        }
        return write_file(path, "reference", arrays, header, overwrite=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Reference:
        """The reference that `save` wrote."""
        arrays, header = read_file(path, "reference")
        keys = ("log_evidence", "log_evidence_sd", "how")
        content: dict[str, Any] = {name: arrays[name].astype(float) for name in _ARRAYS}
        return cls(**content, **{key: header[key] for key in keys})
