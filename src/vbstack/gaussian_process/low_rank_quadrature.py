"""`Quadrature`: expectations of a low-rank process under Gaussians, with gradients.

For fitting Gaussians N(c_j, F_j F_jᵀ) to a process. In kernel coordinates v = W x, B_j = W F_j,
T_j = 1 + B_j B_jᵀ, d_i = v_i − W c_j at pivot i, z_j as in `integrals` and α = L⁻ᵀ a:

    I_j    = E_j[f̂]            = E_j[m] + αᵀ z_j
    ∂I/∂c  = E_j[∇f̂]           = Wᵀ T⁻¹ Σ_i α_i z_i d_i − P (c_j − c)
    ∂I/∂F  = E_j[∇²f̂] F_j,       E_j[∇²f̂] = Wᵀ T⁻¹ (Σ_i α_i z_i (d_i d_iᵀ − T)) T⁻¹ W − P

(Bonnet and Price; ∂I/∂Σ is half of E_j[∇²f̂].) The variance of I_j and its differential are

    J_j = κ_j − z_jᵀ A z_j,   A = L⁻ᵀ (1 − B⁻¹) L⁻¹,   κ_j = σ_f² |1 + 2 B_j B_jᵀ|^-½
    dJ_j = dκ_j − 2 (A z_j)ᵀ dz_j,                     ∂κ/∂F = −2 κ Wᵀ (1 + 2 B_j B_jᵀ)⁻¹ B_j

so both gradients are sums over pivots of z_i dz_i with different coefficients, taken together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from vbstack.arrays import Array
from vbstack.gaussian_process.integrals import expected_mean
from vbstack.gaussian_process.low_rank import LowRankProcess
from vbstack.numerics.quadratics import coefficients, features, moments


@dataclass(frozen=True)
class Quadrature:
    """A process made ready for many quadratures.

    Attributes
    ----------
    process : LowRankProcess
    origin : (D,)
        The middle of the pivots, in kernel coordinates.
    features : (m, f)
        Of the pivots there.
    alpha : (m,)
    inverse, unknown : (m, m)
        L⁻¹ and B⁻¹.
    """

    process: LowRankProcess
    origin: Array
    features: Array
    alpha: Array
    inverse: Array
    unknown: Array

    @classmethod
    def of(cls, process: LowRankProcess) -> Quadrature:
        """The process's own; it takes time by the cube of its pivots, once."""
        v = process.pivots @ process.prior.whitener.T
        origin = v.mean(axis=0)
        alpha = solve_triangular(process.factor, process.coefficients, lower=True, trans=1)
        inverse = solve_triangular(process.factor, np.eye(len(v)), lower=True)
        left = solve_triangular(process.information, np.eye(len(v)), lower=True)
        return cls(process, origin, features(v - origin), alpha, inverse, left.T @ left)

    def charged(self, centres: Array, factors: Array, charge: float) -> tuple[Array, Array, Array]:
        """I_j − `charge` × J_j (K,), and its gradients by c_j (K, D) and F_j (K, D, D)."""
        prior = self.process.prior
        shapes = prior.whitener @ factors
        square = shapes @ shapes.transpose(0, 2, 1)
        middle = centres @ prior.whitener.T - self.origin
        one = np.eye(middle.shape[1])
        precisions = np.asarray(np.linalg.inv(square + one), dtype=float)
        heights = np.log(prior.variance) + 0.5 * np.linalg.slogdet(precisions)[1]
        z = np.exp(coefficients(heights, middle, precisions) @ self.features.T)
        values = expected_mean(prior, centres, factors) + z @ self.alpha
        weighted = z * self.alpha
        d_factors = -prior.precision @ factors
        if charge:
            seen = z @ self.inverse.T
            known = seen - seen @ self.unknown
            doubled = 2 * square + one
            pairs = prior.variance / np.sqrt(np.linalg.det(doubled))
            values = values - charge * (pairs - (seen * known).sum(axis=1))
            weighted += 2 * charge * z * (known @ self.inverse)
            d_pairs = -2 * pairs[:, None, None] * np.linalg.solve(doubled, shapes)
            d_factors = d_factors - charge * (prior.whitener.T @ d_pairs)
        total, first, second = moments(weighted @ self.features, middle)
        slopes = (first[:, None, :] @ precisions)[:, 0] @ prior.whitener
        curved = precisions @ second @ precisions - total[:, None, None] * precisions
        d_factors += prior.whitener.T @ curved @ shapes
        return values, slopes - (centres - prior.centre) @ prior.precision, d_factors
