"""`pool()`: expected log-joints of all components under one process given everyone's evaluations.

Each run's surrogate saw only the run's own evaluations. With a noisy log density its errors are as
large as the differences that the stacking weights feed on, and the weights pick the lucky ones.
The runs' evaluations together know more. All runs share a link space, so in it

1. every evaluation of every run is one data point (far low-density ones are left out);
2. every run's hyperparameter samples are candidate priors; each is scored by the log density of the
   pooled evaluations (a common subset first, all of them for the best few);
3. the best, in proportion to exp(score), give every component's expected log-joint and the
   covariance between any two: quadrature under each, plus the spread between them.

All components are scored with the same processes. That matters as much as the additional data: if
each run keeps its own hyperparameters, the weights still favour the runs with flattering ones.

Evaluations are chosen adaptively, and a run goes on evaluating where its noise was lucky. The sum
of the noise in any region is a martingale, its mean zero; so pooling the evaluations themselves,
all of them, averages the luck away, where averaging the runs' estimates would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.gaussian_process.hyperparameters import hyperparameters_of
from vbstack.gaussian_process.low_rank import LowRankProcess, condition, dense_log_likelihood
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData, joined
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.run import Run
from vbstack.stacking.mixture import Mixture, own_log_joints

DEPTH = 10.0  # nats per dimension below the top, beyond which evaluations are left out
EDGE_SDS = 4.0  # noise standard deviations by which a value may be on the wrong side of that
TOLERANCE = 1e-3  # share of a noise variance that the low-rank factor may miss
MAX_RANK = 2000  # with 1000, `trio10`, 2,600 evaluations, lost 0.03 nats (by hand)
EXACT_VARIANCE = 1e-5  # of an exact evaluation: what VBMC gives its kernel for stability
_CANDIDATES, _SCORING_POINTS = 40, 500
_KEPT = 4  # processes that are conditioned on everything


@dataclass(frozen=True)
class Pooled:
    """Every component's expected log-joint, given the evaluations of all runs.

    Attributes
    ----------
    link_log_joint : (K,)
        Expected log-joint in link space.
    mixture : Mixture
        The components.
    processes : tuple of LowRankProcess
        The processes in link space, best first.
    shares : (P,)
        Their probabilities.
    data : TrainingData
        The evaluations used, in link space.
    left_out : int
        Number of those too far below the top.
    """

    link_log_joint: Array
    mixture: Mixture
    processes: tuple[LowRankProcess, ...]
    shares: Array
    data: TrainingData
    left_out: int

    @property
    def evaluations(self) -> int:
        """Number of evaluations used."""
        return self.data.size

    def with_more(self, mixture: Mixture) -> Pooled:
        """The same for a mixture that has further components after these."""
        more = slice(self.mixture.size, None)
        parts = mixture.centres[more], mixture.factors[more]
        mean = self.shares @ np.array([process.expected(*parts) for process in self.processes])
        return replace(self, link_log_joint=np.r_[self.link_log_joint, mean], mixture=mixture)

    def covariance(self, index: NDArray[np.integer] | None = None) -> Array:
        """Covariance of the expected log-joints of these components, or of all.

        It is made when asked for: a stack needs that of the components with weight only, and all
        pairs take longer than everything else.
        """
        which = np.arange(self.link_log_joint.size) if index is None else index
        parts = self.mixture.centres[which], self.mixture.factors[which]
        means, covariances = zip(*(p.integrate(*parts) for p in self.processes), strict=True)
        return _moments(np.array(means), np.array(covariances), self.shares)[1]

    def predict(self, y: Array) -> tuple[Array, Array]:
        """Mean and variance (n,) of the log density in link space, at points y (n, D) there."""
        means, variances = zip(*(process.predict(y) for process in self.processes), strict=True)
        return _moments(np.array(means), np.array(variances), self.shares)

    def average(self, y: Array, shares: Array) -> tuple[float, float]:
        """Variance of Σ_n s_n f(y_n), and how far selection raised it; see `LowRankProcess`."""
        rows = np.array([process.average(y, shares) for process in self.processes])
        _, variance = _moments(rows[:, :1], rows[:, 1:2], self.shares)
        return float(variance[0]), float(self.shares @ rows[:, 2])


@dataclass(frozen=True)
class SingleRun(Pooled):
    """One run, which is left as it is: its log-joints and their covariance are its own."""

    own_covariance: Array

    def covariance(self, index: NDArray[np.integer] | None = None) -> Array:
        """Covariance of the expected log-joints of these components, or of all."""
        which = np.arange(self.link_log_joint.size) if index is None else index
        return self.own_covariance[np.ix_(which, which)]


def why_not_pool(runs: Sequence[Run]) -> str:
    """Why these runs' evaluations cannot be pooled, or an empty string when they can."""
    link = runs[0].transform.link
    for index, run in enumerate(runs):
        if not run.transform.link.same_as(link):
            return f"run {index} has another link than run 0, so no affine map relates their spaces"
        if run.surrogate is None and not _knows_its_noise(run):
            return f"run {index} has neither a surrogate nor evaluations with their noise"
    if all(run.surrogate is None for run in runs):
        return "no run has a surrogate, so nothing is known about the kernel"
    return ""


