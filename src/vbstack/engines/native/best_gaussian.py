"""The best single Gaussian with a full covariance: what a nearly Gaussian posterior needs.

    maximise  E_q[f̄] + ½ log|Σ|,    q = N(μ, Σ)

has its optimum where E_q[∇f̄] = 0 and Σ⁻¹ = −E_q[∇²f̄] (Opper & Archambeau 2009); both averages are
exact (`gaussian_process.quadrature`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.likelihood import LOG_2PI
from vbstack.gaussian_process.quadrature import gaussian_expectations

_STEPS = 20
_TOLERANCE = 1e-4  # nats


@dataclass(frozen=True)
class Gaussian:
    """Mean (D,), covariance (D, D) and ELBO; E_q[∇f̄] (D,) and E_q[∇²f̄] (D, D)."""

    mean: Array
    covariance: Array
    elbo: float
    slope: Array
    curvature: Array

    @classmethod
    def of(cls, process: DenseProcess, mean: Array, covariance: Array) -> Gaussian:
        found = gaussian_expectations(process, mean, covariance)
        entropy = 0.5 * (np.linalg.slogdet(covariance)[1] + mean.size * (LOG_2PI + 1))
        elbo = float(found.value + entropy)
        return cls(mean, covariance, elbo, found.slope, found.curvature)

    def stepped(self, process: DenseProcess, length: float) -> Gaussian | None:
        """A step of the natural gradient; None where it leaves the Gaussians."""
        precision = (1 - length) * np.linalg.inv(self.covariance) - length * self.curvature
        if np.linalg.eigvalsh(precision)[0] <= 0:
            return None
        covariance = np.linalg.inv(precision)
        covariance = 0.5 * (covariance + covariance.T)
        return Gaussian.of(process, self.mean + length * covariance @ self.slope, covariance)


def best_gaussian(process: DenseProcess, mean: Array, covariance: Array) -> Gaussian:
    """The best Gaussian near this one; steps that do not gain are halved."""
    best, length = Gaussian.of(process, mean, covariance), 1.0
    for _ in range(_STEPS):
        new = best.stepped(process, length)
        if new is None or not new.elbo >= best.elbo:  # nor where it is not a number
            length /= 2
            continue
        gain, best, length = new.elbo - best.elbo, new, min(1.0, 2 * length)
        if gain < _TOLERANCE:
            break
    return best
