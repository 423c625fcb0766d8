"""Small runs with known answers, made of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vbstack import Run, StackedPosterior, Transform, stack
from vbstack.stacking.mixture import Mixture, own_log_joints

Array = NDArray[np.float64]


def make_transform(
    kinds: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    centre: ArrayLike = 0.0,
    width: ArrayLike = 1.0,
    scale: ArrayLike = 1.0,
    rotation: ArrayLike | None = None,
) -> Transform:
    """A transform from plain lists; numbers stand for all dimensions."""
    kinds = np.asarray(kinds, dtype=np.int64)
    size = kinds.size

    def each(value: ArrayLike) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(value, dtype=float), size).copy()

    return Transform(
        kinds=kinds,
        lower=each(lower),
        upper=each(upper),
        centre=each(centre),
        width=each(width),
        scale=each(scale),
        rotation=np.eye(size) if rotation is None else np.asarray(rotation, dtype=float),
    )


def identity(dimension: int) -> Transform:
    """No bounds, no rotation, unit scale."""
    return make_transform([0] * dimension, -np.inf, np.inf)


def make_run(
    means: ArrayLike,
    sds: ArrayLike,
    log_joint: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    variance: float = 1e-6,
    elbo: float = 0.0,
    **details: Any,
) -> Run:
    """A converged run with these components; every argument may be a plain list."""
    means = np.atleast_2d(np.asarray(means, dtype=float))
    size = len(means)
    sds = np.broadcast_to(np.asarray(sds, dtype=float), means.shape)
    log_joint = np.broadcast_to(np.asarray(log_joint, dtype=float), (size,))
    settings: dict[str, Any] = {
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


def gaussian_entropy(sds: ArrayLike) -> float:
    """Entropy of a Gaussian with independent coordinates."""
    sds = np.asarray(sds, dtype=float)
    return float(np.log(sds).sum() + 0.5 * sds.size * (1 + np.log(2 * np.pi)))


def random_run(rng: np.random.Generator, dimension: int, size: int = 5, **details: Any) -> Run:
    """Overlapping components whose expected log-joints scatter around minus their entropy."""
    means = rng.normal(0, 1.2, (size, dimension))
    sds = rng.uniform(0.4, 1.2, (size, dimension))
    reward = [-gaussian_entropy(s) + rng.normal(0, 0.5) for s in sds]
    return make_run(means, sds, reward, rng.dirichlet(np.ones(size)), **details)


def random_mixture(
    seed: int, dimension: int, runs: int = 4, size: int = 5
) -> tuple[Mixture, Array]:
    """The components of random runs, and their expected log-joints in link space."""
    rng = np.random.default_rng(seed)
    made = [random_run(rng, dimension, size) for _ in range(runs)]
    return Mixture.from_runs(made), own_log_joints(made)


def gaussian_posterior(
    log_evidence: float, dimension: int = 1, runs: int = 2, **details: Any
) -> StackedPosterior:
    """A stack that is exactly N(0, 1) with this log evidence."""
    reward = log_evidence - gaussian_entropy(np.ones(dimension))
    one = make_run(np.zeros((1, dimension)), 1.0, reward, elbo=log_evidence, **details)
    return stack([one] * runs)
