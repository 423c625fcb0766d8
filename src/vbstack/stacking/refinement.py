"""Refinement: Gaussians fitted to the pooled surrogate, one more member of the stack.

Where the log density is exact, the pooled surrogate knows more of the posterior than a mixture of
the runs' components can say. So Gaussians with full covariances are fitted to it by their ELBO
(`refinement_fit`), from the stack itself: its heaviest components, merged. As long as it pays those
that fit worst are split in two along the direction in which the surrogate bends most. No evaluation
is made.

The surrogate errs where there are no evaluations, and a free search of it finds those errors: on a
ring and with unequal modes it ran into made-up mass. So the search starts from the stack, is held
near it, and charges every component for the variance of its expected log-joint. By the charged
values the certified problem weighs the new components beside all of the runs'. And where the
surrogate is not to be trusted there is no search (`is_trusted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array, Index
from vbstack.gaussian_process.low_rank import leave_one_out
from vbstack.numerics.quasi_random import centred_normals
from vbstack.runs.run import Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.gaussians import Gaussians, merged
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled, SingleRun
from vbstack.stacking.refinement_fit import (
    PooledQuadrature,
    drawn,
    draws_for,
    fit,
    log_density,
    objective,
)
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.support import Support
from vbstack.stacking.weights import WeightSolution

# Exact runs are refined only where the surrogate can be trusted (`is_trusted`):
MISCALIBRATED = 2.0  # times its stated errors; eleven stacks that lost by it had 2.5 to 90
DOUBTFUL = 0.1  # nats, its mean sd at draws of the stack; 0.4 and more on the hyperbolic problem
# Times the surrogate's mean sd before, and nats, that it may be at draws of the refined stack: with
# pyvbmc's runs of the contaminated problem it rose from 0.07 to 0.18, and 0.4 nats were lost.
RISES, SMALL = 1.5, 0.02
TOO_MUCH = 3.0  # standard deviations by which an ELBO may be above the log evidence
# Nats per nat² of the variance of a component's expected log-joint, λ: half a nat at a standard
# deviation of 0.1. Twice the standard deviation as a charge took 0.002 nats from thin bananas.
CHARGE = 50.0
FIRST, LAST = 20, 48  # components at the start and at the end
GROWS = 0.001  # nats that more components have to bring for still more of them to be tried
PAYS = 0.003  # nats that all of them have to bring: the standard errors of both ELBOs
_DOUBT_DRAWS = 1000
_LEFT_OUT = 1500  # evaluations, at most, that are predicted without themselves
_MISFIT_DRAWS = 32  # of each component
_ROUNDS = 6  # short fits of a stage
_HEAVIEST = 300  # components of the stack that are merged; the rest has a few percent of the mass


@dataclass(frozen=True)
class Refined:
    """What refinement added to a stack, and the stack without it.

    Attributes
    ----------
    gaussians : Gaussians
        The components added, in link space; weights within the member.
    solution : WeightSolution
        The weights of the runs' components alone.
    evidence : Evidence
        Of the stack of the runs' components alone.
    """

    gaussians: Gaussians
    solution: WeightSolution
    evidence: Evidence


def why_not_refine(
    settings: StackSettings, runs: Sequence[Run], pooled: Pooled | None, support: Support | None
) -> str:
    """Why a stack is not to be refined; empty when it is. An error if refine=True asks for it."""
    asked = settings.refine is True
    if settings.refine is False or settings.weights != "all" or settings.solver != "certified":
        return "the settings exclude it"
    if pooled is None or isinstance(pooled, SingleRun):
        reason = "evaluations of several runs are not pooled"
    elif support is not None:
        reason = "the log density is −inf or failed in a part of space"
    elif any(run.is_noisy for run in runs) and not asked:
        reason = "the log density is noisy"
    else:
        return ""
    if asked:
        raise ValueError(f"the stack cannot be refined: {reason}; use refine='auto'")
    return reason


def is_trusted(pooled: Pooled, mixture: Mixture, weights: Array, rng: np.random.Generator) -> bool:
    """Whether the surrogate errs by no more than it says, and little where the stack is."""
    return (
        miscalibration(pooled) <= MISCALIBRATED and doubt(pooled, mixture, weights, rng) <= DOUBTFUL
    )


def has_strayed(
    pooled: Pooled,
    before: tuple[Mixture, Array],
    after: tuple[Mixture, Array],
    rng: np.random.Generator,
) -> bool:
    """Whether the surrogate is less certain at draws of the refined stack than it was before; both
    stacks are mixtures with their weights."""
    return doubt(pooled, *after, rng) > RISES * doubt(pooled, *before, rng) + SMALL


def promises_too_much(refined: Evidence, before: Evidence) -> bool:
    """Whether the ELBO after refinement is above the log evidence that the stack before it gave, or
    less certain by more than it is higher.

    That estimate stays where the stack is; a higher ELBO comes from mass that is made up.
    """
    above = refined.elbo > before.log_evidence + TOO_MUCH * np.hypot(before.sd, refined.elbo_sd)
    return bool(above or refined.elbo - refined.elbo_sd < before.elbo - before.elbo_sd)


def doubt(pooled: Pooled, mixture: Mixture, weights: Array, rng: np.random.Generator) -> float:
    """The surrogate's mean standard deviation at draws of the stack, in nats."""
    draws = mixture.sample(weights, _DOUBT_DRAWS, rng)
    variances = pooled.predict(mixture.links[0].forward(draws))[1]
    return float(np.sqrt(np.maximum(variances, 0.0)).mean())


