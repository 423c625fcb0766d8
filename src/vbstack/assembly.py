"""`stack()`: the paper's algorithm from finished runs to a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from vbstack.arrays import Array
from vbstack.modes import EvaluationsUsed, Refine, SolverName, WeightsKind
from vbstack.posterior import StackedPosterior
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.files import FileError
from vbstack.runs.run import Run
from vbstack.runs.store import RunStore
from vbstack.stacking.adam import optimise_adam
from vbstack.stacking.caution import Caution
from vbstack.stacking.evidence import evidence
from vbstack.stacking.mixture import Mixture, own_log_joints
from vbstack.stacking.pooling import Pooled, pooled, why_not_pool
from vbstack.stacking.refinement import (
    PAYS,
    Refined,
    has_strayed,
    is_trusted,
    promises_too_much,
    refined,
    why_not_refine,
)
from vbstack.stacking.screening import Screen
from vbstack.stacking.screening import screen as apply_screen
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.support import Support
from vbstack.stacking.weights import FreeWeights, WeightSolution, optimise


def stack(
    runs: Sequence[Run],
    *,
    weights: WeightsKind = "all",
    evaluations: EvaluationsUsed = "auto",
    tolerance: float = 0.02,
    max_draws: int = 512,
    final_draws: int = 128,
    solver: SolverName = "certified",
    screen: Screen | None = None,
    seed: int = 0,
    caution: float | Literal["auto"] = "auto",
    refine: Refine = "auto",
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
    caution : float or "auto"
        For weights by the runs' own log-joints: standard errors of these, in every run at once,
        that the weights are to withstand. They have the highest ELBO after such errors, and the
        certificate is about that ELBO; the one that is reported is without them. "auto" is 2, and 0
        for Algorithm 1. With 0 it is the paper's objective. Pooled log-joints take no caution.
    refine : "auto", True or False
        Whether Gaussians fitted to the pooled surrogate are added to the runs' components, where
        that raises the ELBO. "auto" does so for log densities without noise and −inf, if
        evaluations are pooled, all weights are free, and the surrogate is certain where the stack
        is.
    """
    rules = Screen() if screen is None else screen
    settings = StackSettings(
        weights,
        evaluations,
        tolerance,
        max_draws,
        final_draws,
        solver,
        rules,
        seed,
        caution,
        refine,
    )
    return stacked(runs, settings)


def stacked(
    runs: Sequence[Run], settings: StackSettings, further: Evaluations | None = None
) -> StackedPosterior:
    """The stack of these runs with these settings; `further` evaluations join the pool."""
    if isinstance(runs, Run):
        raise TypeError("stack() takes a sequence of runs; for a single one pass [run]")
    runs = tuple(runs)
    kept, dropped = apply_screen(runs, settings.screen)
    used = tuple(runs[index] for index in kept)
    mixture = Mixture.from_runs(used)
    support, others = Support.of(runs, further), [runs[d.index] for d in dropped]
    pool, why_not = _pool(mixture, used, others, further, settings.evaluations, support is not None)
    log_joint = own_log_joints(used) if pool is None else pool.link_log_joint
    if pool is not None and support is not None:
        log_joint = log_joint - support.lowering(mixture)
    free = FreeWeights.of(settings.weights, mixture, [run.elbo for run in used])
    rng = np.random.default_rng(settings.seed)
    caution = Caution.of(used, settings.standard_errors) if pool is None else None
    solution = _solved(mixture, log_joint, free, settings, rng, caution)
    posterior = StackedPosterior(
        runs=used,
        kept=kept,
        dropped=dropped,
        settings=settings,
        solution=solution,
        evidence=evidence(used, mixture, log_joint, solution, pool, why_not, rng, support),
        link_log_joint=log_joint,
        sources=tuple(run.digest for run in runs),
        mixture=mixture,
        further=further,
    )
    if why_not_refine(settings, used, pool, support) or pool is None:
        return posterior
    return _refined(posterior, pool)


