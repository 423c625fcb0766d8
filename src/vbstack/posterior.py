"""`StackedPosterior`: a density one can draw from, evaluate and summarise.

Words, figures, reports and files are made by `vbstack.output`, which imports this module; the
methods that lead there find it when they are called (`_output`, the only such place).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from vbstack.arrays import Array, Index
from vbstack.checks import checked
from vbstack.modes import WeightsKind
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.run import WEIGHT_TOLERANCE, Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.importance import pareto_smoothed
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.moments import mixture_moments
from vbstack.stacking.pooling import Pooled, pooled, why_not_pool
from vbstack.stacking.refinement import Refined
from vbstack.stacking.screening import Dropped
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.support import Support
from vbstack.stacking.verification import check_correctable
from vbstack.stacking.weights import WeightSolution

Seed = int | np.random.Generator | None

_SUPPORT_DRAWS = 20_000
_CORRECTED_OF = 8  # draws for each corrected one: importance weights are seldom larger
_ROWS = 4096  # points at which the surrogate is evaluated together: 32 MB for a thousand pivots
NO_RUN = -1  # of a component that refinement added


@dataclass(frozen=True)
class Components:
    """Every component of the stack: its run (−1: of no run, added by refinement), its place there,
    its weight, and its centre θ."""

    run: Index
    index: Index
    weights: Array
    centres: Array


@dataclass(frozen=True)
class GaussianMixture:
    """Σ_k w_k N(μ_k, Σ_k) in the original space: weights (K,), means (K, D), covariances (K, D, D).

    Only components with weight are listed; `run` (K,) is the place of each among the runs given to
    `stack`, −1 for those that refinement added.
    """

    weights: Array
    means: Array
    covariances: Array
    run: Index
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StackedPosterior:
    """A stacked posterior: a density one can sample, evaluate, summarise and save.

    Attributes
    ----------
    runs : tuple of Run
        The runs that were stacked.
    kept : tuple of int
        Their places among the runs given to `stack`; of `fit`, their numbers in the plan.
    dropped : tuple of Dropped
        The runs left out, with reasons; of `fit`, also those that failed.
    settings : StackSettings
        What `stack` was asked for.
    solution : WeightSolution
        The weights and their certificate.
    evidence : Evidence
        Estimates of the log evidence.
    link_log_joint : (K,)
        The expected log-joints, in link space, that the weights rest on: own or pooled.
    sources : tuple of str
        The digest of every run given to `stack`, in order; empty where it is not known (a dropped
        run in a file of version 0.1.0).
    mixture : Mixture
        The components of the runs.
    further : Evaluations or None
        Evaluations of no run that were pooled too: those at which `verify` was surprised.
    refined : Refined or None
        Components of no run that were fitted to the pooled surrogate, and the stack without them.
    """

    runs: tuple[Run, ...]
    kept: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    settings: StackSettings
    solution: WeightSolution
    evidence: Evidence
    link_log_joint: Array
    sources: tuple[str, ...]
    mixture: Mixture = field(repr=False)
    further: Evaluations | None = field(default=None, repr=False)
    refined: Refined | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        size, given = self.mixture.size, len(self.kept) + len(self.dropped)
        checked("posterior", "weights", self.solution.weights, (size,))
        checked("posterior", "link_log_joint", self.link_log_joint, (size,))
        if np.any(self.weights < 0) or abs(self.weights.sum() - 1) > WEIGHT_TOLERANCE:
            raise ValueError("posterior: weights must be non-negative and sum to one")
        # Runs that failed are among the dropped, and have no digest.
        if len(self.kept) != len(self.runs) or not len(self.kept) <= len(self.sources) <= given:
            raise ValueError(
                f"posterior: {len(self.runs)} runs, {len(self.kept)} places of them and "
                f"{len(self.sources)} digests for {given} runs given do not fit together"
            )

    @property
    def dimension(self) -> int:
        return self.runs[0].dimension

    @property
    def names(self) -> tuple[str, ...]:
        return self.runs[0].names

    @property
    def target(self) -> WeightsKind:
        """Which weights were free: "all", "runs" or "naive"."""
        return self.settings.weights

    @property
    def weights(self) -> Array:
        """Weight of every component (K,), run after run."""
        return self.solution.weights

    @property
    def run_weights(self) -> Array:
        """Total weight of every run (M,) in the stack of the runs' components alone."""
        alone = self.unrefined
        totals = np.bincount(alone.mixture.owner, alone.weights, minlength=len(self.runs))
        return totals.astype(float)

    @property
    def refined_weight(self) -> float:
        """Total weight of the components that refinement added."""
        return float(self.weights[self.mixture.owner == len(self.runs)].sum())

    @cached_property
    def unrefined(self) -> StackedPosterior:
        """The stack of the runs' components alone, which says what the runs found."""
        if self.refined is None:
            return self
        size = self.refined.solution.weights.size
        return replace(
            self,
            solution=self.refined.solution,
            evidence=self.refined.evidence,
            link_log_joint=self.link_log_joint[:size],
            mixture=Mixture.from_runs(self.runs),
            refined=None,
        )

    @property
    def components(self) -> Components:
        mixture = self.mixture
        sizes = np.bincount(mixture.owner)
        index = np.concatenate([np.arange(size) for size in sizes])
        run = np.where(mixture.owner < len(self.runs), mixture.owner, NO_RUN)
        return Components(run, index, self.weights, mixture.original_centres)

    def places(self, component: Index) -> Index:
        """The places (n,) of the runs, among those given, of components (n,); −1 for none."""
        named = np.append(np.asarray(self.kept, dtype=np.int64), NO_RUN)
        return named[self.mixture.owner[component]]

    def sample(self, n: int, seed: Seed = None, *, corrected: bool = False) -> Array:
        """n draws (n, D) in the original space; without a seed they are always new.

        With `corrected` they are chosen out of eight times as many by importance weights, with the
        pooled surrogate for the log density: draws of the posterior rather than of the stack. Only
        a stack that was verified, and whose weights can be trusted (k̂), can be corrected.
        """
        if not corrected:
            return self.labelled_sample(n, seed)[0]
        check_correctable(self.evidence.verified)
        rng = np.random.default_rng(seed)
        draws = self.sample(_CORRECTED_OF * n, rng)
        ratios = self.surrogate_log_density(draws)[0] - self.log_pdf(draws)
        weights = np.exp(pareto_smoothed(ratios).log_ratios - ratios.max())
        chosen = rng.choice(len(draws), n, replace=False, p=weights / weights.sum())
        return np.asarray(draws[chosen])

    def surrogate_log_density(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance (n,) of the log density at points (n, D), given all evaluations.

        An error where the evaluations of the runs cannot be pooled.
        """
        if self.surrogate is None:
            raise ValueError(f"there is no pooled surrogate: {why_not_pool(self.runs)}")
        y = self.mixture.links[0].forward(x)
        parts = [self.surrogate.predict(y[i : i + _ROWS]) for i in range(0, len(y), _ROWS)]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean - self.mixture.links[0].log_jacobian(y), variance

    def labelled_sample(self, n: int, seed: Seed = None) -> tuple[Array, Index]:
        """The draws of `sample`, and the component (n,) that each comes from."""
        if int(n) != n or n < 0:
            raise ValueError(f"n={n!r} must be a whole number of draws, zero or more")
        rng = np.random.default_rng(seed)
        draws, component = self.mixture.labelled_sample(self.weights, int(n), rng)
        if self.support is None:
            return draws, component
        inside = self.support.inside(draws)
        while not inside.all():
            again = int((~inside).sum())
            draws[~inside], component[~inside] = self.mixture.labelled_sample(
                self.weights, again, rng
            )
            inside[~inside] = self.support.inside(draws[~inside])
        return draws, component

    @cached_property
    def support(self) -> Support | None:
        """Where the log density is finite, if evaluations were −inf; the stack is cut off there."""
        return Support.of(self.runs, self.further)

    @cached_property
    def surrogate(self) -> Pooled | None:
        """The log density given the evaluations of all runs; None where they cannot be pooled."""
        if why_not_pool(self.runs):
            return None
        return pooled(self.mixture, self.runs, (), self.further)

    @cached_property
    def outside_mass(self) -> float:
        """Share of the mixture that is cut off, outside the support."""
        if self.support is None:
            return 0.0
        draws = self.mixture.sample(self.weights, _SUPPORT_DRAWS, np.random.default_rng(0))
        return 1.0 - max(float(self.support.inside(draws).mean()), 1 / _SUPPORT_DRAWS)

    def log_pdf(self, x: ArrayLike) -> Array:
        """Log density at points (n, D) or one point (D,); −inf outside the hard bounds."""
        points = np.asarray(x, dtype=float)
        rows = points[None] if points.ndim == 1 else points
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise ValueError(
                f"x has shape {points.shape}, expected (n, {self.dimension}) or "
                f"({self.dimension},) for the parameters {self.names}"
            )
        if np.isnan(rows).any():
            row = int(np.argwhere(np.isnan(rows))[0, 0])
            raise ValueError(f"x holds NaN in row {row}")
        values = self.mixture.log_density(rows, self.weights)
        if self.support is not None:
            inside = self.support.inside(rows)
            values = np.where(inside, values - np.log1p(-self.outside_mass), -np.inf)
        return values[0] if points.ndim == 1 else values

    def pdf(self, x: ArrayLike) -> Array:
        """Density at points (n, D) or one point (D,); 0 outside the hard bounds."""
        return np.asarray(np.exp(self.log_pdf(x)))

    def moments(self) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) in the original space, without Monte Carlo error.

        With a support they are those of 20,000 draws, always the same.
        """
        if self.support is not None:
            draws = self.sample(_SUPPORT_DRAWS, seed=0)
            return draws.mean(axis=0), np.atleast_2d(np.cov(draws, rowvar=False))
        return mixture_moments(self.mixture, self.weights)

    def mode(self) -> Array:
        """The point (D,) of highest density in the original space."""
        heavy = np.argsort(self.weights)[::-1][:200]
        starts = self.mixture.original_centres[heavy[self.weights[heavy] > 0]]
        best = starts[np.argsort(self.log_pdf(starts))[::-1][:5]]
        link = self.mixture.links[0]
        spread = np.sqrt(np.diag(self._link_covariance()))

        def objective(z: Array, origin: Array) -> float:
            value = float(self.log_pdf(link.inverse((origin + spread * z)[None]))[0])
            return -value if np.isfinite(value) else 1e300

        found = []
        for start in best:
            origin = link.forward(start[None])[0]
            result = minimize(objective, np.zeros(self.dimension), (origin,), method="L-BFGS-B",
                              bounds=[(-5, 5)] * self.dimension)  # fmt: skip
            found.append(link.inverse((origin + spread * result.x)[None])[0])
        candidates = np.vstack([best, found])
        return np.asarray(candidates[np.argmax(self.log_pdf(candidates))])

    def _link_covariance(self) -> Array:
        return mixture_moments(self.mixture, self.weights, original=False)[1]

    def rvs(self, size: int | tuple[int, ...] = 1, random_state: Seed = None) -> Array:
        """Draws (*size, D) under SciPy's name; (D,) for `size=1`, as SciPy's own laws give."""
        shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        draws = self.sample(int(np.prod(shape)), random_state)
        return draws[0] if shape == (1,) else draws.reshape(*shape, self.dimension)

    def logpdf(self, x: ArrayLike) -> Array:
        """Log density under SciPy's name, for points (..., D); one value per point."""
        points = np.asarray(x, dtype=float)
        if points.ndim < 3:
            return self.log_pdf(points)
        return self.log_pdf(points.reshape(-1, points.shape[-1])).reshape(points.shape[:-1])

    def summary(self) -> str:
        """A readable table: the runs, the evidence and the parameters."""
        return str(_output("summary").summary(self))

    def report(self, path: str | os.PathLike[str], **settings: Any) -> Path:
        """Write one self-contained HTML file about this stack (settings: see `write_report`)."""
        return Path(_output("report").write_report(self, path, **settings))

    def to_arviz(self, n: int = 4000, **settings: Any) -> Any:
        """An ArviZ `DataTree` of n draws with the evidence as attributes; see `output.export`."""
        return _output("export").to_arviz(self, n, **settings)

    def to_netcdf(self, path: str | os.PathLike[str], n: int = 4000, **settings: Any) -> Path:
        """The NetCDF file of `to_arviz`."""
        return Path(_output("export").to_netcdf(self, path, n, **settings))

    def to_csv(self, path: str | os.PathLike[str], n: int = 4000, **settings: Any) -> Path:
        """A CSV file of n draws with their log densities and runs."""
        return Path(_output("export").to_csv(self, path, n, **settings))

    def to_gaussian_mixture(self) -> GaussianMixture:
        """Exact weights, means and covariances in the original space, without hard bounds."""
        mixture: GaussianMixture = _output("export").to_gaussian_mixture(self)
        return mixture

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write everything to one `.npz`; an existing file is kept unless `overwrite` is given."""
        return Path(_output("posterior_file").save(self, path, overwrite=overwrite))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, follow: bool = True) -> StackedPosterior:
        """The posterior that `save` wrote; `follow` allows the path to be a symbolic link."""
        posterior: StackedPosterior = _output("posterior_file").load(path, follow=follow)
        return posterior


def _output(module: str) -> Any:
    """A module of `vbstack.output`."""
    return import_module(f"vbstack.output.{module}")