def miscalibration(pooled: Pooled) -> float:
    """How many times as large the surrogate's errors are as it says: of the evaluations, each
    predicted without itself, the root mean square of the standardised errors."""
    data = pooled.data
    some = np.unique(np.linspace(0, data.size - 1, _LEFT_OUT).astype(np.int64))
    errors = leave_one_out(pooled.processes[0], data.at(some))
    return float(np.sqrt(np.mean(np.square(errors))))


def refined(
    pooled: Pooled, mixture: Mixture, weights: Array, rng: np.random.Generator
) -> tuple[Gaussians, Array]:
    """Gaussians fitted to the surrogate from the stack Σ_j w_j p_j, and their charged I_j (K,)."""
    surrogate = PooledQuadrature.of(pooled)
    heavy = np.argsort(weights)[::-1][:_HEAVIEST]
    heavy = heavy[weights[heavy] > 0]
    stack = Gaussians(
        weights[heavy] / weights[heavy].sum(), mixture.centres[heavy], mixture.factors[heavy]
    )
    found = merged(stack, FIRST)
    best, best_value = found, -np.inf
    while True:
        found = fit(surrogate, found, rng, rounds=_ROUNDS, charge=CHARGE)
        points = centred_normals(found.size, draws_for(found.size), found.dimension, rng)
        value = objective(surrogate, found, points, CHARGE)[0]
        gain = value - best_value
        if gain > 0:
            best, best_value = found, value
        if gain < GROWS or found.size >= LAST:
            break
        worst = np.argsort(_misfit(pooled, found, rng))[::-1][: LAST - found.size]
        found = found.split(worst, _bent(pooled, found, worst))
    return best, surrogate.charged(best.centres, best.factors, CHARGE)[0]


def _misfit(pooled: Pooled, parts: Gaussians, rng: np.random.Generator) -> Array:
    """Each component's share (K,) of what is missing: w_j times the variance of f̂ − log q there.

    To second order KL(q ‖ p) is half the variance of log p − log q under q.
    """
    points = centred_normals(parts.size, _MISFIT_DRAWS, parts.dimension, rng)
    x = drawn(parts, points)
    ratios = pooled.predict(x)[0] - log_density(parts, x)
    return np.asarray(parts.weights * ratios.reshape(parts.size, -1).var(axis=1))


def _bent(pooled: Pooled, parts: Gaussians, which: Index) -> Array:
    """The direction e (n, D) in which F e is longest by the surrogate's length scales."""
    shapes = pooled.processes[0].prior.whitener @ parts.factors[which]
    return np.asarray(np.linalg.svd(shapes)[2][:, 0])
