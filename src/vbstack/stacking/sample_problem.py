"""`SampleProblem`: draws from the components turned into a concave problem for the weights.

All draws serve all components (multiple importance sampling, balance heuristic). With N draws, n_j
of them from component j, and densities relative to the reference (see `mixture`):

    R_nj = p_j(x_n) / Σ_i n_i p_i(x_n),  columns scaled to sum to one by factors c_j near one
    q_w(x) = Σ_j c_j w_j p_j(x)
    L̂(w) = Σ_j w_j ( r_j − Σ_n R_nj log q_w(x_n) )

With t = R w, each term of the entropy is −t_n log t_n plus something linear in w. So L̂ is exactly
concave: it is the capacity of a discrete channel R with rewards r. Hence, on the simplex,

    g_j = r_j − Σ_n R_nj log q_w(x_n)        L̂(w) = Σ_j w_j g_j
    max_v L̂(v) − L̂(w)  ≤  max_j g_j − L̂(w)

From log-joints that are not trusted fully a charge P(w) is taken (see `caution`); `value` and
`gradient` are then those of L̂ − P, with the same bound.

Weights may be tied: with a basis B, w = B v and v on a smaller simplex, R B is again a channel.

R is kept as dense single-precision blocks: the draws of neighbouring components, against the
components that are not negligible there. A gradient passes once over memory, which is
faster than a sparse matrix from which every negligible entry is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vbstack.arrays import Array, Index
from vbstack.stacking.caution import Caution
from vbstack.stacking.draws import NEGLIGIBLE, draw
from vbstack.stacking.mixture import Mixture

_TINY = 1e-37  # below the smallest density that single precision holds


@dataclass(frozen=True)
class DenseBlock:
    """p_j(x_n) = exp(log_scale_n) · densities_nj for n draws and the components `columns`.

    `share` (n,) is exp(log_scale_n) / Σ_i n_i p_i(x_n), so that R_nj ∝ share_n · densities_nj.
    """

    columns: Index
    densities: NDArray[np.floating]
    log_scale: Array
    share: NDArray[np.floating]


@dataclass(frozen=True)
class Sample:
    """Component densities at draws, in blocks; `sources` say whose, `counts` (K,) how many."""

    columns: tuple[Index, ...]
    densities: tuple[NDArray[np.floating], ...]
    log_scales: tuple[Array, ...]
    sources: tuple[Index, ...]
    counts: Index

    @classmethod
    def draw(
        cls, mixture: Mixture, counts: Index, rng: np.random.Generator, *, quasi: bool = True
    ) -> Sample:
        """`counts[j]` draws of every component j of the mixture."""
        columns, densities, log_scales, sources = [], [], [], []
        for block in draw(mixture, counts, rng, quasi=quasi):
            values, log_scale = block.densities()
            seen = np.flatnonzero(values.max(axis=0) > NEGLIGIBLE)
            columns.append(block.columns[seen])
            densities.append(values.take(seen, axis=1))
            log_scales.append(log_scale)
            sources.append(block.sources)
        return cls(tuple(columns), tuple(densities), tuple(log_scales), tuple(sources), counts)

    @property
    def size(self) -> int:
        return int(self.counts.sum())

    @property
    def stored_values(self) -> int:
        return sum(values.size for values in self.densities)

    def extended(self, other: Sample) -> Sample:
        """Both samples' draws together."""
        return Sample(
            self.columns + other.columns,
            self.densities + other.densities,
            self.log_scales + other.log_scales,
            self.sources + other.sources,
            self.counts + other.counts,
        )


