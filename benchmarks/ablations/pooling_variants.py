"""Other ways to pool, measured against `vbstack.pool` by `python -m benchmarks pooling`.

Each takes runs and returns every component's expected log-joint in link space (K,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from benchmarks.arrays import Array
from vbstack import Mixture, Run, pool
from vbstack.gaussian_process.hyperparameters import hyperparameters_of
from vbstack.gaussian_process.low_rank import LowRankProcess, condition
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.stacking.pooling import conditioned, gather, near_the_top

REFIT_POINTS = 500


def own_hyperparameters(runs: Sequence[Run]) -> Array:
    """(a) Each run's hyperparameters (its middle sample), conditioned on everyone's evaluations."""
    mixture, data = Mixture.from_runs(runs), near_the_top(gather(runs), runs)[0]
    result = np.empty(mixture.size)
    for m, prior in enumerate(_middle_priors(runs)):
        mine = mixture.owner == m
        process = conditioned(prior, data)
        result[mine] = process.integrate(mixture.centres[mine], mixture.factors[mine])[0]
    return result


def refitted(runs: Sequence[Run]) -> Array:
    """(b) One joint process whose hyperparameters maximise the log evidence of the evaluations.

    Started at the best candidate; length scales, output scale and the mean's height are refitted
    on 500 evaluations.
    """
    mixture = Mixture.from_runs(runs)
    data, priors = near_the_top(gather(runs), runs)
    some = data.at(np.unique(np.linspace(0, data.size - 1, REFIT_POINTS).astype(int)))
    start = priors[0]

    def changed(theta: Array) -> Prior:
        return replace(
            start,
            whitener=np.exp(-theta[:-2, None]) * start.whitener,
            variance=start.variance * float(np.exp(2 * theta[-2])),
            height=start.height + float(theta[-1]),
        )

    found = minimize(
        lambda theta: -conditioned(changed(theta), some).log_likelihood,
        np.zeros(mixture.dimension + 2),
        method="L-BFGS-B",
        bounds=[(-2, 2)] * (mixture.dimension + 1) + [(-20, 20)],
        options={"maxiter": 15, "eps": 1e-3},
    )
    process = conditioned(changed(found.x), data)
    return process.integrate(mixture.centres, mixture.factors)[0]


def precision_weighted(runs: Sequence[Run]) -> Array:
    """(c) The runs' own surrogates, each on its own data, combined by precision.

    Per component, with the between-run variance of DerSimonian & Laird (1986).
    """
    mixture = Mixture.from_runs(runs)
    table = [_under(process, mixture) for process in map(_own_process, runs)]
    means, variances = (np.array(part) for part in zip(*table, strict=True))
    weights = 1 / np.maximum(variances, 1e-6)
    centre = (weights * means).sum(axis=0) / weights.sum(axis=0)
    excess = (weights * (means - centre) ** 2).sum(axis=0) - (len(runs) - 1)
    scale = weights.sum(axis=0) - (weights**2).sum(axis=0) / weights.sum(axis=0)
    between = np.maximum(0, excess / scale)
    weights = 1 / (np.maximum(variances, 1e-6) + between)
    return np.asarray((weights * means).sum(axis=0) / weights.sum(axis=0))


def penalised(runs: Sequence[Run]) -> Array:
    """The chosen pooled values, each less half its own variance."""
    pooled = pool(runs)
    return pooled.link_log_joint - 0.5 * np.diag(pooled.covariance())


VARIANTS = {
    "(a) own hyperparameters, everyone's evaluations": own_hyperparameters,
    "(b) one process, refitted": refitted,
    "(c) precision-weighted surrogates": precision_weighted,
    "chosen, penalised by variance": penalised,
}


def _middle_priors(runs: Sequence[Run]) -> list[Prior]:
    found = []
    for run in runs:
        assert run.surrogate is not None
        samples = hyperparameters_of(run.surrogate)
        found.append(Prior.of(samples[len(samples) // 2]).moved(run.transform))
    return found


def _own_process(run: Run) -> LowRankProcess:
    """A run's surrogate in link space, at its middle hyperparameter sample."""
    assert run.surrogate is not None
    data, map_ = run.surrogate, run.transform
    noise = np.broadcast_to(data.noise_variance.mean(axis=0), data.values.shape)
    inputs, values = map_.centre + data.inputs @ map_.matrix.T, data.values - map_.log_volume
    return condition(_middle_priors([run])[0], TrainingData(inputs, values, noise))


def _under(process: LowRankProcess, mixture: Mixture) -> tuple[Array, Array]:
    """Means and variances (K,) of every component; by owner, as covariances are not needed."""
    means, variances = np.empty(mixture.size), np.empty(mixture.size)
    for m in range(mixture.n_runs):
        mine = mixture.owner == m
        mean, covariance = process.integrate(mixture.centres[mine], mixture.factors[mine])
        means[mine], variances[mine] = mean, np.diag(covariance)
    return means, variances
