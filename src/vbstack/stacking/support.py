"""`Support`: where the log density is finite, learnt from all evaluations of all runs.

Evaluations of −inf, and failed ones that were asked to count as such, are points outside the
support. The label of a point, 0 inside and 1 outside, is predicted in link space, whitened by the
points inside, by the sum of two processes: a long one, which carries the boundary on to where there
are no evaluations, and a short one for what that misses. A stack is cut off at one half: its
density is that of the mixture within the support, divided by the mixture's mass inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.gaussian_process.dense import OUTSIDE_NATS, DenseProcess, best_predicting
from vbstack.gaussian_process.integrals import kernel_means
from vbstack.gaussian_process.prior import Prior
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.run import Run
from vbstack.runs.transform import Link
from vbstack.stacking.mixture import Mixture

_DEPTH = 10.0  # nats per dimension below the highest value: points there give the spread inside
_FAR = 6.0  # spreads per dimension: labels farther out hold no mass and would lengthen the fit
_MOST_POINTS = 800  # of each label; a dense process of more takes seconds
_LONG, _SHORT = (1.5, 3.0, 6.0), (0.2, 0.4, 0.8)  # lengths, in spreads of the points inside


@dataclass(frozen=True)
class Support:
    """The region where the log density is finite.

    Attributes
    ----------
    evaluations, outside : int
        Evaluations of all runs, and those outside the support.
    rejected : int
        Further points outside it, where the problem's constraint was asked and nothing evaluated.
    """

    link: Link
    centre: Array
    whitener: Array
    labels: tuple[DenseProcess, DenseProcess]
    evaluations: int
    outside: int
    rejected: int = 0

    @classmethod
    def of(cls, runs: Sequence[Run], further: Evaluations | None = None) -> Support | None:
        """The support that these runs saw; None when no evaluation was outside it."""
        every = [*(run.evaluations for run in runs), further]
        made = [one for one in every if one is not None]
        if not any(one.outside.any() for one in made):
            return None
        link = runs[0].transform.link
        x = np.concatenate([one.x for one in made])
        values = np.concatenate([one.values for one in made])
        usable = link.inside(x) & (np.isfinite(values) | np.isneginf(values))
        y, values = link.forward(x[usable]), values[usable]
        outside = np.isneginf(values)
        high = values > values.max() - _DEPTH * y.shape[1]
        centre = y[high].mean(axis=0)
        spread = y[high] - centre
        covariance = spread.T @ spread / len(spread) + 1e-12 * np.eye(y.shape[1])
        whitener = np.linalg.inv(np.linalg.cholesky(covariance))
        z = (y - centre) @ whitener.T
        near = np.square(z).sum(axis=1) < _FAR**2 * y.shape[1]
        kept = _some(z[near & ~outside]), _some(z[near & outside])
        points, label = np.vstack(kept), np.repeat([0.0, 1.0], [len(part) for part in kept])
        one = np.ones(y.shape[1])
        long = best_predicting(points, label - 0.5, one, _LONG)
        rest = label - 0.5 - long.predict(points)[0]
        short = best_predicting(points, rest, one, _SHORT)
        rejected = sum(one.size - one.paid for one in made)
        paid = len(values) - rejected, int(outside.sum()) - rejected
        return cls(link, centre, whitener, (long, short), *paid, rejected)

    def inside(self, x: Array) -> NDArray[np.bool_]:
        """Whether points x (n, D) are within the support, as far as is known."""
        return self.score(x) < 0.0

    def score(self, x: Array) -> Array:
        """The predicted label at points x (n, D), less one half: negative inside."""
        within = self.link.inside(x)
        z = (self.link.forward(x[within]) - self.centre) @ self.whitener.T
        score = np.full(len(x), 0.5)
        score[within] = sum(process.predict(z)[0] for process in self.labels)
        return score

    def lowering(self, mixture: Mixture) -> Array:
        """10 nats × about the share of each component (K,) outside: the expected label, 0 to 1.

        Expected log-joints are lowered by it, so that weights go to components inside.
        """
        centres = (mixture.centres - self.centre) @ self.whitener.T
        factors = self.whitener @ mixture.factors
        total = np.full(mixture.size, 0.5)
        for process in self.labels:
            prior = Prior.of(process.hyperparameters)
            total += kernel_means(prior, centres, factors, process.data.inputs) @ process.alpha
        return np.asarray(OUTSIDE_NATS * np.clip(total, 0.0, 1.0))


def _some(points: Array) -> Array:
    """At most so many of the points, spread over all of them."""
    if len(points) <= _MOST_POINTS:
        return points
    return points[np.linspace(0, len(points) - 1, _MOST_POINTS).astype(int)]
