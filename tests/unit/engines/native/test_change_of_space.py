"""When the space is straightened, and when it is left."""

from dataclasses import replace

import numpy as np
import pytest

from vbstack import Problem
from vbstack.engines.native import change_of_space, iteration, space
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.policy import Policy
from vbstack.engines.native.training import training_data
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.runs.journal import Journal

POLICY = Policy.of({}, 5)


def _turned_away(log_density, draws, rng):
    """A state that knows these points, with axes at odds with the parameters' own."""
    d = draws.shape[1]
    problem = Problem(
        log_density=log_density,
        plausible_lower_bounds=np.full(d, -4.0),
        plausible_upper_bounds=np.full(d, 4.0),
    )
    recorder = Recorder(problem, 0, Journal())
    for point in draws:
        recorder(point)
    box = space.unit_box(problem)
    rotation = np.linalg.eigh(np.cov(draws.T))[1]
    map_ = space.along(box, rotation, np.cov(box.forward(draws).T))
    data = training_data(recorder, map_)
    guesses = [
        hyperparameter_fit.first_guess(data),
        hyperparameter_fit.gaussian_guess(data, data.inputs.mean(axis=0), data.inputs.std(axis=0)),
    ]
    process = hyperparameter_fit.fit(data, guesses, 100)
    one = DiagonalMixture(np.ones(1), data.inputs.mean(axis=0)[None], data.inputs.std(axis=0)[None])
    state = iteration.State(map_, process, iteration.fit_mixture(process, one, rng))
    for number in (0, 1, 2):
        state = iteration.refitted(state, recorder, rng, POLICY, False, number)
    return state, recorder


def test_a_bend_by_one_parameter_is_seen_along_the_parameters_own_axes():
    rng = np.random.default_rng(11)

    def log_density(x):
        z = np.array(x)
        z[1] -= 0.6 * x[0] ** 2
        return -0.5 * float(z @ z)

    draws = 1.2 * rng.standard_normal((70, 5))
    draws[:, 1] += 0.6 * draws[:, 0] ** 2
    state, recorder = _turned_away(log_density, draws, rng)
    straight = change_of_space.straightened(state, recorder, rng, POLICY)
    np.testing.assert_array_equal(straight.map_.rotation, np.eye(5))
    assert straight.map_.log_volume == pytest.approx(state.map_.log_volume)
    assert straight.fitted.elbo > state.fitted.elbo
    assert change_of_space.straightened(straight, recorder, rng, POLICY) is straight


def test_own_axes_are_left_where_the_mixture_is_worth_less():
    """However well the surrogate predicts there."""
    rng = np.random.default_rng(11)
    draws = 1.2 * rng.standard_normal((70, 5))
    state, recorder = _turned_away(lambda x: -0.5 * float(x @ x), draws, rng)
    proud = replace(state, fitted=replace(state.fitted, elbo=state.fitted.elbo + 1))
    anyway = replace(POLICY, likelihood_gain=-np.inf)
    assert change_of_space.straightened(proud, recorder, rng, anyway) is proud
    modest = replace(state, fitted=replace(state.fitted, elbo=state.fitted.elbo - 1))
    assert change_of_space.straightened(modest, recorder, rng, anyway) is not modest
    lost = replace(modest, fitted=replace(modest.fitted, elbo_sd=2.0))
    assert change_of_space.straightened(lost, recorder, rng, anyway) is lost


def test_correlated_parameters_keep_the_axes_of_their_covariance():
    rng = np.random.default_rng(12)
    covariance = 0.9 + 0.1 * np.eye(5)
    precision = np.linalg.inv(covariance)
    draws = 1.2 * rng.multivariate_normal(np.zeros(5), covariance, 70)
    state, recorder = _turned_away(lambda x: -0.5 * float(x @ precision @ x), draws, rng)
    assert change_of_space.straightened(state, recorder, rng, POLICY) is state
