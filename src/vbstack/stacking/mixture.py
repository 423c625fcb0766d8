"""`Mixture`: the components of all kept runs together, in one common space: their geometry.

Expected log-joints are vectors beside it: the runs' own (`own_log_joints`) or pooled ones.

In the link space y (see `transform`) component j of run m is an exact Gaussian,

    y = c_j + F_j z,  z ~ N(0, 1),   c_j = centre_m + A_m μ_j,   F_j = A_m diag(σ_j)

and its density in the original space is p_j(θ) = N(y; c_j, F_j F_jᵀ) / |∂θ/∂y|  (paper, app. A.2).

Densities that are only compared with each other are taken relative to one *reference* Gaussian,
N(y; m, C) with the moments of the whole mixture. Its expectation under each component is exact, so
the noise of log N(y; m, C), about √(D/2) nats per draw, never enters a Monte Carlo average:

    L(w) = Σ_j w_j (I_j − E_j[log ref]) − KL(q_w ‖ ref)

With 16 draws per component that cut the over-fitting of the weights from 0.056 to 0.010 nats in a
ten-dimensional stack; in two dimensions it changes nothing (`python -m benchmarks choices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from vbstack.arrays import Array, Index
from vbstack.runs.run import Run
from vbstack.runs.transform import Link
from vbstack.stacking.gaussians import Gaussians

_LOG_2PI = float(np.log(2 * np.pi))
_CHUNK_VALUES = 4_000_000  # values of one temporary array: 32 MB


@dataclass(frozen=True)
class Mixture:
    """All components of several runs.

    Parameters
    ----------
    links : tuple of Link
        The distinct links of the runs; nearly always one.
    link_of, owner : (K,)
        Each component's link and run; M for those of no run, which refinement added.
    centres : (K, D); factors : (K, D, D)
        c_j and F_j.
    own_weights : (K,)
        Each component's weight within its run, or within the refinement.
    n_runs : int
        M.
    """

    links: tuple[Link, ...]
    link_of: Index
    owner: Index
    centres: Array
    factors: Array
    own_weights: Array
    n_runs: int

    @classmethod
    def from_runs(cls, runs: Sequence[Run], refined: Gaussians | None = None) -> Mixture:
        """The mixture of these runs' components, in order, and of those that refinement added."""
        links: list[Link] = []
        link_of, centres, factors = [], [], []
        for run in runs:
            map_ = run.transform
            index = next((i for i, k in enumerate(links) if k.same_as(map_.link)), len(links))
            if index == len(links):
                links.append(map_.link)
            link_of.append(np.full(run.n_components, index))
            centres.append(map_.centre + run.means @ map_.matrix.T)
            factors.append(map_.matrix * run.sds[:, None, :])
        sizes, own_weights = [run.n_components for run in runs], [run.weights for run in runs]
        if refined is not None:
            sizes.append(refined.size)
            own_weights.append(refined.weights)
            link_of.append(np.zeros(refined.size, dtype=np.int64))
            centres.append(refined.centres)
            factors.append(refined.factors)
        return cls(
            links=tuple(links),
            link_of=np.concatenate(link_of),
            owner=np.repeat(np.arange(len(sizes)), sizes),
            centres=np.concatenate(centres),
            factors=np.concatenate(factors),
            own_weights=np.concatenate(own_weights),
            n_runs=len(runs),
        )

    @property
    def size(self) -> int:
        return int(self.centres.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.centres.shape[1])

    @property
    def naive_weights(self) -> Array:
        """Naive stacking: every run's own weights, 1/M each (paper, eq. 19)."""
        return np.where(self.owner < self.n_runs, self.own_weights / self.n_runs, 0.0)

    @property
    def original_centres(self) -> Array:
        """The components' centres in the original space (K, D)."""
        return self._to_original(self.centres, self.link_of)

    def original_log_joint(self, link_log_joint: Array) -> Array:
        """I_j (K,) in the original space, from those in link space (paper, app. A.2)."""
        return link_log_joint - self._expected_log_jacobian

    def rewards(self, link_log_joint: Array) -> Array:
        """I_j − E_j[log ref] (K,): what a unit of weight earns besides −KL(q_w ‖ ref)."""
        if self._reference is None:
            return self.original_log_joint(link_log_joint)
        mean, inverse = self._reference
        expected = self._reference_height - 0.5 * (
            np.square((self.centres - mean) @ inverse.T).sum(axis=1)
            + np.square(inverse @ self.factors).sum(axis=(1, 2))
        )
        return link_log_joint - expected

    @cached_property
    def whiteners(self) -> Array:
        """F_j⁻¹ (K, D, D)."""
        return np.asarray(np.linalg.inv(self.factors), dtype=float)

    @cached_property
    def quadratics(self) -> Array:
        """Upper triangle of −½ (F_j F_jᵀ)⁻¹, off-diagonal entries doubled (K, D(D+1)/2)."""
        rows, columns = np.triu_indices(self.dimension)
        precision = np.matmul(self.whiteners.transpose(0, 2, 1), self.whiteners)
        return np.asarray(precision[:, rows, columns] * np.where(rows == columns, -0.5, -1.0))

    @cached_property
    def log_heights(self) -> Array:
        """log N(c_j; c_j, F_j F_jᵀ) (K,)."""
        _, log_volumes = np.linalg.slogdet(self.factors)
        return np.asarray(-0.5 * self.dimension * _LOG_2PI - log_volumes)

    @cached_property
    def _expected_log_jacobian(self) -> Array:
        """E_j[log |∂θ/∂y|] (K,) with each component's own link."""
        variances = np.square(self.factors).sum(axis=2)
        total = np.empty(self.size)
        for index, link in enumerate(self.links):
            rows = self.link_of == index
            total[rows] = link.expected_log_jacobian(self.centres[rows], variances[rows])
        return total

    @cached_property
    def _reference(self) -> tuple[Array, Array] | None:
        """Mean m and inverse Cholesky factor of C; None when the runs do not share a link.

        Then the reference is flat in the original space: one more source of noise. A covariance
        that rounding leaves singular (a ridge 1e7 times longer than wide) is replaced by its
        diagonal: any Gaussian is a valid reference, a good one only saves draws.
        """
        if len(self.links) > 1:
            return None
        mean = self.naive_weights @ self.centres
        spread = np.sqrt(self.naive_weights)[:, None] * (self.centres - mean)
        weighted = np.sqrt(self.naive_weights)[:, None, None] * self.factors
        covariance = spread.T @ spread + np.einsum("kde,kfe->df", weighted, weighted)
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            factor = np.diag(np.sqrt(np.diag(covariance)))
        return mean, np.linalg.inv(factor)

    @property
    def _reference_height(self) -> float:
        assert self._reference is not None
        return float(np.log(np.diag(self._reference[1])).sum() - 0.5 * self.dimension * _LOG_2PI)

    def restricted(self, keep: Index) -> Mixture:
        """The mixture of the components `keep` alone, with the same reference."""
        part = Mixture(
            self.links,
            self.link_of[keep],
            self.owner[keep],
            self.centres[keep],
            self.factors[keep],
            self.own_weights[keep],
            self.n_runs,
        )
        part.__dict__["_reference"] = self._reference
        return part

    def sample(self, weights: Array, n: int, rng: np.random.Generator) -> Array:
        """n independent draws θ (n, D) of Σ_j w_j p_j, in the original space."""
        return self.labelled_sample(weights, n, rng)[0]

    def labelled_sample(
        self, weights: Array, n: int, rng: np.random.Generator
    ) -> tuple[Array, Index]:
        """The draws of `sample`, and the component (n,) that each comes from."""
        component = rng.choice(self.size, size=n, p=weights / weights.sum())
        z = rng.standard_normal((n, self.dimension))
        return self._to_original(self.points(component, z), self.link_of[component]), component

    def log_densities(self, x: Array) -> Array:
        """log p_j(θ) (n, K) in the original space; −inf outside the hard bounds."""
        inside = self.links[0].inside(x)
        out = np.full((len(x), self.size), -np.inf)
        for index, link in enumerate(self.links):
            y = link.forward(x[inside])
            columns = np.flatnonzero(self.link_of == index)
            out[np.ix_(inside, columns)] = (
                self.log_gaussians(y, columns) - link.log_jacobian(y)[:, None]
            )
        return out

    def log_density(self, x: Array, weights: Array) -> Array:
        """log Σ_j w_j p_j(θ) (n,) in the original space, in bounded memory."""
        keep = np.flatnonzero(weights)
        part, log_weights = self.restricted(keep), np.log(weights[keep])
        rows = max(1, _CHUNK_VALUES // (part.size * self.dimension))
        out = np.empty(len(x))
        for start in range(0, len(x), rows):
            block = slice(start, start + rows)
            out[block] = logsumexp(part.log_densities(x[block]) + log_weights, axis=1)
        return out

    def points(self, component: Index, z: Array) -> Array:
        """c_j + F_j z (n, D); column by column, which is faster than one einsum."""
        y = self.centres[component]
        for e in range(self.dimension):
            y += self.factors[:, :, e][component] * z[:, e, None]
        return y

    def log_reference(self, y: Array) -> Array:
        assert self._reference is not None
        mean, inverse = self._reference
        return self._reference_height - 0.5 * np.square((y - mean) @ inverse.T).sum(axis=1)

    def _to_original(self, y: Array, link_of: Index) -> Array:
        x = np.empty_like(y)
        for index, link in enumerate(self.links):
            rows = link_of == index
            x[rows] = link.inverse(y[rows])
        return x

    def log_gaussians(self, y: Array, columns: Index) -> Array:
        """log N(y; c_j, F_j F_jᵀ) (n, k) by residuals; rounding is linear in extent / σ."""
        d = self.dimension
        origin = y.mean(axis=0) if len(y) else np.zeros(d)
        flat = self.whiteners[columns].reshape(-1, d)
        whitened = ((y - origin) @ flat.T).reshape(len(y), len(columns), d)
        residuals = whitened + self.whitened_from(origin)[columns]
        return self.log_heights[columns] - 0.5 * np.einsum("nkd,nkd->nk", residuals, residuals)

    def whitened_from(self, origin: Array) -> Array:
        """F_j⁻¹ (origin − c_j) (K, D)."""
        return np.matmul(self.whiteners, (origin - self.centres)[:, :, None])[:, :, 0]


def own_log_joints(runs: Sequence[Run]) -> Array:
    """Each component's expected log-joint in link space (K,), as its own run estimated it.

    It is the run's L_j less the volume of its affine map.
    """
    return np.concatenate([run.expected_log_joint - run.transform.log_volume for run in runs])