@dataclass(frozen=True)
class SampleProblem:
    """The concave sample problem: maximise `value(w)` over the simplex.

    R = diag(share) · densities · diag(column_scale); `linear` (T,) is r_j − Σ_n R_nj log_scale_n.
    With `caution` its charge is taken off.
    """

    blocks: tuple[DenseBlock, ...]
    column_scale: Array
    linear: Array
    caution: Caution | None = None

    @classmethod
    def from_sample(
        cls, sample: Sample, reward: Array, basis: sparse.csr_array | None = None
    ) -> SampleProblem:
        """The problem of a sample; `basis` (K, T) ties the weights, w = B v."""
        counts = sample.counts.astype(float)
        blocks = []
        for columns, values, log_scale in zip(
            sample.columns, sample.densities, sample.log_scales, strict=True
        ):
            share = 1.0 / _product(values, counts[columns].astype(values.dtype))
            if basis is not None:
                columns, values = _tied(columns, values, basis)
            blocks.append(DenseBlock(columns, values, log_scale, share))
        if basis is not None:
            reward = basis.T @ reward
        plain = cls(tuple(blocks), np.ones(reward.size), np.zeros(reward.size))
        scale = 1.0 / plain.input([np.ones(b.share.size) for b in blocks])
        scaled = cls(tuple(blocks), scale, np.zeros(reward.size))
        return cls(tuple(blocks), scale, reward - scaled.input([b.log_scale for b in blocks]))

    @property
    def size(self) -> int:
        return int(self.linear.size)

    def face(self, keep: Index) -> SampleProblem:
        """The same problem with the weights `keep` (T',) alone, all others being zero.

        Columns do not depend on each other, so nothing is computed anew; the draws of what is left
        out still serve the rest.
        """
        place = np.full(self.size, -1)
        place[keep] = np.arange(keep.size)
        blocks = []
        for b in self.blocks:
            mine = np.flatnonzero(place[b.columns] >= 0)
            if mine.size:
                values = b.densities.take(mine, axis=1)
                blocks.append(DenseBlock(place[b.columns[mine]], values, b.log_scale, b.share))
        caution = None if self.caution is None else self.caution.face(keep)
        return SampleProblem(tuple(blocks), self.column_scale[keep], self.linear[keep], caution)

    def cautious(self, caution: Caution | None) -> SampleProblem:
        """The same problem with this charge, or with none."""
        return replace(self, caution=caution)

    def gradient(self, w: Array) -> Array:
        """g (T,), with L̂(w) = Σ_j w_j g_j. One pass: a block is still in cache the second time."""
        scaled = self.column_scale * w
        total = np.zeros(self.size)
        for b in self.blocks:
            mixed = _product(b.densities, scaled[b.columns].astype(b.densities.dtype))
            np.log(np.maximum(mixed, _TINY, out=mixed), out=mixed)
            mixed *= b.share
            total[b.columns] += _product(mixed, b.densities)
        slope = self.linear - self.column_scale * total
        return slope if self.caution is None else slope - self.caution.slope(w)

    def value(self, w: Array) -> float:
        """L̂(w), less the charge."""
        return float(w @ self.gradient(w))

    def charge(self, w: Array) -> float:
        """What `value` leaves out of L̂(w) for caution's sake."""
        return 0.0 if self.caution is None else self.caution.charge(w)

    def mixed(self, w: Array) -> list[Array]:
        """q_w(x_n) / exp(log_scale_n), block by block."""
        scaled = self.column_scale * w
        return [
            _product(b.densities, scaled[b.columns].astype(b.densities.dtype)).astype(float)
            for b in self.blocks
        ]

    def input(self, y: list[Array]) -> Array:
        """Rᵀ y (T,) for y given block by block; the sum over blocks is in double precision."""
        total = np.zeros(self.size)
        for b, part in zip(self.blocks, y, strict=True):
            total[b.columns] += _product((b.share * part).astype(b.densities.dtype), b.densities)
        return self.column_scale * total

    def influence(self, w: Array) -> Array:
        """About what each draw adds to L̂(w) − E[L̂(w)] (N,); the root of its sum of squares is a
        standard error.

        Σ_j w_j R_nj (h_n − Σ_i R_ij h_i) with h_n = −log q_w(x_n): columns that sum to one cancel
        whatever is constant within a component. The effect of c_j inside log q_w is left out, and
        so is the gain of drawing each component in its share; over repeated pseudo-random draws the
        promised error was within 3 % of the observed one. Quasi-random draws do better.
        """
        mixed = self.mixed(w)
        h = [
            -np.log(np.maximum(q, _TINY)) - b.log_scale
            for q, b in zip(mixed, self.blocks, strict=True)
        ]
        centred = self.mixed(w * self.input(h))
        parts = zip(self.blocks, mixed, h, centred, strict=True)
        return np.concatenate([b.share * (q * h_n - c) for b, q, h_n, c in parts])


def _tied(
    columns: Index, values: NDArray[np.floating], basis: sparse.csr_array
) -> tuple[Index, NDArray[np.floating]]:
    """Columns and densities of a block under tied weights."""
    part = basis[columns]
    tied = np.unique(part.indices).astype(np.int64)
    return tied, _product(values, part[:, tied].toarray().astype(values.dtype))


def _product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """a @ b without NumPy's warning of invalid values.

    With few columns of single-precision numbers that flag was seen to be raised, rarely, by calls
    that pass when they are repeated. A result that is not finite is none the less so.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(a @ b)
