"""Draws of a mixture's components, and the log densities of all components there.

The weights' sample problem and the ELBO need every component's density at draws of every other: ten
million of them for forty runs. So draws come in blocks of neighbouring components, for which far
components can be left out and the rest be evaluated as one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from vbstack.arrays import Array, Index
from vbstack.numerics.quasi_random import shifted_normals
from vbstack.stacking.mixture import Mixture

_BLOCK_ROWS = 1024  # draws evaluated together; 512 to 2048 were equally fast
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


def draw(
    mixture: Mixture, counts: Index, rng: np.random.Generator, *, quasi: bool = True
) -> Iterator[Block]:
    """Blocks of log densities at `counts[j]` draws of every component j.

    `quasi` draws one scrambled Sobol sequence, shifted at random for each component, and not
    independent points. Neighbouring components form a block, so that far ones can be left out.
    """
    points = _Points(mixture.dimension, int(counts.max(initial=0)), rng, quasi)
    for members in _neighbourhoods(mixture, np.flatnonzero(counts), counts):
        sources = np.repeat(members, counts[members])
        z = points.normal(counts[members])
        y = mixture.points(sources, z)
        if len(mixture.links) == 1:
            floor = (mixture.log_heights[sources] - 0.5 * np.square(z).sum(axis=1)).min()
            columns = _near(mixture, y, floor + np.log(NEGLIGIBLE))
            log_p = _local_log_gaussians(mixture, y, columns, mixture.log_reference(y))
        else:
            columns = np.arange(mixture.size)
            log_p = _log_densities_across_links(mixture, y, mixture.link_of[sources])
        yield Block(sources, columns, log_p)


def _log_densities_across_links(mixture: Mixture, y: Array, link_of: Index) -> Array:
    """log p_j (n, K) in the original space, for points given in the space of their own link.

    Components of the same link are evaluated there: on the way through θ a point far out in a
    tail would come back from the nearest number within the bounds.
    """
    out = np.empty((len(y), mixture.size))
    for source, link in enumerate(mixture.links):
        rows = np.flatnonzero(link_of == source)
        x = link.inverse(y[rows])
        for index, other in enumerate(mixture.links):
            columns = np.flatnonzero(mixture.link_of == index)
            there = y[rows] if index == source else other.forward(x)
            out[np.ix_(rows, columns)] = (
                mixture.log_gaussians(there, columns) - other.log_jacobian(there)[:, None]
            )
    return out


def _local_log_gaussians(
    mixture: Mixture, y: Array, columns: Index, less: Array
) -> NDArray[np.floating]:
    """log N(y; c_j, F_j F_jᵀ) − `less` (n, k), one product of features, for y near each other.

    Squares are expanded around the points' own mean; what cancels is of the order of
    (extent of y / smallest σ)² times the machine epsilon. Single precision, twice as fast, is
    used where that stays below 1e-3, double where not, and residuals where neither will do.
    """
    rows, cols = np.triu_indices(mixture.dimension)
    origin = y.mean(axis=0)
    local = y - origin
    whiteners = mixture.whiteners[columns]
    b = mixture.whitened_from(origin)[columns]
    coefficients = np.vstack(
        [
            mixture.quadratics[columns].T,
            -np.matmul(b[:, None, :], whiteners)[:, 0].T,
            mixture.log_heights[columns] - 0.5 * np.square(b).sum(axis=1),
            np.ones(len(columns)),
        ]
    )
    features = np.column_stack([local[:, rows] * local[:, cols], local, np.ones(len(y)), -less])
    terms = float((np.abs(features).max(axis=0) @ np.abs(coefficients)).max())
    if terms * np.finfo(np.float32).eps < _CANCELLATION:
        return features.astype(np.float32) @ coefficients.astype(np.float32)
    if terms * np.finfo(float).eps < _CANCELLATION:
        return features @ coefficients
    return mixture.log_gaussians(y, columns) - less[:, None]


def _near(mixture: Mixture, y: Array, threshold: float) -> Index:
    """Components whose log density may exceed `threshold` at any of the points y.

    With y = origin + B z and |z| ≤ r:  |F_j⁻¹(y − c_j)| ≥ |F_j⁻¹(origin − c_j)| − r‖F_j⁻¹B‖.
    """
    if len(y) <= 3 * mixture.dimension:
        return np.arange(mixture.size)
    origin = y.mean(axis=0)
    local = y - origin
    try:
        factor = np.linalg.cholesky(local.T @ local / len(y))
    except np.linalg.LinAlgError:  # points on a line: no bound, evaluate everything
        return np.arange(mixture.size)
    radius = np.sqrt(np.square(np.linalg.solve(factor, local.T)).sum(axis=0).max())
    spread = mixture.whiteners.reshape(-1, mixture.dimension) @ factor
    reach = radius * np.sqrt(np.square(spread).reshape(mixture.size, -1).sum(axis=1))
    away = np.sqrt(np.square(mixture.whitened_from(origin)).sum(axis=1))
    distance = np.maximum(0, away - reach)
    return np.flatnonzero(mixture.log_heights - 0.5 * distance**2 > threshold)


def _neighbourhoods(mixture: Mixture, members: Index, counts: Index) -> Iterator[Index]:
    """Split components into spatial groups of at most `_BLOCK_ROWS` draws, by halving."""
    stack = [members] if members.size else []
    while stack:
        group = stack.pop()
        if group.size == 1 or counts[group].sum() <= _BLOCK_ROWS:
            yield group
            continue
        centres = mixture.centres[group]
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
        return shifted_normals(self.base[position], shifts, 1e-15)
