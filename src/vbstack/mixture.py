"""`Mixture`: the components of all kept runs together, in one common space.

In the link space y (see `transform`) component j of run m is an exact Gaussian,

    y = c_j + F_j z,  z ~ N(0, 1),   c_j = centre_m + A_m μ_j,   F_j = A_m diag(σ_j)

and its density in the original space is p_j(θ) = N(y; c_j, F_j F_jᵀ) / |∂θ/∂y|  (paper, app. A.2).

Densities that are only compared with each other are taken relative to one *reference* Gaussian,
N(y; m, C) with the moments of the whole mixture. Its expectation under each component is exact, so
the noise of log N(y; m, C), about √(D/2) nats per draw, never enters a Monte Carlo average:

    L(w) = Σ_j w_j (I_j − E_j[log ref]) − KL(q_w ‖ ref)

With 16 draws per component that cut the over-fitting of the weights from 0.056 to 0.010 nats in a
ten-dimensional stack; in two dimensions it changes nothing (`python -m benchmarks.choices`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from vbstack.run import Run
from vbstack.transform import Link

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_LOG_2PI = float(np.log(2 * np.pi))
_BLOCK_ROWS = 1024  # draws evaluated together; 512 to 2048 were equally fast
_CHUNK_VALUES = 4_000_000  # values of one temporary array: 32 MB
_CANCELLATION = 1e-3  # largest rounding error allowed in a log density
NEGLIGIBLE = 1e-5  # densities this much below a draw's largest, in a whole block, are left out


@dataclass(frozen=True)
class Block:
    """Log densities, relative to the reference, at the draws of a few neighbouring components.

    Attributes
    ----------
    sources : (n,)
        The component that each draw comes from.
    columns : (k,)
        The components that are not negligible at these draws.
    log_densities : (n, k)
        log p_j − log ref at the draws, for j in `columns`, to 1e-3 or better.
    """

    sources: Index
    columns: Index
    log_densities: NDArray[np.floating]

    def densities(self) -> tuple[NDArray[np.float32], Array]:
        """Densities scaled by each row's largest, in single precision, and the log scales.

        Rounding errors of single densities, 1e-7 to 1e-3, average out in an ELBO.
        """
        # Any scale will do as long as it is the one returned, so it may be rounded.
        scale = self.log_densities.max(axis=1).astype(np.float32)
        relative = np.empty(self.log_densities.shape, dtype=np.float32)
        np.subtract(self.log_densities, scale[:, None], out=relative, casting="same_kind")
        return np.exp(relative, out=relative), scale.astype(float)


@dataclass(frozen=True)
class Mixture:
    """All components of several runs.

    Parameters
    ----------
    links : tuple of Link
        The distinct links of the runs; nearly always one.
    link_of, owner : (K,)
        Each component's link and run.
    centres : (K, D); factors : (K, D, D)
        c_j and F_j.
    own_weights : (K,)
        Each component's weight within its run.
    link_log_joint : (K,)
        Expected log-joint in link space: the run's L_j less the volume of its affine map.
    """

    links: tuple[Link, ...]
    link_of: Index
    owner: Index
    centres: Array
    factors: Array
    own_weights: Array
    link_log_joint: Array

    @classmethod
    def from_runs(cls, runs: Sequence[Run]) -> Mixture:
        """The mixture of these runs' components, in order."""
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
        return cls(
            links=tuple(links),
            link_of=np.concatenate(link_of),
            owner=np.repeat(np.arange(len(runs)), [run.n_components for run in runs]),
            centres=np.concatenate(centres),
            factors=np.concatenate(factors),
            own_weights=np.concatenate([run.weights for run in runs]),
            link_log_joint=np.concatenate(
                [run.expected_log_joint - run.transform.log_volume for run in runs]
            ),
        )

    @property
    def size(self) -> int:
        return int(self.centres.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.centres.shape[1])

    @property
    def n_runs(self) -> int:
        return int(self.owner.max()) + 1

    @property
    def naive_weights(self) -> Array:
        """Naive stacking: every run's own weights, 1/M each (paper, eq. 19)."""
        return self.own_weights / self.n_runs

    @property
    def original_centres(self) -> Array:
        """The components' centres in the original space (K, D)."""
        return self._to_original(self.centres, self.link_of)

    @cached_property
    def log_joint(self) -> Array:
        """I_j (K,): expected log-joint in the original space (paper, app. A.2)."""
        return self.link_log_joint - self._expected_log_jacobian

    @cached_property
    def reward(self) -> Array:
        """I_j − E_j[log ref] (K,): what a unit of weight earns besides −KL(q_w ‖ ref)."""
        if self._reference is None:
            return self.log_joint
        mean, inverse = self._reference
        expected = self._reference_height - 0.5 * (
            np.square((self.centres - mean) @ inverse.T).sum(axis=1)
            + np.square(inverse @ self.factors).sum(axis=(1, 2))
        )
        return self.link_log_joint - expected

    @cached_property
    def whiteners(self) -> Array:
        """F_j⁻¹ (K, D, D)."""
        return np.asarray(np.linalg.inv(self.factors), dtype=float)

    @cached_property
    def _quadratic(self) -> Array:
        """Upper triangle of −½ (F_j F_jᵀ)⁻¹, off-diagonal entries doubled (K, D(D+1)/2)."""
        rows, columns = np.triu_indices(self.dimension)
        precision = np.matmul(self.whiteners.transpose(0, 2, 1), self.whiteners)
        return precision[:, rows, columns] * np.where(rows == columns, -0.5, -1.0)

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
            self.link_log_joint[keep],
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
        return self._to_original(self._points(component, z), self.link_of[component]), component

    def log_densities(self, x: Array) -> Array:
        """log p_j(θ) (n, K) in the original space; −inf outside the hard bounds."""
        inside = self.links[0].inside(x)
        out = np.full((len(x), self.size), -np.inf)
        for index, link in enumerate(self.links):
            y = link.forward(x[inside])
            columns = np.flatnonzero(self.link_of == index)
            out[np.ix_(inside, columns)] = (
                self._log_gaussians(y, columns) - link.log_jacobian(y)[:, None]
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

    def draw(
        self, counts: Index, rng: np.random.Generator, *, quasi: bool = True
    ) -> Iterator[Block]:
        """Blocks of log densities at `counts[j]` draws of every component j.

        `quasi` draws one scrambled Sobol sequence, shifted at random for each component, and not
        independent points. Neighbouring components form a block, so that far ones can be left out.
        """
        points = _Points(self.dimension, int(counts.max(initial=0)), rng, quasi)
        for members in self._neighbourhoods(np.flatnonzero(counts), counts):
            sources = np.repeat(members, counts[members])
            z = points.normal(counts[members])
            y = self._points(sources, z)
            if len(self.links) == 1:
                floor = (self.log_heights[sources] - 0.5 * np.square(z).sum(axis=1)).min()
                columns = self._near(y, floor + np.log(NEGLIGIBLE))
                log_p = self._local_log_gaussians(y, columns, self._log_reference(y))
            else:
                columns = np.arange(self.size)
                log_p = self._log_densities_across_links(y, self.link_of[sources])
            yield Block(sources, columns, log_p)

    def _log_densities_across_links(self, y: Array, link_of: Index) -> Array:
        """log p_j (n, K) in the original space, for points given in the space of their own link.

        Components of the same link are evaluated there: on the way through θ a point far out in a
        tail would come back from the nearest number within the bounds.
        """
        out = np.empty((len(y), self.size))
        for source, link in enumerate(self.links):
            rows = np.flatnonzero(link_of == source)
            x = link.inverse(y[rows])
            for index, other in enumerate(self.links):
                columns = np.flatnonzero(self.link_of == index)
                there = y[rows] if index == source else other.forward(x)
                out[np.ix_(rows, columns)] = (
                    self._log_gaussians(there, columns) - other.log_jacobian(there)[:, None]
                )
        return out

    def _points(self, component: Index, z: Array) -> Array:
        """c_j + F_j z (n, D); column by column, which is faster than one einsum."""
        y = self.centres[component]
        for e in range(self.dimension):
            y += self.factors[:, :, e][component] * z[:, e, None]
        return y

    def _log_reference(self, y: Array) -> Array:
        assert self._reference is not None
        mean, inverse = self._reference
        return self._reference_height - 0.5 * np.square((y - mean) @ inverse.T).sum(axis=1)

    def _to_original(self, y: Array, link_of: Index) -> Array:
        x = np.empty_like(y)
        for index, link in enumerate(self.links):
            rows = link_of == index
            x[rows] = link.inverse(y[rows])
        return x

    def _log_gaussians(self, y: Array, columns: Index) -> Array:
        """log N(y; c_j, F_j F_jᵀ) (n, k) by residuals; rounding is linear in extent / σ."""
        d = self.dimension
        origin = y.mean(axis=0) if len(y) else np.zeros(d)
        flat = self.whiteners[columns].reshape(-1, d)
        whitened = ((y - origin) @ flat.T).reshape(len(y), len(columns), d)
        residuals = whitened + self._whitened_from(origin)[columns]
        return self.log_heights[columns] - 0.5 * np.einsum("nkd,nkd->nk", residuals, residuals)

    def _local_log_gaussians(self, y: Array, columns: Index, less: Array) -> NDArray[np.floating]:
        """The same minus `less` (n,), as one matrix product of features, for y near each other.

        Squares are expanded around the points' own mean; what cancels is of the order of
        (extent of y / smallest σ)² times the machine epsilon. Single precision, twice as fast, is
        used where that stays below 1e-3, double where not, and residuals where neither will do.
        """
        rows, cols = np.triu_indices(self.dimension)
        origin = y.mean(axis=0)
        local = y - origin
        whiteners = self.whiteners[columns]
        b = self._whitened_from(origin)[columns]
        coefficients = np.vstack(
            [
                self._quadratic[columns].T,
                -np.matmul(b[:, None, :], whiteners)[:, 0].T,
                self.log_heights[columns] - 0.5 * np.square(b).sum(axis=1),
                np.ones(len(columns)),
            ]
        )
        features = np.column_stack([local[:, rows] * local[:, cols], local, np.ones(len(y)), -less])
        terms = float((np.abs(features).max(axis=0) @ np.abs(coefficients)).max())
        if terms * np.finfo(np.float32).eps < _CANCELLATION:
            return features.astype(np.float32) @ coefficients.astype(np.float32)
        if terms * np.finfo(float).eps < _CANCELLATION:
            return features @ coefficients
        return self._log_gaussians(y, columns) - less[:, None]

    def _whitened_from(self, origin: Array) -> Array:
        """F_j⁻¹ (origin − c_j) (K, D)."""
        return np.matmul(self.whiteners, (origin - self.centres)[:, :, None])[:, :, 0]

    def _near(self, y: Array, threshold: float) -> Index:
        """Components whose log density may exceed `threshold` at any of the points y.

        With y = origin + B z and |z| ≤ r:  |F_j⁻¹(y − c_j)| ≥ |F_j⁻¹(origin − c_j)| − r‖F_j⁻¹B‖.
        """
        if len(y) <= 3 * self.dimension:
            return np.arange(self.size)
        origin = y.mean(axis=0)
        local = y - origin
        try:
            factor = np.linalg.cholesky(local.T @ local / len(y))
        except np.linalg.LinAlgError:  # points on a line: no bound, evaluate everything
            return np.arange(self.size)
        radius = np.sqrt(np.square(np.linalg.solve(factor, local.T)).sum(axis=0).max())
        spread = self.whiteners.reshape(-1, self.dimension) @ factor
        reach = radius * np.sqrt(np.square(spread).reshape(self.size, -1).sum(axis=1))
        away = np.sqrt(np.square(self._whitened_from(origin)).sum(axis=1))
        distance = np.maximum(0, away - reach)
        return np.flatnonzero(self.log_heights - 0.5 * distance**2 > threshold)

    def _neighbourhoods(self, members: Index, counts: Index) -> Iterator[Index]:
        """Split components into spatial groups of at most `_BLOCK_ROWS` draws, by halving."""
        stack = [members] if members.size else []
        while stack:
            group = stack.pop()
            if group.size == 1 or counts[group].sum() <= _BLOCK_ROWS:
                yield group
                continue
            centres = self.centres[group]
            order = np.argsort(centres[:, np.argmax(centres.std(axis=0))], kind="stable")
            middle = group.size // 2
            stack += [group[order[middle:]], group[order[:middle]]]


class _Points:
    """Standard normal points for components in turn: shifted Sobol, or pseudo-random."""

    def __init__(self, dimension: int, most: int, rng: np.random.Generator, quasi: bool):
        self.rng, self.dimension = rng, dimension
        self.base = None
        if quasi and most > 1:
            power = int(np.ceil(np.log2(most)))
            self.base = qmc.Sobol(dimension, rng=rng).random_base2(power)

    def normal(self, counts: Index) -> Array:
        """Points (Σ counts, D), `counts[i]` for the i-th component, after one another."""
        total = int(counts.sum())
        if self.base is None:
            return self.rng.standard_normal((total, self.dimension))
        position = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        shifts = np.repeat(self.rng.random((len(counts), self.dimension)), counts, axis=0)
        u = (self.base[position] + shifts) % 1.0
        return np.asarray(ndtri(np.clip(u, 1e-15, 1 - 1e-15)))
