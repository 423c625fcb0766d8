"""`Subsets`: what the stack of only some of its runs would be worth, without new evaluations.

The sample problem of the whole stack holds that of every subset of its runs: it is the same problem
on a face of the simplex. Weights for the subset are fitted to draws A, from the
stack's own as a start, and scored on independent draws B. A flatters them by about as much as B
falls short, so the mean of both is taken, each relative to the stack's own weights w*, which were
fitted to other draws:

    L(subset) ≈ L(w*) + ½ [ L̂_A(w) − L̂_A(w*) ] + ½ [ L̂_B(w) − L̂_B(w*) ]

Weights that the stack chose with caution (`stacking.caution`) are chosen so here too; the ELBOs are
without the charge.

Where B contradicts A by far, the fit has failed, and the start is valued instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vbstack.arrays import Array, Index
from vbstack.modes import WeightsKind
from vbstack.posterior import StackedPosterior
from vbstack.stacking.caution import Caution
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights

_DRAWS = 4000  # of A, and of B
_GRADIENTS = 20  # 15 to 30 are needed from a cold start (`python -m benchmarks choices`)
_GOOD_ENOUGH = 1e-3  # nats
# Nats below the start on B: the fit to A has failed. A component far wider than all others has too
# few draws, and A may promise several nats for it.
_FAILED = 0.1
_ORDERS = 6  # random orders of the runs, for the learning curve
_SIZES = 7  # numbers of runs on it, at most


@dataclass(frozen=True)
class Subsets:
    """The draws of a stack, ready to value any subset of its runs.

    Attributes
    ----------
    mixture, free : Mixture, FreeWeights
        What was stacked, and which of its weights are free.
    log_joint, rewards : (K,)
        The expected log-joints in the original space, and what a unit of weight earns by them.
    sample : Sample
        The draws B.
    fitting, scoring : SampleProblem
        The problems of the draws A and B.
    owner : (T,)
        The run of each free weight.
    own : (T,)
        The stack's weights w*.
    elbo : float
        Its ELBO, L(w*).
    base : pair of float
        L̂_A(w*) and L̂_B(w*).
    naive : bool
        Whether every run has the same weight, so that nothing is fitted.
    capped : bool
        Whether the log-joint is capped by the median component, as noisy own ones are.
    """

    mixture: Mixture
    log_joint: Array
    rewards: Array
    free: FreeWeights
    sample: Sample
    fitting: SampleProblem
    scoring: SampleProblem
    owner: Index
    own: Array
    elbo: float
    base: tuple[float, float]
    naive: bool
    capped: bool

    @classmethod
    def of(cls, posterior: StackedPosterior, seed: int = 0) -> Subsets:
        """Draws from all components, a quarter of them by the stack's weights, the rest evenly.

        Any component may matter to some subset, and one with few draws is easily over-fitted.
        """
        posterior = posterior.unrefined  # what refinement added belongs to no run
        mixture, log_joint = posterior.mixture, posterior.link_log_joint
        # Naive stacking has no free weight; its subsets are naive too, with equal ones per run.
        kind: WeightsKind = "all" if posterior.target == "all" else "runs"
        free = FreeWeights.of(kind, mixture, [run.elbo for run in posterior.runs])
        rng = np.random.default_rng(seed)
        wanted = _DRAWS * (0.25 * posterior.weights + 0.75 / mixture.size)
        counts = np.maximum(2, np.round(wanted)).astype(np.int64)
        first, second = (Sample.draw(mixture, counts, rng) for _ in range(2))
        reward = mixture.rewards(log_joint)
        pooled, errors = posterior.evidence.from_pool, posterior.settings.standard_errors
        caution = Caution.of(posterior.runs, errors) if pooled is None else None
        fitting, scoring = free.problem(first, reward, caution), free.problem(second, reward)
        own = posterior.weights if kind == "all" else posterior.run_weights
        owner = mixture.owner if kind == "all" else np.arange(mixture.n_runs)
        base = fitting.value(own) + fitting.charge(own), scoring.value(own)
        elbo = posterior.solution.lower
        naive, e = posterior.target == "naive", posterior.evidence
        return cls(
            mixture=mixture,
            log_joint=mixture.original_log_joint(log_joint),
            rewards=reward,
            free=free,
            sample=second,
            fitting=fitting,
            scoring=scoring,
            owner=owner,
            own=own,
            elbo=elbo,
            base=base,
            naive=naive,
            capped=e.noisy and e.from_pool is None,
        )

    def best(self, members: ArrayLike) -> tuple[float, Array]:
        """The ELBO of the stack of the runs `members`, and its component weights (K,)."""
        keep = np.flatnonzero(np.isin(self.owner, members))
        fitting, scoring = self.fitting.face(keep), self.scoring.face(keep)
        start = np.full(keep.size, 1 / keep.size) if self.naive else self._start(keep)
        v, score = start, scoring.value(start)
        value = fitting.value(start) + fitting.charge(start)
        if not self.naive:
            optimum = maximise(fitting, start, _GOOD_ENOUGH, _GRADIENTS)
            found = scoring.value(optimum.weights)
            if found > score - _FAILED:
                v, score = optimum.weights, found
                value = optimum.value + fitting.charge(v)
        whole = np.zeros(self.owner.size)
        whole[keep] = v
        gain = 0.5 * (value - self.base[0]) + 0.5 * (score - self.base[1])
        return self.elbo + gain, self.free.weights(whole)

    def estimates(self, members: Index) -> tuple[float, float]:
        """ELBO of a subset, raw and capped where the stack's is, over the subset."""
        raw, weights = self.best(members)
        mixture, log_joint = self.mixture, self.log_joint
        inside = np.isin(mixture.owner, members)
        cap = float(np.median(log_joint[inside])) if self.capped else np.inf
        return raw, raw - max(0.0, float(weights @ log_joint) - cap)

    def _start(self, keep: Index) -> Array:
        """The stack's weights on a face, where it has any, and the paper's starting weights."""
        own, first = self.own[keep], self.free.start[keep]
        start = first / first.sum()
        if own.sum() > 0:
            start = 0.3 * start + 0.7 * own / own.sum()
        return np.asarray(start)


