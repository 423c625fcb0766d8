"""`Caution`: what weights by the runs' own log-joints are charged for the errors of these.

The runs know their expected log-joints I with covariances J_m, and weights that maximise the ELBO
look for the components whose I_j came out too high. Take instead the worst errors e that are still
likely, β standard errors in every run at once,

    Σ_m e_mᵀ J_m⁻¹ e_m  ≤  β² M        (e_m = A_m u_m with J_m = A_m A_mᵀ and Σ_m |u_m|² ≤ β² M)

and the weights with the highest ELBO that then is left. The minimum over such errors of
Σ_j w_j (I_j + e_j) + H[q_w] is L(w) − P(w), with

    P(w) = β √(M Σ_m w_mᵀ J_m w_m)  =  β √M · (standard error of Σ_j w_j I_j)

P is convex and of degree one, so that L − P is concave and linear in its own gradient:

    P(w) = Σ_j w_j ∂P/∂w_j        P(v) ≥ Σ_j v_j ∂P/∂w_j  for all v

Hence a sample problem from whose gradient ∂P/∂w is taken has the same bounds as one without
(`sample_problem`, `solver`); they are about L − P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vbstack.arrays import Array, Index
from vbstack.runs.run import Run

# β of caution="auto". Chosen on six archives (`python -m benchmarks own-values`).
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Caution:
    """The charge P(w) = β √(number of runs) · |Aᵀ w|.

    Parameters
    ----------
    standard_errors : float
        β.
    columns : tuple of (k_m,)
        The weights that belong to each run.
    roots : tuple of (k_m, r_m)
        Each run's A_m.
    """

    standard_errors: float
    columns: tuple[Index, ...]
    roots: tuple[Array, ...]

    @classmethod
    def of(cls, runs: Sequence[Run], standard_errors: float) -> Caution | None:
        """The charge for these runs' components in order; None where it is nothing."""
        if standard_errors == 0:
            return None
        ends = np.cumsum([run.n_components for run in runs])
        columns = tuple(
            np.arange(end - run.n_components, end) for run, end in zip(runs, ends, strict=True)
        )
        return cls(standard_errors, columns, tuple(_root(run) for run in runs))

    def tied(self, basis: sparse.csr_array) -> Caution:
        """The same charge for weights w = basis · v, as a function of v."""
        columns, roots = [], []
        for rows, root in zip(self.columns, self.roots, strict=True):
            part = basis[rows]
            mine = np.unique(part.indices).astype(np.int64)
            columns.append(mine)
            roots.append(part[:, mine].T @ root)
        return Caution(self.standard_errors, tuple(columns), tuple(roots))

    def face(self, keep: Index) -> Caution:
        """The charge for the weights `keep` alone, and for the runs that these belong to."""
        columns, roots = [], []
        for mine, root in zip(self.columns, self.roots, strict=True):
            inside = np.isin(mine, keep)
            if inside.any():
                columns.append(np.flatnonzero(np.isin(keep, mine)))
                roots.append(root[inside])
        return Caution(self.standard_errors, tuple(columns), tuple(roots))

    def charge(self, w: Array) -> float:
        """P(w), in nats."""
        projected = [w[mine] @ root for mine, root in zip(self.columns, self.roots, strict=True)]
        return self._scale * float(np.linalg.norm(np.concatenate(projected)))

    def slope(self, w: Array) -> Array:
        """∂P/∂w (T,); zero where P has no slope, which keeps the bound."""
        out = np.zeros(w.size)
        projected = [w[mine] @ root for mine, root in zip(self.columns, self.roots, strict=True)]
        norm = float(np.linalg.norm(np.concatenate(projected)))
        if norm > 0:
            for mine, root, part in zip(self.columns, self.roots, projected, strict=True):
                out[mine] += self._scale / norm * (root @ part)
        return out

    @property
    def _scale(self) -> float:
        return self.standard_errors * float(np.sqrt(len(self.columns)))


def _root(run: Run) -> Array:
    """A with J = A Aᵀ; eigenvalues that rounding made negative count as zero."""
    values, vectors = np.linalg.eigh(run.expected_log_joint_covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
