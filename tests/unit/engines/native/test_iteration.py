"""One iteration: surrogate and mixture after new evaluations."""

from dataclasses import replace

import numpy as np

from tests.small_problems import gaussian_problem
from vbstack.engines.native import iteration, mixture_fit, space
from vbstack.engines.native.diagonal_mixture import DiagonalMixture


def test_a_lured_mixture_goes_back_to_where_it_was_known(ridge):
    rng = np.random.default_rng(3)
    known = Mixture(np.full(2, 0.5), np.array([[-0.5, 0], [0.5, 0]]), np.full((2, 2), 0.2))
    far = Mixture(np.ones(1), np.array([[9.0, 5.0]]), np.full((1, 2), 0.2))
    lured = mixture_fit.Fitted(far, 50.0, 30.0)
    map_ = space.unit_box(gaussian_problem(2))
    state = iteration.State(map_, ridge, lured, known)
    back = iteration._called_back(ridge, lured, state, known, rng)
    assert back.elbo_sd < 0.1
    assert np.abs(back.mixture.means[:, 0]).max() < 2
    sure = mixture_fit.evaluated(ridge, known, rng)
    assert iteration._called_back(ridge, sure, replace(state, fitted=sure), known, rng) is sure
