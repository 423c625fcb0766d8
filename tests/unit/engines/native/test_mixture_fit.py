"""The ELBO of a mixture, its gradients and its fit."""

import numpy as np
import pytest

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.training import shaped
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.numerics.quasi_random import centred_normals


def _central_differences(x, function, step):
    """With a step at which single precision does not show."""
    moves = step * np.eye(x.size)
    return [(function(x + move) - function(x - move)) / (2 * step) for move in moves]


@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_the_gradients_of_the_elbo_equal_finite_differences(process, mixture, penalty):
    points = centred_normals(3, 16, 2, np.random.default_rng(0))
    _, *gradients = mixture_fit.objective(process, mixture, points, penalty)
    names = ("weights", "means", "sds")
    for name, gradient in zip(names, gradients, strict=True):
        value = getattr(mixture, name)

        def changed(v, name=name, shape=value.shape):
            parts = {n: getattr(mixture, n) for n in names} | {name: v.reshape(shape)}
            return mixture_fit.objective(process, DiagonalMixture(**parts), points, penalty)[0]

        expected = _central_differences(value.ravel(), changed, 1e-3)
        np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-3, atol=1e-4)


def test_the_entropy_of_one_gaussian_is_known():
    points = centred_normals(1, 512, 2, np.random.default_rng(0))
    sds = np.array([[0.3, 2.0]])
    found = mixture_fit.entropy(np.ones(1), np.zeros((1, 2)), sds, points)[0]
    assert found == pytest.approx((np.log(2 * np.pi) + 1) + np.log(0.6), abs=1e-10)


def test_finer_fits_are_nearer_to_the_best_mixture():
    """Fifty components for a Gaussian in six dimensions, which the surrogate knows."""
    rng = np.random.default_rng(6)
    x = 1.3 * rng.standard_normal((150, 6))
    values = -0.5 * np.square(x).sum(axis=1)
    hyperparameters = Hyperparameters(np.full(6, 2.0), 0.0, 0.0, np.zeros(6), np.zeros(6))
    process = DenseProcess.condition(shaped(x, values), hyperparameters)
    start = growth.split(
        DiagonalMixture(np.ones(1), np.zeros((1, 6)), np.full((1, 6), 0.8)), 50, rng
    )
    worth = {}
    for finer in (1, 8):
        fitted = mixture_fit.fit(process, start, rng, rounds=5, finer=finer)
        worth[finer] = mixture_fit.evaluated(process, fitted, rng, 256).elbo
    best = 0.5 * 6 * np.log(2 * np.pi)
    assert worth[1] + 0.01 < worth[8] < best + 0.01
