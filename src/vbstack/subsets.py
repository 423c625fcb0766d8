"""`Subsets`: what the stack of only some of its runs would be worth, without new evaluations.

The sample problem of the whole stack (see `channel`) holds that of every subset of its runs: it is
the same problem on a face of the simplex. Weights for the subset are fitted to draws A, from the
stack's own as a start, and scored on independent draws B. A flatters them by about as much as B
falls short, so the mean of both is taken, each relative to the stack's own weights w*, which
depend on neither:

    L(subset) ≈ L(w*) + ½ [ L̂_A(w) − L̂_A(w*) ] + ½ [ L̂_B(w) − L̂_B(w*) ]

"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbstack.channel import Channel, Sample
from vbstack.mixture import Mixture
from vbstack.posterior import StackedPosterior
from vbstack.solver import maximise
from vbstack.weights import Target

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_DRAWS = 4000  # of A, and of B
_GRADIENTS = 20  # reach 0.001 nats from a warm start; fewer than the solver's first costly bound
_GOOD_ENOUGH = 1e-3  # nats


@dataclass(frozen=True)
class Subsets:
    """The draws of a stack, ready to value any subset of its runs.

    Attributes
    ----------
    mixture, target : Mixture, Target
        What was stacked, and what its weights may be.
    sample : Sample
        The draws B.
    fitting, scoring : Channel
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
    """

    mixture: Mixture
    target: Target
    sample: Sample
    fitting: Channel
    scoring: Channel
    owner: Index
    own: Array
    elbo: float
    base: tuple[float, float]
    naive: bool

    @classmethod
    def of(cls, posterior: StackedPosterior, seed: int = 0) -> Subsets:
        """Draws from all components, a quarter of them by the stack's weights, the rest evenly.

        Any component may matter to some subset. Drawn by weight alone, those with two draws each
        were over-fitted by 0.1 nats in a stack of ten GMM runs.
        """
        mixture = Mixture.from_runs(posterior.runs)
        # Naive stacking has no free weight; its subsets are naive too, with equal ones per run.
        kind = "all" if posterior.target == "all" else "runs"
        target = Target.of(kind, mixture, [run.elbo for run in posterior.runs])
        rng = np.random.default_rng(seed)
        wanted = _DRAWS * (0.25 * posterior.weights + 0.75 / mixture.size)
        counts = np.maximum(2, np.round(wanted)).astype(np.int64)
        first, second = (Sample.draw(mixture, counts, rng) for _ in range(2))
        fitting = target.channel(first, mixture.reward)
        scoring = target.channel(second, mixture.reward)
        own = posterior.weights if kind == "all" else posterior.run_weights
        owner = mixture.owner if kind == "all" else np.arange(mixture.n_runs)
        base = fitting.value(own), scoring.value(own)
        elbo = posterior.evidence.raw
        naive = posterior.target == "naive"
        return cls(mixture, target, second, fitting, scoring, owner, own, elbo, base, naive)

    def best(self, members: ArrayLike) -> tuple[float, Array]:
        """The ELBO of the stack of the runs `members`, and its component weights (K,)."""
        keep = np.flatnonzero(np.isin(self.owner, members))
        fitting = self.fitting.face(keep)
        if self.naive:
            v = np.full(keep.size, 1 / keep.size)
            value = fitting.value(v)
        else:
            optimum = maximise(fitting, self._start(keep), _GOOD_ENOUGH, _GRADIENTS)
            v, value = optimum.weights, optimum.value
        score = self.scoring.face(keep).value(v)
        whole = np.zeros(self.owner.size)
        whole[keep] = v
        gain = 0.5 * (value - self.base[0]) + 0.5 * (score - self.base[1])
        return self.elbo + gain, self.target.weights(whole)

    def _start(self, keep: Index) -> Array:
        """The stack's weights on a face, where it has any, and the paper's starting weights."""
        own, first = self.own[keep], self.target.start[keep]
        start = first / first.sum()
        if own.sum() > 0:
            start = 0.3 * start + 0.7 * own / own.sum()
        return np.asarray(start)