def pool(runs: Sequence[Run], also: Sequence[Run] = ()) -> Pooled:
    """Every component's expected log-joint given all runs' evaluations; no new evaluation is made.

    Evaluations of runs in `also` count too, though their components do not: a run that failed to
    converge has evaluated the same log density. Those that cannot be used are passed over. A single
    run is left as it is: there is nothing to pool, and its own engine knew best.
    """
    return pooled(Mixture.from_runs(runs), runs, also)


def pooled(
    mixture: Mixture,
    runs: Sequence[Run],
    also: Sequence[Run],
    further: Evaluations | None = None,
) -> Pooled:
    """`pool` for runs whose components are in `mixture` already, and evaluations of no run."""
    reason = why_not_pool(runs)
    if reason:
        raise ValueError(f"the evaluations cannot be pooled: {reason}; use evaluations='own'")
    sources = [*runs, *(run for run in also if not why_not_pool([runs[0], run]))]
    everything = gather(sources, further)
    data, priors = near_the_top(everything, sources)
    processes, shares = weighed(priors[:_KEPT], data)
    left_out = everything.size - data.size
    if len(sources) == 1 and further is None and not _saw_the_outside(runs[0]):
        own = own_log_joints(runs), runs[0].expected_log_joint_covariance
        return SingleRun(own[0], mixture, processes, shares, data, left_out, own[1])
    parts = mixture.centres, mixture.factors
    mean = shares @ np.array([process.expected(*parts) for process in processes])
    return Pooled(mean, mixture, processes, shares, data, left_out)


def _saw_the_outside(run: Run) -> bool:
    """Whether evaluations were −inf: then the run's own log-joints are lowered outside."""
    return run.evaluations is not None and bool(run.evaluations.outside.any())


def gather(runs: Sequence[Run], further: Evaluations | None = None) -> TrainingData:
    """All evaluations of all runs, and further ones, in link space.

    All of them, not only those that a run's final surrogate kept: which ones it kept depends on
    their noise.
    """
    parts = [_own_data(run) for run in runs]
    if further is not None:
        seen = further.seen_from(runs[0].transform.link)
        variances = np.zeros(seen.size) if seen.sds is None else np.square(seen.sds)
        parts.append(TrainingData(seen.x, seen.values, np.maximum(variances, EXACT_VARIANCE)))
    return joined(parts)


