"""Mixtures with other components."""

import numpy as np
import pytest

from vbstack.engines.native import growth, mixture_fit
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import shaped
from vbstack.gaussian_process import hyperparameter_fit


def test_components_are_added_where_mass_is_lacking(ridge):
    rng = np.random.default_rng(0)
    left = DiagonalMixture(np.ones(1), np.array([[-0.5, 0.0]]), np.array([[0.4, 0.15]]))
    before = mixture_fit.evaluated(ridge, left, rng)
    more = growth.extended(ridge, before, 5, Policy.of({}, 2), rng)
    assert 1 < more.size <= 6
    assert more.weights.sum() == pytest.approx(1)
    assert more.means[1:, 0].max() > 0.2  # the ridge ends at 1.2, the mixture at about 0.3
    assert np.abs(more.means[1:, 1]).max() < 0.4
    after = mixture_fit.evaluated(ridge, more, rng, 256)
    assert after.elbo > before.elbo + 0.2
    assert after.elbo_sd < 0.1


def test_nothing_is_added_where_nothing_is_lacking():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2)) * 1.5
    data = shaped(x, -0.5 * np.square(x).sum(axis=1))
    process = hyperparameter_fit.fit(data, [hyperparameter_fit.first_guess(data)], 50)
    whole = mixture_fit.evaluated(
        process, DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2))), rng
    )
    assert growth.extended(process, whole, 10, Policy.of({}, 2), rng).size == 1


def test_the_union_of_fits_costs_at_most_its_share_of_what_they_lack(ridge):
    rng = np.random.default_rng(2)
    best = DiagonalMixture(
        np.full(3, 1 / 3), np.array([[-0.8, 0], [0, 0], [0.8, 0]]), np.full((3, 2), 0.2)
    )
    poor = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.1))
    union = growth.union(best, poor, 0.1)
    assert union.size == 4
    assert union.weights.sum() == pytest.approx(1)
    assert union.weights[3:].sum() == pytest.approx(0.1)
    elbos = [mixture_fit.evaluated(ridge, m, rng, 256).elbo for m in (best, poor, union)]
    assert elbos[2] > 0.9 * elbos[0] + 0.1 * elbos[1] - 1e-3
