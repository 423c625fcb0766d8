"""`Channel`: draws from the components turned into a concave problem for the weights.

All draws serve all components (multiple importance sampling, balance heuristic). With N draws, n_j
of them from component j, and densities relative to the reference (see `mixture`):

    N q̄(x) = Σ_j n_j p_j(x)          R_nj = p_j(x_n) / (N q̄(x_n)),  columns scaled to sum to one
    t = R w                           L̂(w) = Σ_j w_j r_j − Σ_n t_n ( log t_n + log N q̄(x_n) )

Every term −t log t is concave in w, so L̂ is exactly concave: the capacity of a discrete channel R
with rewards r. Hence, for weights w on the simplex,

    g_j = r_j − Σ_n R_nj ( log t_n + log N q̄(x_n) )        L̂(w) = Σ_j w_j g_j
    max_v L̂(v) − L̂(w)  ≤  max_j g_j − L̂(w)

Weights may be tied: with a basis B, w = B v and v on a smaller simplex, R B is again a channel.

R is kept as dense single-precision blocks: the draws of neighbouring components, against the
components that are not negligible there. Matrix-vector products then run at the speed of memory,
three times faster than a sparse matrix with the negligible entries removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vbstack.mixture import Mixture

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_TINY = 1e-300


@dataclass(frozen=True)
class DenseBlock:
    """Densities of the components `columns` at n draws, each row scaled by its largest."""

    columns: Index
    densities: NDArray[np.floating]


@dataclass(frozen=True)
class Sample:
    """Component densities at draws: p_j(x_n) = exp(log_scale_n) · densities_nj.

    `sources` (N,) names the component that each draw came from; `counts` (K,) how many did.
    """

    blocks: tuple[DenseBlock, ...]
    log_scale: Array
    sources: Index
    counts: Index

    @classmethod
    def draw(
        cls, mixture: Mixture, counts: Index, rng: np.random.Generator, *, quasi: bool = True
    ) -> Sample:
        """`counts[j]` draws of every component j of the mixture."""
        blocks, scales, sources = [], [], []
        for block in mixture.draw(counts, rng, quasi=quasi):
            densities, scale = block.densities()
            blocks.append(DenseBlock(block.columns, densities))
            scales.append(scale)
            sources.append(block.sources)
        return cls(tuple(blocks), np.concatenate(scales), np.concatenate(sources), counts)

    @property
    def stored_values(self) -> int:
        return sum(block.densities.size for block in self.blocks)

    def extended(self, other: Sample) -> Sample:
        """Both samples' draws together."""
        return Sample(
            self.blocks + other.blocks,
            np.concatenate([self.log_scale, other.log_scale]),
            np.concatenate([self.sources, other.sources]),
            self.counts + other.counts,
        )


@dataclass(frozen=True)
class Channel:
    """The concave sample problem: maximise `value(w)` over the simplex.

    R = diag(row_scale) · blocks · diag(column_scale); `log_base` (N,) is log N q̄(x_n); `linear`
    (T,) collects r_j − Σ_n R_nj log N q̄(x_n).
    """

    blocks: tuple[DenseBlock, ...]
    row_scale: Array
    column_scale: Array
    log_base: Array
    linear: Array

    @classmethod
    def from_sample(
        cls, sample: Sample, reward: Array, basis: sparse.csr_array | None = None
    ) -> Channel:
        """The channel of a sample; `basis` (K, T) ties the weights, w = B v."""
        density = times(sample.blocks, sample.counts.astype(float))
        blocks = sample.blocks
        if basis is not None:
            blocks, reward = tuple(_tied(block, basis) for block in blocks), basis.T @ reward
        row_scale, log_base = 1.0 / density, np.log(density) + sample.log_scale
        column_scale = 1.0 / transposed_times(blocks, row_scale, reward.size)
        shift = transposed_times(blocks, row_scale * log_base, reward.size)
        return cls(blocks, row_scale, column_scale, log_base, reward - column_scale * shift)

    @property
    def size(self) -> int:
        return int(self.linear.size)

    def output(self, w: Array) -> Array:
        """t = R w (N,)."""
        return self.row_scale * times(self.blocks, self.column_scale * w)

    def input(self, y: Array) -> Array:
        """Rᵀ y (T,)."""
        return self.column_scale * transposed_times(self.blocks, self.row_scale * y, self.size)

    def gradient(self, w: Array) -> Array:
        """g (T,), with L̂(w) = Σ_j w_j g_j."""
        return self.linear - self.input(np.log(np.maximum(self.output(w), _TINY)))

    def value(self, w: Array) -> float:
        """L̂(w)."""
        return float(w @ self.gradient(w))

    def influence(self, w: Array) -> Array:
        """What each draw adds to L̂(w) − E[L̂(w)], to first order (N,): for standard errors.

        Σ_j w_j R_nj (h_n − Σ_i R_ij h_i) with h_n = −log t_n − log N q̄(x_n): columns that sum to
        one cancel whatever is constant within a component.
        """
        t = self.output(w)
        h = -np.log(np.maximum(t, _TINY)) - self.log_base
        return t * h - self.output(w * self.input(h))


def times(blocks: tuple[DenseBlock, ...], x: Array) -> Array:
    """blocks · x, block after block."""
    parts = [b.densities @ x[b.columns].astype(b.densities.dtype) for b in blocks]
    return np.concatenate(parts).astype(float)


def transposed_times(blocks: tuple[DenseBlock, ...], y: Array, size: int) -> Array:
    """blocksᵀ · y; the sum over blocks is in double precision."""
    total, start = np.zeros(size), 0
    for block in blocks:
        stop = start + len(block.densities)
        total[block.columns] += y[start:stop].astype(block.densities.dtype) @ block.densities
        start = stop
    return total


def _tied(block: DenseBlock, basis: sparse.csr_array) -> DenseBlock:
    """The block's densities under tied weights."""
    part = basis[block.columns]
    columns = np.unique(part.indices)
    tied = block.densities @ part[:, columns].toarray().astype(block.densities.dtype)
    return DenseBlock(columns, tied)
