"""The best single Gaussian with a full covariance: what a nearly Gaussian posterior needs.

    maximise  E_q[f̄] + ½ log|Σ|,    q = N(μ, Σ)

has its optimum where E_q[∇f̄] = 0 and Σ⁻¹ = −E_q[∇²f̄] (Opper & Archambeau 2009). With Λ = diag ℓ²,
T = Λ + Σ and z_i = σ_f² (|Λ|/|T|)^½ exp(−½ (x_i − μ)ᵀT⁻¹(x_i − μ)) both averages are exact,

    E_q[∇f̄]  = T⁻¹ Σ_i α_i z_i (x_i − μ) − ω⁻² (μ − c)
    E_q[∇²f̄] = T⁻¹ (Σ_i α_i z_i (x_i − μ)(x_i − μ)ᵀ) T⁻¹ − T⁻¹ Σ_i α_i z_i − diag ω⁻²
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbstack.engines.native.mixture_fit import LOG_2PI
from vbstack.gaussian_process.dense import Process

Array = NDArray[np.float64]

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
    def of(cls, process: Process, mean: Array, covariance: Array) -> Gaussian:
        h, d = process.hyperparameters, process.dimension
        away = process.data.inputs - mean
        total = np.diag(process.lengths**2) + covariance
        solved = np.linalg.solve(total, away.T).T  # T⁻¹ (x_i − μ)
        log_z = np.log(process.lengths).sum() - 0.5 * np.linalg.slogdet(total)[1]
        z = process.variance * np.exp(log_z - 0.5 * np.einsum("nd,nd->n", away, solved))
        weighted = process.alpha * z
        from_centre, precision = mean - h[d + 2 : 2 * d + 2], np.exp(-2 * h[2 * d + 2 :])
        quadratic = precision @ (from_centre**2 + np.diag(covariance))
        integral = weighted.sum() + h[d + 1] - 0.5 * quadratic
        entropy = 0.5 * (np.linalg.slogdet(covariance)[1] + d * (LOG_2PI + 1))
        return cls(
            mean,
            covariance,
            float(integral + entropy),
            weighted @ solved - precision * from_centre,
            (solved * weighted[:, None]).T @ solved
            - np.linalg.inv(total) * weighted.sum()
            - np.diag(precision),
        )

    def stepped(self, process: Process, length: float) -> Gaussian | None:
        """A step of the natural gradient; None where it leaves the Gaussians."""
        precision = (1 - length) * np.linalg.inv(self.covariance) - length * self.curvature
        if np.linalg.eigvalsh(precision)[0] <= 0:
            return None
        covariance = np.linalg.inv(precision)
        covariance = 0.5 * (covariance + covariance.T)
        return Gaussian.of(process, self.mean + length * covariance @ self.slope, covariance)


def best_gaussian(process: Process, mean: Array, covariance: Array) -> Gaussian:
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
