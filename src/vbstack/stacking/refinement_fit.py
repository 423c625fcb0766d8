"""Gaussians with full covariances, fitted to a surrogate of the log density.

    maximise  Σ_j w_j (I_j − λ J_j) + H[q],    q = Σ_j w_j N(c_j, F_j F_jᵀ)

I and its variance J are exact (`gaussian_process.low_rank_quadrature`). The charge λ J keeps
components from where the surrogate makes its values up: charged with one √J, the multisensory
problem had one at a peak of 22 nats with √J = 11, and the truth there was 57 nats lower. The
entropy is an average over shifted Sobol points that stay the same while a short fit lasts,

    H ≈ −Σ_j w_j mean_s log q(x_js),   x_js = c_j + F_j ε_js

With P_j = (F_j F_jᵀ)⁻¹, d_jn = x_n − c_j, responsibilities r_jn = w_j p_j(x_n) / q(x_n), a_n the
weight of draw n, and ∇log q(x_n) = −Σ_j r_jn P_j d_jn, its gradients are

    ∂H/∂w_j = −mean_s log q(x_js) − Σ_n a_n r_jn / w_j
    ∂H/∂c_j = −P_j Σ_n a_n r_jn d_jn                            − Σ_{n of j} a_n ∇log q(x_n)
    ∂H/∂F_j = −Σ_n a_n r_jn (P_j d_jn d_jnᵀ P_j − P_j) F_j       − Σ_{n of j} a_n ∇log q(x_n) ε_nᵀ

A fit moves in the start's own coordinates: c = c⁰ + F⁰ s, F = F⁰ T, T lower triangular with a
positive diagonal. As in an engine's fit a row of short fits, each on new points, is followed by the
average of its later half: a long fit would learn its points.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vbstack.arrays import Array
from vbstack.gaussian_process.low_rank_quadrature import Quadrature
from vbstack.numerics.lbfgs import Memory, climb
from vbstack.numerics.quadratics import coefficients, features, moments
from vbstack.numerics.quasi_random import centred_normals
from vbstack.stacking.gaussians import Gaussians
from vbstack.stacking.pooling import Pooled

_LOG_2PI = float(np.log(2 * np.pi))
_SHORT = 3  # iterations of a fit with the same points
_MEMORY = 12  # curvature pairs
_REACH = 2.0  # of one step: scales, or powers of e
_LARGE = 0.01  # nats: a step that gains more is far from learning the points
_FARTHEST = 8.0  # of a log weight, in all
# For the entropy. With 32 draws a component sixty components of banana6 lacked 0.06 nats, with 512
# thirty lack 0.004: their covariances learn the points.
_DRAWS, _FEWEST, _MOST = 16_384, 64, 512  # in all; of each component


def drawn(parts: Gaussians, points: Array) -> Array:
    """The draws x_js (K S, D) that standard normal points (K, S, D) stand for."""
    x = parts.centres[:, None] + points @ parts.factors.transpose(0, 2, 1)
    return np.asarray(x.reshape(-1, parts.dimension))


def log_density(parts: Gaussians, x: Array) -> Array:
    """log q (n,) at points (n, D)."""
    logs = _Seen.at(parts, x).logs
    return np.asarray(logsumexp(logs, axis=0, b=parts.weights[:, None]))


def entropy(parts: Gaussians, points: Array) -> tuple[float, Array, Array, Array]:
    """H and its gradients by weights (as if unconstrained), centres and factors."""
    size, draws, d = points.shape
    weights = parts.weights
    x, features_of_x, centres, precisions, logs = _Seen.at(parts, drawn(parts, points))
    top = logs.max(axis=0)
    density = np.exp(logs - top)
    mixed = weights @ density
    mean_log = (top + np.log(mixed)).reshape(size, draws).mean(axis=1)
    density *= np.repeat(weights / draws, draws) / mixed
    d_weights = -mean_log - density.sum(axis=1)
    density *= weights[:, None]  # a_n r_jn
    total, first, second = moments(density @ features_of_x, centres)
    pull = (density.T @ precisions.reshape(size, -1)).reshape(-1, d, d)
    pulled = density.T @ (precisions @ centres[:, :, None])[:, :, 0]
    score = (pulled - np.einsum("nde,ne->nd", pull, x)).reshape(size, draws, d)  # a_n ∇log q
    curved = precisions @ second @ precisions - total[:, None, None] * precisions
    d_centres = -(precisions @ first[:, :, None])[:, :, 0] - score.sum(axis=1)
    d_factors = -curved @ parts.factors - score.transpose(0, 2, 1) @ points
    return float(-weights @ mean_log), d_weights, d_centres, d_factors


class _Seen(NamedTuple):
    """Points (n, D) and centres (K, D) relative to the mean, features of the points, P_j = Σ_j⁻¹
    (K, D, D), and log p_j (K, n) at the points."""

    x: Array
    features: Array
    centres: Array
    precisions: Array
    logs: Array

    @classmethod
    def at(cls, parts: Gaussians, x: Array) -> _Seen:
        origin = parts.weights @ parts.centres
        x, centres = x - origin, parts.centres - origin
        whiteners = np.linalg.inv(parts.factors)
        precisions = whiteners.transpose(0, 2, 1) @ whiteners
        heights = -np.linalg.slogdet(parts.factors)[1] - 0.5 * parts.dimension * _LOG_2PI
        seen = features(x)
        return cls(
            x, seen, centres, precisions, coefficients(heights, centres, precisions) @ seen.T
        )


@dataclass(frozen=True)
class PooledQuadrature:
    """The pooled surrogate, made ready for many quadratures: its processes and their shares."""

    quadratures: tuple[Quadrature, ...]
    shares: Array

    @classmethod
    def of(cls, pooled: Pooled) -> PooledQuadrature:
        return cls(tuple(Quadrature.of(process) for process in pooled.processes), pooled.shares)

    def charged(self, centres: Array, factors: Array, charge: float) -> tuple[Array, Array, Array]:
        """I_j − λ J_j (K,) averaged over the processes, and its gradients."""
        each = [q.charged(centres, factors, charge) for q in self.quadratures]
        values, d_centres, d_factors = (
            np.tensordot(self.shares, np.array(part), 1) for part in zip(*each, strict=True)
        )
        return values, d_centres, d_factors


def objective(
    surrogate: PooledQuadrature, parts: Gaussians, points: Array, charge: float
) -> tuple[float, Array, Array, Array]:
    """The charged ELBO and its gradients by weights, centres and factors."""
    h, d_weights, d_centres, d_factors = entropy(parts, points)
    w = parts.weights
    gain, of_centres, of_factors = surrogate.charged(parts.centres, parts.factors, charge)
    return (
        h + float(w @ gain),
        d_weights + gain,
        d_centres + w[:, None] * of_centres,
        d_factors + w[:, None, None] * of_factors,
    )


def fit(
    surrogate: PooledQuadrature,
    start: Gaussians,
    rng: np.random.Generator,
    *,
    rounds: int,
    charge: float,
) -> Gaussians:
    """The best Gaussians near `start`: the average of the later half of short fits."""
    coordinates = StepCoordinates(start)
    lower, upper = coordinates.limits()
    memory: Memory = deque(maxlen=_MEMORY)
    steps, later = np.zeros(lower.size), np.zeros(lower.size)
    for number in range(rounds):
        points = centred_normals(start.size, draws_for(start.size), start.dimension, rng)

        def elbo(v: Array, points: Array = points) -> tuple[float, Array]:
            parts = coordinates.at(v)
            value, *slopes = objective(surrogate, parts, points, charge)
            return value, coordinates.slope(parts, *slopes)

        steps, _ = climb(
            elbo,
            steps,
            lower,
            upper,
            memory,
            steps=_SHORT,
            tolerance=1e-6,
            reach=_REACH,
            large=_LARGE,
        )
        later += steps if number >= rounds // 2 else 0.0
    return coordinates.at(later / (rounds - rounds // 2))


class StepCoordinates:
    """Steps from a start, (K, 1 + D + D(D+1)/2) flattened: log weights, s, and T by rows."""

    def __init__(self, start: Gaussians):
        self.start = start
        self.rows, self.columns = np.tril_indices(start.dimension)
        self.diagonal = self.rows == self.columns

    def limits(self) -> tuple[Array, Array]:
        d = self.start.dimension
        one = np.r_[_FARTHEST, np.full(d, 4.0), np.where(self.diagonal, 2.0, 4.0)]
        upper = np.tile(one, self.start.size)
        return -upper, upper

    def at(self, v: Array) -> Gaussians:
        start, d = self.start, self.start.dimension
        steps = v.reshape(start.size, -1)
        logits = np.log(np.maximum(start.weights, 1e-6)) + steps[:, 0]
        weights = np.exp(logits - logits.max())
        centres = start.centres + (start.factors @ steps[:, 1 : d + 1, None])[:, :, 0]
        return Gaussians(weights / weights.sum(), centres, start.factors @ self._triangles(steps))

    def _triangles(self, steps: Array) -> Array:
        """T (K, D, D)."""
        d = self.start.dimension
        entries = steps[:, d + 1 :]
        triangle = np.zeros((len(steps), d, d))
        triangle[:, self.rows, self.columns] = np.where(self.diagonal, np.exp(entries), entries)
        return triangle

    def slope(
        self, parts: Gaussians, d_weights: Array, d_centres: Array, d_factors: Array
    ) -> Array:
        """The gradient by the steps."""
        turned = self.start.factors.transpose(0, 2, 1)
        d_logits = parts.weights * (d_weights - parts.weights @ d_weights)
        d_steps = (turned @ d_centres[:, :, None])[:, :, 0]
        d_entries = (turned @ d_factors)[:, self.rows, self.columns]
        scale = np.linalg.solve(self.start.factors, parts.factors)[:, self.rows, self.columns]
        d_entries = d_entries * np.where(self.diagonal, scale, 1.0)
        return np.column_stack([d_logits, d_steps, d_entries]).ravel()


def draws_for(size: int) -> int:
    """Points per component, a power of two."""
    wanted = np.clip(_DRAWS / size, _FEWEST, _MOST)
    return int(2 ** np.round(np.log2(wanted)))
