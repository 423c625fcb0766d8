"""Small runs with known answers, made of arrays."""

from __future__ import annotations

import numpy as np

from vbstack import Run, StackedPosterior, Transform, stack
from vbstack.stacking.mixture import Mixture


def identity(dimension: int) -> Transform:
    """No bounds, no rotation, unit scale."""
    infinite = np.full(dimension, np.inf)
    return Transform(
        kinds=np.zeros(dimension),
        lower=-infinite,
        upper=infinite,
        centre=np.zeros(dimension),
        width=np.ones(dimension),
        scale=np.ones(dimension),
        rotation=np.eye(dimension),
    )


def make_run(means, sds, log_joint, weights=None, *, variance=1e-6, elbo=0.0, **details) -> Run:
    """A converged run with these components; every argument may be a plain list."""
    means = np.atleast_2d(np.asarray(means, dtype=float))
    size = len(means)
    sds = np.broadcast_to(np.asarray(sds, dtype=float), means.shape)
    log_joint = np.broadcast_to(np.asarray(log_joint, dtype=float), (size,))
    settings = {
        "weights": np.full(size, 1 / size) if weights is None else np.asarray(weights, dtype=float),
        "means": means,
        "sds": sds,
        "transform": identity(means.shape[1]),
        "log_joint": log_joint[None],
        "log_joint_covariance": variance * np.eye(size)[None],
        "elbo": elbo,
        "elbo_sd": 0.01,
        "converged": True,
        "noise_level": 0,
    }
    return Run(**{**settings, **details})


def gaussian_entropy(sds) -> float:
    """Entropy of a Gaussian with independent coordinates."""
    sds = np.asarray(sds, dtype=float)
    return float(np.log(sds).sum() + 0.5 * sds.size * np.log(2 * np.pi * np.e))


def random_run(rng: np.random.Generator, dimension: int, size: int = 5, **details) -> Run:
    """Overlapping components whose expected log-joints scatter around minus their entropy."""
    means = rng.normal(0, 1.2, (size, dimension))
    sds = rng.uniform(0.4, 1.2, (size, dimension))
    reward = [-gaussian_entropy(s) + rng.normal(0, 0.5) for s in sds]
    return make_run(means, sds, reward, rng.dirichlet(np.ones(size)), **details)


def random_mixture(seed: int, dimension: int, runs: int = 4, size: int = 5) -> Mixture:
    rng = np.random.default_rng(seed)
    return Mixture.from_runs([random_run(rng, dimension, size) for _ in range(runs)])


def gaussian_posterior(
    log_evidence: float, dimension: int = 1, runs: int = 2, **details
) -> StackedPosterior:
    """A stack that is exactly N(0, 1) with this log evidence."""
    reward = log_evidence - gaussian_entropy(np.ones(dimension))
    one = make_run(np.zeros((1, dimension)), 1.0, reward, elbo=log_evidence, **details)
    return stack([one] * runs)
