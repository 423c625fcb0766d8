"""One iteration: surrogate and mixture after new evaluations."""

from dataclasses import replace

import numpy as np

from tests.small_problems import gaussian_problem
from vbstack.engines.native import iteration, mixture_fit, space
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.policy import Policy


def test_after_an_unreliable_fit_the_mixture_goes_back_to_the_last_reliable_one(ridge):
    rng, policy = np.random.default_rng(3), Policy.of({}, 2)
    reliable = DiagonalMixture(
        np.full(2, 0.5), np.array([[-0.5, 0], [0.5, 0]]), np.full((2, 2), 0.2)
    )
    far = DiagonalMixture(np.ones(1), np.array([[9.0, 5.0]]), np.full((1, 2), 0.2))
    unreliable = mixture_fit.Fitted(far, 50.0, 30.0)
    map_ = space.unit_box(gaussian_problem(2))
    state = iteration.State(map_, ridge, unreliable, reliable)
    back = iteration._reliable(ridge, unreliable, state, reliable, policy, rng)
    assert back.elbo_sd < 0.1
    assert np.abs(back.mixture.means[:, 0]).max() < 2
    sure = mixture_fit.evaluated(ridge, reliable, rng)
    same = replace(state, fitted=sure)
    assert iteration._reliable(ridge, sure, same, reliable, policy, rng) is sure