def leave_one_out_gains(subsets: Subsets) -> Array:
    """ELBO(all) − ELBO(all but m) (M,), in nats; infinite for a single run.

    With a noisy log density the raw ELBO rises with every run whose errors happen to be high.
    """
    everyone = np.arange(subsets.mixture.n_runs)
    if everyone.size < 2:
        return np.array([np.inf])
    # The same fit and score on both sides: what they get wrong in common cancels.
    _, whole = subsets.estimates(everyone)
    return np.array([whole - subsets.estimates(np.delete(everyone, m))[1] for m in everyone])


@dataclass(frozen=True)
class LearningCurve:
    """Stacked ELBO against number of runs, over nested subsets in random orders.

    Attributes
    ----------
    sizes : (S,)
        Numbers of runs; the last is all of them.
    raw, elbo : (orders, S)
        The raw ELBO, and the one that is capped where the stack's is.
    """

    sizes: Index
    raw: Array
    elbo: Array


def learning_curve(subsets: Subsets, seed: int) -> LearningCurve:
    """Subsets of each size are the beginnings of random orders, so that a curve is one story."""
    count, rng = subsets.mixture.n_runs, np.random.default_rng(seed)
    sizes = np.unique(np.round(np.geomspace(1, count, _SIZES)).astype(np.int64))
    orders = [rng.permutation(count) for _ in range(_ORDERS)]
    last = subsets.estimates(np.arange(count))
    values = np.array([[subsets.estimates(o[:n]) for n in sizes[:-1]] + [last] for o in orders])
    return LearningCurve(sizes, values[:, :, 0], values[:, :, 1])