def near_the_top(data: TrainingData, runs: Sequence[Run]) -> tuple[TrainingData, list[Prior]]:
    """The evaluations at which the log density is within 10 D nats of its 90 % quantile.

    A stationary kernel cannot follow both the posterior and values thousands of nats below it: with
    them, length scales grow and the posterior's shape is smoothed away. The cut is made by values
    that a first process predicts: cut by the noisy values themselves, the points left at the edge
    are the lucky ones, and the raised edge lowers the fit inside. Also returned are the runs'
    priors, those that fit best first.
    """
    floor = float(np.quantile(data.values, 0.9)) - DEPTH * data.dimension
    noise_sd = float(np.sqrt(np.median(data.noise_variance)))
    window = data.at(data.values > floor - EDGE_SDS * noise_sd)
    priors = best_first(candidates(runs), window)
    predicted, _ = conditioned(priors[0], window).predict(window.inputs)
    surely = window.values > floor + EDGE_SDS * noise_sd
    return window.at(surely | (predicted > floor)), priors


def candidates(runs: Sequence[Run]) -> list[Prior]:
    """Priors in link space: every run's hyperparameter samples, thinned evenly to about 40."""
    with_surrogate = [run for run in runs if run.surrogate is not None]
    each = max(1, _CANDIDATES // len(with_surrogate))
    found = []
    for run in with_surrogate:
        assert run.surrogate is not None
        samples = hyperparameters_of(run.surrogate)
        chosen = np.unique(np.linspace(0, len(samples) - 1, each).astype(int))
        found += [Prior.of(samples[index]).moved(run.transform) for index in chosen]
    return found


def best_first(priors: Sequence[Prior], data: TrainingData) -> list[Prior]:
    """The priors by the log density of the evaluations under them, on a subset of 500."""
    some = np.unique(np.linspace(0, data.size - 1, _SCORING_POINTS).astype(int))
    few = data.at(some)
    scores = [dense_log_likelihood(prior, few) for prior in priors]
    return [priors[index] for index in np.argsort(scores, kind="stable")[::-1]]


def conditioned(prior: Prior, data: TrainingData) -> LowRankProcess:
    """The process with this prior, given these evaluations, as exactly as pooling needs it."""
    return condition(prior, data, tolerance=TOLERANCE, max_rank=MAX_RANK)


def weighed(
    priors: Sequence[Prior], data: TrainingData
) -> tuple[tuple[LowRankProcess, ...], Array]:
    """The processes with these priors given all evaluations, best first, and their probabilities.

    Those with a probability below 0.001 are left out.
    """
    processes = [conditioned(prior, data) for prior in priors]
    scores = np.array([process.log_likelihood for process in processes])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    kept = [index for index in np.argsort(-shares, kind="stable") if shares[index] > 1e-3]
    return tuple(processes[index] for index in kept), shares[kept] / shares[kept].sum()


def _own_data(run: Run) -> TrainingData:
    """One run's evaluations in link space; the surrogate's own where the run kept no others."""
    map_, surrogate = run.transform, run.surrogate
    noise = None if surrogate is None else surrogate.noise_variance.mean(axis=0)
    if run.evaluations is None or not _knows_its_noise(run):
        assert surrogate is not None  # `why_not_pool` made sure
        assert noise is not None
        points = map_.centre + surrogate.inputs @ map_.matrix.T
        values = surrogate.values - map_.log_volume
        return TrainingData(points, values, np.broadcast_to(noise, values.shape))
    seen = run.evaluations.seen_from(map_.link)
    if seen.sds is not None:
        variances = np.square(seen.sds)
    else:
        variances = np.full(seen.size, EXACT_VARIANCE if noise is None else float(noise.min()))
    return TrainingData(seen.x, seen.values, np.maximum(variances, EXACT_VARIANCE))


def _knows_its_noise(run: Run) -> bool:
    """Whether the run kept its evaluations, and their standard deviations if they are noisy."""
    if run.evaluations is None:
        return False
    return run.evaluations.sds is not None or not run.is_noisy


def _moments(means: Array, covariances: Array, shares: Array) -> tuple[Array, Array]:
    """Mean and covariance (or variance) of a mixture of processes."""
    mean = shares @ means
    away = means - mean
    if covariances.ndim == 2:
        return mean, shares @ (covariances + away**2)
    within = np.einsum("p,pjk->jk", shares, covariances)
    return mean, within + (shares[:, None] * away).T @ away
