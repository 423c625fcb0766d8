"""Moments behind hard bounds, against Gauss–Hermite quadrature with far more nodes."""

import numpy as np
import pytest

from vbstack import Mixture, Run, Transform
from vbstack.runs.transform import LOG_ABOVE, LOG_BELOW, LOGIT, PROBIT, STUDENT4, UNBOUNDED
from vbstack.stacking.moments import mixture_moments

ABOVE_ZERO, BELOW_ONE = (LOG_ABOVE, 0.0, np.inf), (LOG_BELOW, -np.inf, 1.0)
BETWEEN, FREE = (PROBIT, 0.0, 1.0), (UNBOUNDED, -np.inf, np.inf)


def _mixture(kind: int, sds: np.ndarray, rotation: np.ndarray) -> Mixture:
    """Two components behind bounds 0 and 1, rotated against the axes."""
    return _behind([(kind, 0.0, 1.0)] * 2, sds, rotation)


def _behind(
    bounds: list[tuple[int, float, float]], sds: np.ndarray, rotation: np.ndarray
) -> Mixture:
    """Two components with these kinds and bounds of their two parameters."""
    kinds, lower, upper = zip(*bounds, strict=True)
    transform = Transform(
        kinds=np.array(kinds),
        lower=np.array(lower),
        upper=np.array(upper),
        centre=np.array([0.3, -0.5]),
        width=np.ones(2),
        scale=np.ones(2),
        rotation=rotation,
    )
    run = Run(
        weights=np.array([0.4, 0.6]),
        means=np.array([[0.0, 1.0], [-1.0, 0.5]]),
        sds=sds,
        transform=transform,
        log_joint=np.zeros((1, 2)),
        log_joint_covariance=np.zeros((1, 2, 2)),
        elbo=0.0,
        elbo_sd=0.0,
        converged=True,
    )
    return Mixture.from_runs([run])


def _by_hermite(mixture: Mixture, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes, w = np.polynomial.hermite_e.hermegauss(180)
    w = np.outer(w, w).ravel() / w.sum() ** 2
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    x = np.concatenate(
        [
            mixture.links[0].inverse(centre + z @ factor.T)
            for centre, factor in zip(mixture.centres, mixture.factors, strict=True)
        ]
    )
    w = np.concatenate([weight * w for weight in weights])
    mean = w @ x
    return mean, (x - mean).T @ (w[:, None] * (x - mean))


@pytest.mark.parametrize("kind", [LOGIT, PROBIT, STUDENT4])
@pytest.mark.parametrize(("narrow", "wide"), [(0.2, 1.4), (0.5, 3.0)])
def test_moments_behind_bounds(kind: int, narrow: float, wide: float) -> None:
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    mixture = _mixture(kind, np.array([[narrow, wide], [0.3, 0.4]]), turn)
    weights = np.array([0.4, 0.6])
    mean, covariance = mixture_moments(mixture, weights)
    exact_mean, exact_covariance = _by_hermite(mixture, weights)
    np.testing.assert_allclose(mean, exact_mean, atol=2e-6)
    np.testing.assert_allclose(covariance, exact_covariance, atol=2e-6)


@pytest.mark.parametrize(
    "bounds",
    [
        [ABOVE_ZERO, ABOVE_ZERO],
        [ABOVE_ZERO, BELOW_ONE],
        [BELOW_ONE, BETWEEN],
        [BETWEEN, ABOVE_ZERO],
        [FREE, ABOVE_ZERO],
    ],
)
@pytest.mark.parametrize("wide", [0.4, 1.7])
def test_moments_behind_one_bound(bounds: list[tuple[int, float, float]], wide: float) -> None:
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    mixture = _behind(bounds, np.array([[0.2, wide], [0.3, 0.4]]), turn)
    weights = np.array([0.4, 0.6])
    mean, covariance = mixture_moments(mixture, weights)
    exact_mean, exact_covariance = _by_hermite(mixture, weights)
    np.testing.assert_allclose(mean, exact_mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(covariance, exact_covariance, rtol=1e-5, atol=1e-5)