def _solved(
    mixture: Mixture,
    log_joint: Array,
    free: FreeWeights,
    settings: StackSettings,
    rng: np.random.Generator,
    caution: Caution | None = None,
) -> WeightSolution:
    """The weights by the solver that was asked for."""
    if settings.solver == "adam":
        return optimise_adam(mixture, log_joint, free, final_draws=settings.final_draws, rng=rng)
    return optimise(
        mixture,
        log_joint,
        free,
        tolerance=settings.tolerance,
        max_draws=settings.max_draws,
        final_draws=settings.final_draws,
        rng=rng,
        caution=caution,
    )


def _refined(plain: StackedPosterior, pool: Pooled) -> StackedPosterior:
    """The stack with components fitted to the surrogate beside those of the runs, all weighed
    anew; the stack as it was where that does not raise its ELBO."""
    rng = np.random.default_rng([plain.settings.seed, 1])
    if not (plain.evidence.noisy or is_trusted(pool, plain.mixture, plain.weights, rng)):
        return plain
    parts, charged = refined(pool, plain.mixture, plain.weights, rng)
    mixture = Mixture.from_runs(plain.runs, parts)
    log_joint = np.concatenate([plain.link_log_joint, charged])
    free = FreeWeights.beside(mixture, plain.weights)
    solution = _solved(mixture, log_joint, free, plain.settings, rng)
    before, after = (plain.mixture, plain.weights), (mixture, solution.weights)
    if solution.lower < plain.solution.lower + PAYS or has_strayed(pool, before, after, rng):
        return plain
    solution = replace(solution, naive=plain.solution.naive)
    whole = pool.with_more(mixture)
    found = evidence(plain.runs, mixture, log_joint, solution, whole, "", rng)
    if promises_too_much(found, plain.evidence):
        return plain
    return replace(
        plain,
        solution=solution,
        evidence=found,
        link_log_joint=log_joint,
        mixture=mixture,
        refined=Refined(parts, plain.solution, plain.evidence),
    )


def _pool(
    mixture: Mixture,
    runs: Sequence[Run],
    dropped: Sequence[Run],
    further: Evaluations | None,
    evaluations: EvaluationsUsed,
    supported: bool,
) -> tuple[Pooled | None, str]:
    """The pooled log-joints, or none and the reason why the stack does without."""
    if evaluations == "own":
        return None, "own ones were asked for"
    if evaluations == "pooled":
        return pooled(mixture, runs, dropped, further), ""
    alone = len(runs) == 1 and not supported and all(why_not_pool([*runs, run]) for run in dropped)
    why_not = "there is only one run" if alone else why_not_pool(runs)
    return (None, why_not) if why_not else (pooled(mixture, runs, dropped, further), "")


def posterior_of(store: RunStore) -> tuple[StackedPosterior, str]:
    """The stack of a store's finished runs, and a line if its `posterior.npz` is not current.

    `posterior.npz` is current when it was made of the very runs that the store holds now, told by
    their content. Otherwise the runs are stacked again, with its settings; nothing is written. Like
    every file of a store it has to be a regular one: a link or FIFO in its place is an error.
    """
    runs = list(store.runs().values())
    path = store.directory / "posterior.npz"
    try:
        saved = StackedPosterior.load(path, follow=False)
    except FileNotFoundError:
        return stack(runs), ""
    except FileError as error:
        return stack(runs), f"{error}; the runs were stacked again"
    if is_current(saved, runs):
        return saved, ""
    return stacked(runs, saved.settings, saved.further), (
        f"{path} was made of other runs than the {len(runs)} that the store holds now; these were "
        "stacked again, with its settings"
    )


def is_current(posterior: StackedPosterior, runs: Sequence[Run]) -> bool:
    """Whether the posterior was made of exactly these runs, dropped ones included."""
    now = [run.digest for run in runs]
    then = posterior.sources
    return len(now) == len(then) and all(b in ("", a) for a, b in zip(now, then, strict=True))


def numbered(posterior: StackedPosterior, numbers: Sequence[int]) -> StackedPosterior:
    """The posterior whose runs are called by their numbers in a store.

    One with failed runs among the dropped was made by `fit`, which has numbered them already.
    """
    if len(posterior.kept) + len(posterior.dropped) > len(posterior.sources):
        return posterior
    return replace(
        posterior,
        kept=tuple(numbers[place] for place in posterior.kept),
        dropped=tuple(replace(d, index=numbers[d.index]) for d in posterior.dropped),
    )
