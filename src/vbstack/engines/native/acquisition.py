"""Where to evaluate next: points that matter and are not known yet.

    a(x) = log s²(x) + f̄(x) + log q(x)       (prospective uncertainty sampling, Acerbi 2018)

That finds what the mixture has. Some evaluations are therefore kept for what it may miss, another
mode or a long tail:

    b(x) = log s²(x) + f̄(x) + s(x)    where e^(f̄ + s − ELBO) > e q,    else −∞.

In many dimensions nearly all mass is in a shell where no single point has a high a or b, and the
surrogate may be wrong about all of it. There a point is drawn instead, with density ∝ q(x) s(x)
(`mixture_draw`): the error of E_q[f̄] is then E_q[s] times the mean of (f − f̄)/s.

With noise it matters in any dimension that evaluations are draws of q. The mixture follows what
the noise happened to lift, and only further evaluations all over q take that back. They would not
find anything new; so as many are draws of a flatter and wider density (`flattened_draw`).

The highest value is searched among candidates around the mixture and around good points, then by
local perturbations. After every evaluation the candidates' mean and variance are updated by one
rank-one step: with c = cov(x*, ·), r = y − f̄(x*), v = s²(x*) + jitter,  f̄ += c r / v  and
s² −= c² / v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.mixture_fit import Fitted
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.space import within_reach
from vbstack.gaussian_process.dense import JITTER, DenseProcess
from vbstack.gaussian_process.kernel import kernel
from vbstack.runs.transform import Transform

Way = Callable[["Candidates", DenseProcess, DiagonalMixture, np.random.Generator], Array]
Score = Callable[[Array, Array, Array, float], Array]  # of mean, variance, log q (m,), the ELBO

_PERTURBATIONS = 24
_DRAWS, _FLATTENED_DRAWS = 64, 256  # of the mixture, of which one is chosen


@dataclass(frozen=True)
class Region:
    """A box around a point (D,) of the run's space, that candidates may not leave."""

    centre: Array
    half_width: float

    def holds(self, points: Array) -> NDArray[np.bool_]:
        """Which of the points (n, D) are in the box."""
        return np.asarray(np.abs(points - self.centre).max(axis=1) <= self.half_width)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Points (count, D) uniform in the box."""
        return self.centre + self.half_width * rng.uniform(-1, 1, (count, self.centre.size))


@dataclass(frozen=True)
class Candidates:
    """Points (m, D) of the space `map_`, log q, mean, variance there, L⁻¹ k(X, points) (n, m)."""

    map_: Transform
    policy: Policy
    elbo: float
    points: Array
    log_q: Array
    mean: Array
    variance: Array
    whitened: Array
    allowed: Callable[[Array], NDArray[np.bool_]] | None = None  # which points may be chosen
    region: Region | None = None

    @classmethod
    def of(
        cls,
        process: DenseProcess,
        fitted: Fitted,
        map_: Transform,
        rng: np.random.Generator,
        policy: Policy,
        region: Region | None = None,
    ) -> Candidates:
        points = _proposals(process, fitted.mixture, policy.candidates, rng)
        if region is not None:  # not moved onto its faces, where they would be chosen again
            points = np.where(region.holds(points)[:, None], points, region.draws(len(points), rng))
        points = within_reach(map_, points)
        mean, variance = process.predict(points)
        log_q = fitted.mixture.log_density(points)
        whitened = process.whitened(points)
        return cls(
            *(map_, policy, fitted.elbo, points, log_q, mean, variance, whitened), region=region
        )

    def best(
        self,
        process: DenseProcess,
        mixture: DiagonalMixture,
        rng: np.random.Generator,
        score: Score,
    ) -> Array:
        """The point (D,) of highest score, after a local search; where there is none, of highest a.

        An exact value is not asked for twice: where log q is −∞, a candidate was evaluated.
        """
        scores = np.where(
            self.log_q > -np.inf, score(self.mean, self.variance, self.log_q, self.elbo), -np.inf
        )
        if scores.max() == -np.inf and score is not promise:
            return self.best(process, mixture, rng, promise)
        place = int(np.argmax(scores))
        point, highest = self.points[place], float(scores[place])
        radius = np.sqrt(mixture.weights @ mixture.sds**2)
        for round_ in range(self.policy.local_search):
            steps = rng.standard_normal((_PERTURBATIONS, point.size)) * radius * 0.5 ** (round_ + 1)
            near = within_reach(self.map_, point + steps)
            mean, variance = process.predict(near)
            scores = score(mean, variance, mixture.log_density(near), self.elbo)
            scores = np.where(self.may_choose(near), scores, -np.inf)
            place = int(np.argmax(scores))
            if scores[place] > highest:
                point, highest = near[place], float(scores[place])
        return point

    def may_choose(self, points: Array) -> NDArray[np.bool_]:
        """Which points (m, D) may be chosen."""
        free = np.ones(len(points), dtype=bool) if self.allowed is None else self.allowed(points)
        return free if self.region is None else free & self.region.holds(points)

    def only(self, allowed: Callable[[Array], NDArray[np.bool_]]) -> Candidates:
        """The candidates of which only allowed ones can be chosen."""
        log_q = np.where(allowed(self.points), self.log_q, -np.inf)
        return replace(self, log_q=log_q, allowed=allowed)

    def excluding(self, process: DenseProcess, point: Array) -> Candidates:
        """The candidates after `point` turned out to be outside the support."""
        chosen = np.all(self.points == point, axis=1)
        mean, _ = process.predict(self.points)
        return replace(self, log_q=np.where(chosen, -np.inf, self.log_q), mean=mean)

    def including(
        self, before: DenseProcess, point: Array, value: float, sd: float = 0.0
    ) -> Candidates:
        """The candidates after an evaluation at `point`; `before` is the process without it."""
        row = before.whitened(point[None])[:, 0]
        mean = float(before.predict(point[None])[0][0])
        h = before.hyperparameters
        known = max(h.variance + JITTER + sd**2 - float(row @ row), JITTER)
        shared = kernel(h, point[None], self.points)[0] - row @ self.whitened
        chosen = np.all(self.points == point, axis=1)
        return replace(
            self,
            log_q=np.where(chosen, -np.inf, self.log_q),
            mean=self.mean + shared * ((value - mean) / known),
            variance=np.maximum(self.variance - shared**2 / known, 1e-12),
            whitened=np.vstack([self.whitened, shared / np.sqrt(known)]),
        )


def promise(mean: Array, variance: Array, log_q: Array, elbo: float) -> Array:
    """a (m,) from the surrogate's mean and variance, and log q."""
    return np.asarray(np.log(variance) + mean + log_q)


