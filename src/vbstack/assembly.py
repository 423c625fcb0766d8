"""`stack()`: the paper's algorithm from finished runs to a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vbstack.posterior import StackedPosterior
from vbstack.runs.run import Run
from vbstack.stacking.adam import optimise_adam
from vbstack.stacking.evidence import evidence
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled, pool, why_not_pool
from vbstack.stacking.screening import Screen
from vbstack.stacking.screening import screen as apply_screen
from vbstack.stacking.weights import Target, optimise

SOLVERS = ("certified", "adam")
EVALUATIONS = ("auto", "own", "pooled")


def stack(
    runs: Sequence[Run],
    *,
    weights: str = "all",
    evaluations: str = "auto",
    tolerance: float = 0.02,
    max_draws: int = 512,
    final_draws: int = 128,
    solver: str = "certified",
    screen: Screen | None = None,
    seed: int = 0,
) -> StackedPosterior:
    """The best stacked posterior of these runs; no evaluation of the model is needed.

    Parameters
    ----------
    runs : sequence of Run
        Finished runs of one problem.
    weights : "all", "runs" or "naive"
        One weight per component; one per run, keeping its own proportions; or 1/M each.
    evaluations : "auto", "own" or "pooled"
        What each component's expected log-joint rests on: its own run's evaluations, or those of
        all runs, dropped ones included. "auto" pools when there are several runs and they kept
        what it takes.
    tolerance : float
        Nats within which the weights are to be certified as the best.
    max_draws : int
        Limit to the draws per component, on average (65,536 in all are always allowed); reaching it
        is reported, not hidden.
    final_draws : int
        Fresh draws for the reported ELBO, per component that carries weight (counting at least 64
        and at most 11√K of them).
    solver : "certified" or "adam"
        The concave solver, or the paper's Algorithm 1.
    screen : Screen, optional
        Which runs to keep; by default converged ones with max_k J_kk < 5.
    seed : int
        Of every draw; the same runs and seed give the same posterior.
    """
    _check_settings(tolerance, max_draws, final_draws, solver, evaluations)
    if isinstance(runs, Run):
        raise TypeError("stack() takes a sequence of runs; for a single one pass [run]")
    runs = tuple(runs)
    kept, dropped = apply_screen(runs, screen)
    stacked = tuple(runs[index] for index in kept)
    mixture = judged = Mixture.from_runs(stacked)
    pooled, why_not = _pool(stacked, [runs[d.index] for d in dropped], evaluations)
    if pooled is not None:
        judged = replace(mixture, link_log_joint=pooled.link_log_joint)
    target = Target.of(weights, mixture, [run.elbo for run in stacked])
    rng = np.random.default_rng(seed)
    if solver == "adam":
        solution = optimise_adam(judged, target, final_draws=final_draws, rng=rng)
    else:
        solution = optimise(
            judged,
            target,
            tolerance=tolerance,
            max_draws=max_draws,
            final_draws=final_draws,
            rng=rng,
        )
    result = evidence(stacked, mixture, solution, pooled, why_not, rng)
    chosen_by = None if pooled is None else pooled.link_log_joint
    return StackedPosterior(stacked, kept, dropped, weights, solution, result, chosen_by)


def _pool(
    runs: Sequence[Run], dropped: Sequence[Run], evaluations: str
) -> tuple[Pooled | None, str]:
    """The pooled log-joints, or none and the reason why the stack does without."""
    if evaluations == "own":
        return None, "own ones were asked for"
    if evaluations == "pooled":
        return pool(runs, dropped), ""
    alone = len(runs) == 1 and all(why_not_pool([*runs, run]) for run in dropped)
    why_not = "there is only one run" if alone else why_not_pool(runs)
    return (None, why_not) if why_not else (pool(runs, dropped), "")


def _check_settings(
    tolerance: float, max_draws: int, final_draws: int, solver: str, evaluations: str
) -> None:
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance!r} must be positive (nats)")
    if not (max_draws >= 8 and final_draws >= 8):
        raise ValueError(
            f"max_draws={max_draws!r} and final_draws={final_draws!r} must be at least 8"
        )
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is not known; choose one of {SOLVERS}")
    if evaluations not in EVALUATIONS:
        raise ValueError(f"evaluations={evaluations!r} is not known; choose one of {EVALUATIONS}")
