"""`Coverage`: which part of the posterior which run found, and how far the runs agree.

A run covers a point when its own density there is at least a twentieth of the stack's. Everything
is measured at draws that serve all components (see `sample_problem`), each with the mass t_n that
the stack gives it: Σ_n t_n = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array, Index
from vbstack.runs.run import Run
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.weights import FreeWeights

COVERS = 0.05  # of the stack's density


@dataclass(frozen=True)
class Coverage:
    """What the M stacked runs found of the posterior.

    Attributes
    ----------
    by_runs : (M + 1,)
        Share of posterior mass that exactly 0, 1, 2, … M runs cover; identical runs count once.
    alone : (M,)
        Share that only this run covers.
    covered : (M,)
        Share that this run covers.
    overlap : (M, M)
        ∫ min(q_a, q_b): the mass that two runs' own posteriors have in common, 0 to 1.
    group : (M,)
        The first run identical to each run: itself, unless it is a copy.
    """

    by_runs: Array
    alone: Array
    covered: Array
    overlap: Array
    group: Index

    @property
    def by_one(self) -> float:
        """Share of posterior mass that exactly one run covers."""
        return float(self.by_runs[1])

    @property
    def by_distinct_runs(self) -> Array:
        """`by_runs` without the places at its end that copies leave empty."""
        return self.by_runs[: np.unique(self.group).size + 1]


def coverage(runs: tuple[Run, ...], mixture: Mixture, weights: Array, sample: Sample) -> Coverage:
    """The coverage of the stack with these component weights, from the draws of `sample`."""
    densities, measure = _run_densities(mixture, sample)
    stack = SampleProblem.from_sample(sample, np.zeros(mixture.size))
    ours = np.concatenate(stack.mixed(weights))
    mass = ours * measure
    mass /= mass.sum()
    group = _groups(runs)
    covers = densities >= COVERS * ours[:, None]
    first = np.unique(group)
    count = covers[:, first].sum(axis=1)
    once = covers & (count == 1)[:, None]
    return Coverage(
        by_runs=np.bincount(count, mass, minlength=len(runs) + 1).astype(float),
        alone=mass @ once,
        covered=mass @ covers,
        overlap=_overlap(densities, measure),
        group=group,
    )


def _run_densities(mixture: Mixture, sample: Sample) -> tuple[Array, Array]:
    """Each run's own density (N, M) at the draws, and the measure (N,) that a draw stands for.

    Both on the scale of the draw, which cancels wherever they are used.
    """
    basis = FreeWeights.of("runs", mixture, [0.0] * mixture.n_runs).basis
    problem = SampleProblem.from_sample(sample, np.zeros(mixture.size), basis)
    rows = []
    for block in problem.blocks:
        values = np.zeros((len(block.share), mixture.n_runs))
        values[:, block.columns] = block.densities * problem.column_scale[block.columns]
        rows.append(values)
    return np.concatenate(rows), np.concatenate([b.share for b in problem.blocks]).astype(float)


def _overlap(densities: Array, measure: Array) -> Array:
    weighted = densities * measure[:, None]  # columns sum to one
    return np.array([np.minimum(weighted, column[:, None]).sum(axis=0) for column in weighted.T])


def _groups(runs: tuple[Run, ...]) -> Index:
    """The first run with the same components as each run."""
    first: dict[bytes, int] = {}
    keys = (b"".join(a.tobytes() for a in (r.means, r.sds, r.weights)) for r in runs)
    return np.array([first.setdefault(key, index) for index, key in enumerate(keys)])