def missing(mean: Array, variance: Array, log_q: Array, elbo: float) -> Array:
    """b (m,): where the target may be more than e times the mixture's density, else −∞."""
    high = mean + np.sqrt(variance)
    return np.where(high - elbo - log_q > 1.0, np.log(variance) + high, -np.inf)


def most_promising(
    candidates: Candidates,
    process: DenseProcess,
    mixture: DiagonalMixture,
    rng: np.random.Generator,
) -> Array:
    """The point (D,) with the highest a."""
    return candidates.best(process, mixture, rng, promise)


def exploratory(
    candidates: Candidates,
    process: DenseProcess,
    mixture: DiagonalMixture,
    rng: np.random.Generator,
) -> Array:
    """The point (D,) with the highest b."""
    return candidates.best(process, mixture, rng, missing)


def mixture_draw(
    candidates: Candidates,
    process: DenseProcess,
    mixture: DiagonalMixture,
    rng: np.random.Generator,
) -> Array:
    """A point (D,) drawn from the mixture, the likelier the less the surrogate knows it: ∝ q s."""
    draws = within_reach(candidates.map_, mixture.draws(_DRAWS, rng))
    sds = np.sqrt(process.predict(draws)[1]) * candidates.may_choose(draws)
    if not sds.any():
        return most_promising(candidates, process, mixture, rng)
    return np.asarray(draws[rng.choice(_DRAWS, p=sds / sds.sum())])


def flattened_draw(
    candidates: Candidates,
    process: DenseProcess,
    mixture: DiagonalMixture,
    rng: np.random.Generator,
) -> Array:
    """A point (D,) drawn around the mixture with density ∝ s e^((f̄ + s)/T)."""
    policy = candidates.policy
    wide = DiagonalMixture(mixture.weights, mixture.means, policy.wider * mixture.sds)
    draws = within_reach(candidates.map_, wide.draws(_FLATTENED_DRAWS, rng))
    mean, variance = process.predict(draws)
    sds = np.sqrt(variance)
    logs = np.log(sds) + (mean + sds) / policy.temperature - wide.log_density(draws)
    shares = np.exp(logs - logs.max()) * candidates.may_choose(draws)
    if not shares.any():
        return most_promising(candidates, process, mixture, rng)
    return np.asarray(draws[rng.choice(len(draws), p=shares / shares.sum())])


def _proposals(
    process: DenseProcess, mixture: DiagonalMixture, count: int, rng: np.random.Generator
) -> Array:
    """Half from the mixture (inflated up to three times), a quarter each from its Gaussian moments
    and from around the best evaluations."""
    half, quarter = count // 2, count // 4
    inflations = np.array([1.0, 1.5, 2.0, 3.0])
    near = [mixture.draws(half // 4, rng, float(inflation)) for inflation in inflations]
    mean, covariance = mixture.moments()
    d = mixture.dimension
    wide = rng.multivariate_normal(mean, covariance + 1e-12 * np.eye(d), quarter, method="cholesky")
    best = np.argsort(process.data.values)[-max(3, len(process.data.values) // 5) :]
    around = process.data.inputs[rng.choice(best, quarter)]
    around = around + rng.standard_normal((quarter, d)) * np.sqrt(np.diag(covariance)) * 0.3
    return np.vstack([*near, wide, around])
