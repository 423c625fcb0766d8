"""Which runs are kept, and for each dropped run the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbstack.checks import checked_whole
from vbstack.runs.run import Run, TooFewRuns


@dataclass(frozen=True)
class Screen:
    """The rules: a run is kept when it converged and its expected log-joints are known well enough.

    Parameters
    ----------
    require_converged : bool
        Drop runs that their engine did not call converged.
    max_variance : float
        Drop runs in which any component's expected log-joint has this variance or more (paper,
        sec. 4.1: max_k J_kk < 5). The variance is that of the estimate: the quadrature's J_kk plus
        the spread over hyperparameter samples.
    min_runs : int
        Fewer kept runs than this are an error.
    """

    require_converged: bool = True
    max_variance: float = 5.0
    min_runs: int = 1

    def __post_init__(self) -> None:
        if not self.max_variance > 0:
            raise ValueError(f"screen: max_variance={self.max_variance!r} must be positive")
        fewest = checked_whole("screen: min_runs", self.min_runs, 0)
        for name, value in (
            ("require_converged", bool(self.require_converged)),
            ("max_variance", float(self.max_variance)),
            ("min_runs", fewest),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Dropped:
    """A run that was left out: its place among the runs given, and why."""

    index: int
    reason: str


def screen(
    runs: Sequence[Run], rules: Screen | None = None
) -> tuple[tuple[int, ...], tuple[Dropped, ...]]:
    """The indices of the runs to stack, and the dropped runs with their reasons."""
    rules = rules or Screen()
    if len(runs) == 0:
        raise TooFewRuns("no runs were given; stacking needs at least one finished run")
    for index, run in enumerate(runs):
        if not isinstance(run, Run):
            raise TypeError(
                f"item {index} is a {type(run).__name__}, not a vbstack.Run; convert pyvbmc's "
                "posteriors with Run.from_pyvbmc(vp)"
            )
    _check_same_problem(runs)
    reasons = [_reason_to_drop(run, rules) for run in runs]
    kept = tuple(index for index, reason in enumerate(reasons) if not reason)
    dropped = tuple(Dropped(index, reason) for index, reason in enumerate(reasons) if reason)
    if len(kept) < max(1, rules.min_runs):
        listing = "\n".join(f"  run {d.index}: {d.reason}" for d in dropped)
        raise TooFewRuns(
            f"{len(kept)} of {len(runs)} runs passed the screen, at least "
            f"{max(1, rules.min_runs)} are needed. Dropped:\n{listing}\n"
            "Launch more runs, or relax Screen(require_converged=…, max_variance=…, min_runs=…)."
        )
    return kept, dropped


def _reason_to_drop(run: Run, rules: Screen) -> str:
    if rules.require_converged and not run.converged:
        return "did not converge"
    statistics = (run.log_joint, run.log_joint_covariance, run.elbo)
    if not all(np.all(np.isfinite(value)) for value in statistics):
        return "its ELBO or expected log-joints are not finite"
    largest = float(np.diag(run.expected_log_joint_covariance).max())
    if largest >= rules.max_variance:
        return (
            f"the expected log-joint of a component has variance {largest:.3g}, "
            f"not below {rules.max_variance:g}"
        )
    return ""


def _check_same_problem(runs: Sequence[Run]) -> None:
    """Runs of different problems cannot be stacked: say which differ, and where."""
    first = runs[0]
    for index, run in enumerate(runs[1:], start=1):
        if run.dimension != first.dimension:
            raise ValueError(
                f"run {index} has D = {run.dimension} parameters, run 0 has D = {first.dimension}: "
                "only runs of one problem can be stacked"
            )
        for side in ("lower", "upper"):
            mine, theirs = getattr(run.transform, side), getattr(first.transform, side)
            for d in np.flatnonzero(mine != theirs):
                raise ValueError(
                    f"run {index} has {side} bound {mine[d]} for parameter {run.names[d]!r}, "
                    f"run 0 has {theirs[d]}: only runs with the same hard bounds can be stacked"
                )
        if run.names != first.names:
            raise ValueError(
                f"run {index} names its parameters {run.names}, run 0 {first.names}: only runs "
                "with the same parameter names can be stacked"
            )
