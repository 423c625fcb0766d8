"""`StackedPosterior`: everything one does with the result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from vbstack.output import export
from vbstack.runs.files import FileError, pack_runs, read_file, unpack_runs, write_file
from vbstack.runs.run import Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.moments import mixture_moments
from vbstack.stacking.screening import Dropped
from vbstack.stacking.weights import WeightSolution

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Components:
    """Every component of the stack: its run, its place there, its weight, and its centre θ."""

    run: Index
    index: Index
    weights: Array
    centres: Array


@dataclass(frozen=True)
class StackedPosterior:
    """A stacked posterior: a density one can sample, evaluate, summarise and save.

    Attributes
    ----------
    runs : tuple of Run
        The runs that were stacked.
    kept : tuple of int
        Their places among the runs given to `stack`.
    dropped : tuple of Dropped
        The runs left out, with reasons.
    target : str
        "all", "runs" or "naive".
    solution : WeightSolution
        The weights and their certificate.
    evidence : Evidence
        Estimates of the log evidence.
    link_log_joint : (K,) or None
        The expected log-joints, in link space, that the weights were chosen by, where these are not
        the runs' own: pooled ones.
    """

    runs: tuple[Run, ...]
    kept: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    target: str
    solution: WeightSolution
    evidence: Evidence
    link_log_joint: Array | None = None

    @property
    def dimension(self) -> int:
        return self.runs[0].dimension

    @property
    def names(self) -> tuple[str, ...]:
        return self.runs[0].names

    @property
    def weights(self) -> Array:
        """Weight of every component (K,), run after run."""
        return self.solution.weights

    @property
    def run_weights(self) -> Array:
        """Total weight of every stacked run (M,)."""
        totals = np.bincount(self._mixture.owner, self.weights, minlength=len(self.runs))
        return totals.astype(float)

    @property
    def components(self) -> Components:
        mixture = self._mixture
        index = np.concatenate([np.arange(run.n_components) for run in self.runs])
        return Components(mixture.owner, index, self.weights, mixture.original_centres)

    @property
    def judged_mixture(self) -> Mixture:
        """All components, with the expected log-joints that the weights were chosen by."""
        if self.link_log_joint is None:
            return self._mixture
        return replace(self._mixture, link_log_joint=self.link_log_joint)

    @cached_property
    def _mixture(self) -> Mixture:
        return Mixture.from_runs(self.runs)

    def sample(self, n: int, seed: int | np.random.Generator | None = None) -> Array:
        """n independent draws (n, D) in the original space; without a seed they are always new."""
        return self.labelled_sample(n, seed)[0]

    def labelled_sample(
        self, n: int, seed: int | np.random.Generator | None = None
    ) -> tuple[Array, Index]:
        """The draws of `sample`, and the component (n,) that each comes from."""
        if int(n) != n or n < 0:
            raise ValueError(f"n={n!r} must be a whole number of draws, zero or more")
        return self._mixture.labelled_sample(self.weights, int(n), np.random.default_rng(seed))

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
        values = self._mixture.log_density(rows, self.weights)
        return values[0] if points.ndim == 1 else values

    def pdf(self, x: ArrayLike) -> Array:
        """Density at points (n, D) or one point (D,); 0 outside the hard bounds."""
        return np.asarray(np.exp(self.log_pdf(x)))

    def moments(self) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) in the original space, without Monte Carlo error."""
        return mixture_moments(self._mixture, self.weights)

    def mode(self) -> Array:
        """The point (D,) of highest density in the original space."""
        heavy = np.argsort(self.weights)[::-1][:200]
        starts = self._mixture.original_centres[heavy[self.weights[heavy] > 0]]
        best = starts[np.argsort(self.log_pdf(starts))[::-1][:5]]
        link = self._mixture.links[0]
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
        return mixture_moments(self._mixture, self.weights, original=False)[1]

    def summary(self) -> str:
        """A readable table: the runs, the evidence and the parameters."""
        return "\n".join(
            [*self._run_lines(), "", *self._evidence_lines(), "", *self._parameter_lines()]
        )

    def _run_lines(self) -> list[str]:
        lines = [
            f"Stack of {len(self.runs)} runs, {self.weights.size} components, "
            f"{np.count_nonzero(self.weights)} with weight (weights: {self.target})",
            f"{'run':>5} {'ELBO':>10} {'± sd':>8} {'components':>11} {'weight':>8}",
        ]
        for place, run, weight in zip(self.kept, self.runs, self.run_weights, strict=True):
            lines.append(
                f"{place:>5} {run.elbo:>10.3f} {run.elbo_sd:>8.3f} {run.n_components:>11} "
                f"{weight:>8.4f}"
            )
        lines += [
            f"{place:>5} {run.floored} failed evaluations were replaced by a low value"
            for place, run in zip(self.kept, self.runs, strict=True)
            if run.floored
        ]
        return lines + [f"{d.index:>5} dropped: {d.reason}" for d in self.dropped]

    def _evidence_lines(self) -> list[str]:
        e, s = self.evidence, self.solution
        return [
            f"Log evidence  {e.headline:.4f} ± {e.headline_sd:.4f}  ({e.headline_method}: "
            f"{e.headline_reason})",
            f"  raw {e.raw:.4f}   capped by components {e.capped_components:.4f}   "
            f"by runs {e.capped_runs:.4f}   naive stacking {e.naive:.4f}",
            *self._pooled_lines(),
            f"  entropy s.e. {e.entropy_sd:.4f}   quadrature s.d. {e.gp_sd:.4f}",
            f"Weights       within {s.gap:.4f} nats of the best of their kind ({self.target}), "
            f"which lies in [{s.lower:.4f}, {s.upper:.4f}]",
            f"  {s.status}; {s.draws} draws, {s.iterations} gradients",
        ]

    def _pooled_lines(self) -> list[str]:
        e = self.evidence
        if e.pooled is None:
            return []
        return [
            f"  pooled evaluations: ELBO {e.pooled_elbo:.4f} (selection of {e.selection:.4f} taken "
            f"off), divergence from the posterior {e.divergence:.4f}; log evidence {e.pooled:.4f}"
        ]

    def _parameter_lines(self) -> list[str]:
        mean, covariance = self.moments()
        sd, mode = np.sqrt(np.diag(covariance)), self.mode()
        width = max(9, *(len(name) for name in self.names))
        lines = [f"{'parameter':<{width}} {'mean':>11} {'sd':>11} {'mode':>11}"]
        for row in zip(self.names, mean, sd, mode, strict=True):
            lines.append(f"{row[0]:<{width}} {row[1]:>11.4g} {row[2]:>11.4g} {row[3]:>11.4g}")
        return lines

    def report(self, path: str | os.PathLike[str], **settings: Any) -> Path:
        """Write one self-contained HTML file about this stack (settings: see `write_report`)."""
        from vbstack.output.report import write_report

        return write_report(self, path, **settings)

    def to_arviz(self, n: int = 4000, **settings: Any) -> Any:
        """An ArviZ `DataTree` of n draws with the evidence as attributes; see `export.to_arviz`."""
        return export.to_arviz(self, n, **settings)

    def to_netcdf(self, path: str | os.PathLike[str], n: int = 4000, **settings: Any) -> Path:
        """The NetCDF file of `to_arviz`; see `export.to_netcdf`."""
        return export.to_netcdf(self, path, n, **settings)

    def to_csv(self, path: str | os.PathLike[str], n: int = 4000, **settings: Any) -> Path:
        """A CSV file of n draws with their log densities and runs; see `export.to_csv`."""
        return export.to_csv(self, path, n, **settings)

    def to_gaussian_mixture(self) -> export.GaussianMixture:
        """Exact weights, means and covariances in the original space, without hard bounds."""
        return export.to_gaussian_mixture(self)

    def rvs(
        self,
        size: int | tuple[int, ...] = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Draws under SciPy's name; see `export.rvs`."""
        return export.rvs(self, size, random_state)

    def logpdf(self, x: ArrayLike) -> Array:
        """Log density under SciPy's name, for points (..., D)."""
        return export.logpdf(self, x)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write everything to one `.npz`; an existing file is kept unless `overwrite` is given."""
        arrays, headers = pack_runs(self.runs)
        solution = asdict(self.solution)
        arrays["solution.weights"] = solution.pop("weights")
        if self.link_log_joint is not None:
            arrays["link_log_joint"] = self.link_log_joint
        header = {
            "runs": headers,
            "kept": list(self.kept),
            "dropped": [asdict(d) for d in self.dropped],
            "target": self.target,
            "solution": solution,
            "evidence": asdict(self.evidence),
        }
        return write_file(path, "posterior", arrays, header, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StackedPosterior:
        """The posterior that `save` wrote."""
        arrays, header = read_file(path, "posterior")
        runs = unpack_runs(path, arrays, header.get("runs"))
        try:
            return cls(
                runs=tuple(runs),
                kept=tuple(header["kept"]),
                dropped=tuple(Dropped(**d) for d in header["dropped"]),
                target=header["target"],
                solution=WeightSolution(weights=_weights(arrays, runs), **header["solution"]),
                evidence=Evidence(**header["evidence"]),
                link_log_joint=arrays.get("link_log_joint"),
            )
        except (KeyError, TypeError) as error:
            raise FileError(f"{path} is incomplete: {error}") from error


def _weights(arrays: dict[str, NDArray[Any]], runs: Sequence[Run]) -> Array:
    weights = np.asarray(arrays["solution.weights"], dtype=float)
    expected = sum(run.n_components for run in runs)
    if weights.shape != (expected,):
        raise KeyError(f"{weights.size} weights for {expected} components")
    return weights
