"""The native engine's parts against closed forms, finite differences and refactorisation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from vbstack import Problem, RunStore, Screen, stack
from vbstack.engines import engine_named, resolved
from vbstack.engines.native import (
    change_of_space,
    common_axes,
    growth,
    iteration,
    loop,
    mixture_fit,
    space,
)
from vbstack.engines.native.acquisition import (
    Candidates,
    missing,
    scout,
    tempered,
    typical,
    worth,
    worthy,
)
from vbstack.engines.native.best_gaussian import Gaussian, best_gaussian
from vbstack.engines.native.loop import run_native
from vbstack.engines.native.mixture_fit import Mixture
from vbstack.engines.native.settings import Settings
from vbstack.engines.pyvbmc import read_transform
from vbstack.engines.recorder import Recorder, as_evaluations
from vbstack.gaussian_process import dense, integrals
from vbstack.gaussian_process.dense import Data, Process
from vbstack.launching.launcher import engine_for
from vbstack.runs.journal import Journal


@pytest.fixture
def process():
    """A process through twelve values of a bent function of two parameters."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (12, 2))
    values = -3 * x[:, 0] ** 2 - (x[:, 1] - x[:, 0] ** 2) ** 2
    hyperparameters = np.array([-0.7, -0.4, 0.8, 0.5, 0.1, -0.2, 0.3, 0.6])
    return Process.condition(Data.of(x, values), hyperparameters)


@pytest.fixture
def mixture():
    rng = np.random.default_rng(4)
    weights = np.array([0.5, 0.3, 0.2])
    return Mixture(weights, rng.uniform(-0.7, 0.7, (3, 2)), rng.uniform(0.1, 0.5, (3, 2)))


def test_the_hyperparameters_gradient_equals_finite_differences(process):
    data, priors = process.data, dense.Priors.of(process.data)
    value, gradient = dense.log_posterior(process.hyperparameters, data, priors)
    expected = approx_fprime(
        process.hyperparameters, lambda h: dense.log_posterior(h, data, priors)[0], 1e-6
    )
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)
    assert value - priors.log_density(process.hyperparameters)[0] == pytest.approx(
        process.log_likelihood
    )


def test_integrals_equal_numerical_integration(process, mixture):
    """Gauss–Hermite quadrature with forty nodes in each direction."""
    values, _, _ = integrals.integrals(process, mixture.means, mixture.sds)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    share = np.outer(weights, weights).ravel() / (2 * np.pi)
    for k in range(mixture.size):
        expected = share @ process.predict(mixture.means[k] + mixture.sds[k] * grid)[0]
        assert values[k] == pytest.approx(expected, abs=1e-8)


def test_variances_are_the_diagonal_of_the_covariance_and_that_of_a_prior_is_known(
    process, mixture
):
    covariance = integrals.covariance(process, mixture.means, mixture.sds)
    values = integrals.variances(process, mixture.means, mixture.sds)[0]
    np.testing.assert_allclose(values, np.diag(covariance), rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    far = Process.condition(Data.of(np.full((1, 2), 50.0), np.zeros(1)), process.hyperparameters)
    lengths2 = process.lengths**2
    expected = process.variance * np.prod(np.sqrt(lengths2 / (lengths2 + 2 * 0.3**2)))
    sds = np.full((1, 2), 0.3)
    assert integrals.covariance(far, np.zeros((1, 2)), sds)[0, 0] == pytest.approx(expected)


def _central_differences(x, function, step):
    """With a step at which single precision does not show."""
    moves = step * np.eye(x.size)
    return [(function(x + move) - function(x - move)) / (2 * step) for move in moves]


@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_the_gradients_of_the_elbo_equal_finite_differences(process, mixture, penalty):
    points = mixture_fit.normal_points(3, 16, 2, np.random.default_rng(0))
    _, *gradients = mixture_fit.objective(process, mixture, points, penalty)
    names = ("weights", "means", "sds")
    for name, gradient in zip(names, gradients, strict=True):
        value = getattr(mixture, name)

        def changed(v, name=name, shape=value.shape):
            parts = {n: getattr(mixture, n) for n in names} | {name: v.reshape(shape)}
            return mixture_fit.objective(process, Mixture(**parts), points, penalty)[0]

        expected = _central_differences(value.ravel(), changed, 1e-3)
        np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-3, atol=1e-4)


def test_one_gaussian_has_the_moments_of_the_mixture(mixture):
    one = growth.as_one(mixture)
    mean, covariance = mixture.moments()
    assert one.size == 1
    np.testing.assert_allclose(one.moments()[0], mean)
    np.testing.assert_allclose(np.diag(one.moments()[1]), np.diag(covariance))


@pytest.fixture
def ridge():
    """A process that knows a straight ridge from −2 to 2, and nothing beyond −3 and 3."""
    along, across = np.meshgrid(np.linspace(-2.5, 2.5, 11), np.linspace(-0.6, 0.6, 5))
    x = np.column_stack([along.ravel(), across.ravel()])
    values = -0.5 * (x[:, 0] / 1.2) ** 8 - 0.5 * (x[:, 1] / 0.2) ** 2
    data = Data.of(x, values)
    return dense.fit(data, [dense.first_guess(data)], 50)


def test_components_are_added_where_mass_is_lacking(ridge):
    rng = np.random.default_rng(0)
    left = Mixture(np.ones(1), np.array([[-0.5, 0.0]]), np.array([[0.4, 0.15]]))
    before = mixture_fit.evaluated(ridge, left, rng)
    more = growth.extended(ridge, before, 5, 1.0, rng)
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
    data = Data.of(x, -0.5 * np.square(x).sum(axis=1))
    process = dense.fit(data, [dense.first_guess(data)], 50)
    whole = mixture_fit.evaluated(
        process, Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2))), rng
    )
    assert growth.extended(process, whole, 10, 1.0, rng).size == 1


def test_the_union_of_fits_costs_at_most_its_share_of_what_they_lack(ridge):
    rng = np.random.default_rng(2)
    best = Mixture(np.full(3, 1 / 3), np.array([[-0.8, 0], [0, 0], [0.8, 0]]), np.full((3, 2), 0.2))
    poor = Mixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.1))
    union = growth.union(best, [poor, poor], 0.1)
    assert union.size == 5
    assert union.weights.sum() == pytest.approx(1)
    assert union.weights[3:].sum() == pytest.approx(0.1)
    elbos = [mixture_fit.evaluated(ridge, m, rng, 256).elbo for m in (best, poor, union)]
    assert elbos[2] > 0.9 * elbos[0] + 0.1 * elbos[1] - 1e-3
    assert growth.union(best, [], 0.1) is best


def test_a_lured_mixture_goes_back_to_where_it_was_known(ridge):
    rng = np.random.default_rng(3)
    known = Mixture(np.full(2, 0.5), np.array([[-0.5, 0], [0.5, 0]]), np.full((2, 2), 0.2))
    far = Mixture(np.ones(1), np.array([[9.0, 5.0]]), np.full((1, 2), 0.2))
    lured = mixture_fit.Fitted(far, 50.0, 30.0)
    state = iteration.State(None, ridge, lured, known)
    back = iteration._called_back(ridge, lured, state, known, rng)
    assert back.elbo_sd < 0.1
    assert np.abs(back.mixture.means[:, 0]).max() < 2
    sure = mixture_fit.evaluated(ridge, known, rng)
    assert iteration._called_back(ridge, sure, replace(state, fitted=sure), known, rng) is sure


def test_the_entropy_of_one_gaussian_is_known():
    points = mixture_fit.normal_points(1, 512, 2, np.random.default_rng(0))
    sds = np.array([[0.3, 2.0]])
    found = mixture_fit.entropy(np.ones(1), np.zeros((1, 2)), sds, points)[0]
    assert found == pytest.approx(np.log(2 * np.pi * np.e) + np.log(0.6), abs=1e-10)


def test_one_more_point_by_a_rank_one_step_equals_refactorisation(process, mixture):
    point, value = np.array([0.3, -0.4]), -1.2
    grown = process.including(point, value)
    again = Process.condition(grown.data, process.hyperparameters)
    np.testing.assert_allclose(grown.factor, again.factor, atol=1e-8)
    np.testing.assert_allclose(grown.alpha, again.alpha, rtol=1e-6)
    map_ = space.unit_box(target(2))
    fitted = mixture_fit.Fitted(mixture, 0.0, 0.1)
    before = Candidates.of(process, fitted, map_, np.random.default_rng(1))
    assert np.abs(before.points).max() <= 2.5 + 1e-12
    after = before.including(process, point, value)
    mean, variance = again.predict(before.points)
    np.testing.assert_allclose(after.mean, mean, atol=1e-6)
    np.testing.assert_allclose(after.variance, variance, atol=1e-6)


def test_a_tail_that_the_mixture_gave_up_is_worth_an_evaluation():
    """Equally uncertain, one known to hold mass beyond the mixture, one at its edge."""
    mean, log_q = np.array([-4.0, -5.0]), np.array([-16.0, -5.0])
    tail, edge = worth(mean, np.ones(2), log_q, elbo=0.0)
    assert edge == pytest.approx(-5 - 5)  # q as it is, where it is no smaller than the surrogate's
    assert tail == pytest.approx(-4 - (16 + 4) / 2)


def test_mass_may_be_missing_only_where_the_target_may_exceed_the_mixture():
    """A far mode, the same where the mixture has it, and a place that is only uncertain."""
    mean, sd = np.array([-4.0, -4.0, -9.0]), np.array([1.0, 1.0, 3.0])
    log_q = np.array([-16.0, -3.9, -20.0])
    far, held, unsure = missing(mean, sd**2, log_q, elbo=0.0)
    assert far == pytest.approx(-4 + 1)
    assert held == -np.inf
    assert unsure == pytest.approx(2 * np.log(3) - 9 + 3)


def test_a_scout_goes_to_the_mode_that_the_mixture_lacks():
    """Two bumps of which the mixture has one: the usual choice stays there, the scout does not."""
    means = np.array([[-0.8, 0.0], [0.8, 0.0]])

    def two_bumps(x):
        return np.logaddexp(*(-0.5 * np.square((x - m) / 0.3).sum(axis=1) for m in means))

    inputs = np.random.default_rng(8).uniform(-2.5, 2.5, (80, 2))
    data = Data.of(inputs, two_bumps(inputs))
    process = dense.fit(data, [dense.first_guess(data)], 50)
    mixture = Mixture(np.ones(1), means[:1], np.full((1, 2), 0.3))
    fitted = mixture_fit.evaluated(process, mixture, np.random.default_rng(0))
    candidates = Candidates.of(process, fitted, space.unit_box(target(2)), np.random.default_rng(1))
    usual, scout = (
        candidates.best(process, mixture, np.random.default_rng(2), score)
        for score in (worth, missing)
    )
    assert usual[0] < 0 < scout[0]
    # Where nothing may be missing, the scout is an evaluation like the others.
    content = replace(candidates, elbo=1e3)
    assert np.array_equal(
        content.best(process, mixture, np.random.default_rng(2), missing),
        content.best(process, mixture, np.random.default_rng(2), worth),
    )


def test_one_gaussian_has_the_slope_and_the_curvature_of_its_elbo(process):
    mean, covariance = np.array([0.1, -0.2]), np.array([[0.09, 0.02], [0.02, 0.05]])
    found = Gaussian.of(process, mean, covariance)
    diagonal = Gaussian.of(process, mean, np.diag([0.04, 0.09]))
    integral = integrals.integrals(process, mean[None], np.array([[0.2, 0.3]]))[0][0]
    entropy = np.log(2 * np.pi * np.e) + np.log(0.2 * 0.3)
    assert diagonal.elbo == pytest.approx(integral + entropy)

    def at(step):
        return Gaussian.of(process, mean + step, covariance)

    np.testing.assert_allclose(
        found.slope, approx_fprime(np.zeros(2), lambda v: at(v).elbo, 1e-6), atol=1e-5
    )
    columns = [(at(v).slope - at(-v).slope) / 2e-5 for v in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(found.curvature, np.column_stack(columns), atol=1e-6)


def test_the_best_gaussian_of_a_gaussian_is_the_gaussian():
    rng = np.random.default_rng(5)
    true_mean, covariance = np.array([0.2, -0.1]), np.array([[0.09, 0.07], [0.07, 0.08]])
    x = rng.uniform(-1, 1, (40, 2))
    away = x - true_mean
    values = -0.5 * np.einsum("nd,nd->n", away, np.linalg.solve(covariance, away.T).T)
    data = Data(x, values, np.full(40, 1e-6))
    process = dense.fit(data, [dense.first_guess(data)], 100)
    best = best_gaussian(process, np.zeros(2), 0.1 * np.eye(2))
    np.testing.assert_allclose(best.mean, true_mean, atol=1e-2)
    np.testing.assert_allclose(best.covariance, covariance, atol=1e-2)
    log_evidence = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert best.elbo == pytest.approx(log_evidence, abs=1e-2)


def test_precisions_are_the_curvature_of_the_integrals(process, mixture):
    found = common_axes.precisions(process, mixture)
    for k in range(mixture.size):

        def slope(mean, k=k):
            return integrals.integrals(process, mean[None], mixture.sds[k : k + 1])[1][0]

        expected = -approx_fprime(mixture.means[k], slope, 1e-6)
        np.testing.assert_allclose(found[k], expected, rtol=1e-4, atol=1e-4)


def test_common_axes_are_found_where_there_are_any():
    rng = np.random.default_rng(3)
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    precisions = np.array([(rotation * rng.uniform(1, 30, 4)) @ rotation.T for _ in range(6)])
    weights = np.full(6, 1 / 6)
    found = common_axes.common_axes(precisions, weights)
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-12)
    least = 0.5 * np.mean([np.linalg.slogdet(each)[1] for each in precisions])
    assert common_axes.lost(precisions, weights) > least + 0.2
    assert common_axes.lost(found.T @ precisions @ found, weights) < least + 0.01


def test_no_precision_is_wider_than_the_covariance():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    thin, flat = np.linalg.inv(0.1 * covariance), -np.eye(2)
    raised = common_axes.no_wider(np.array([thin, flat]), covariance)
    np.testing.assert_allclose(raised, [thin, np.linalg.inv(covariance)], atol=1e-12)


def test_crossed_bars_are_turned_along_the_axes():
    """There one component may be as long as a bar."""
    slanted = [np.linalg.inv([[1.0, c], [c, 1.0]]) for c in (0.97, -0.97)]

    def log_density(x):
        return float(np.logaddexp(*(-0.5 * x @ precision @ x for precision in slanted)))

    problem = Problem(
        log_density=log_density, plausible_lower_bounds=[-3, -3], plausible_upper_bounds=[3, 3]
    )
    rng = np.random.default_rng(8)
    evaluated = iteration.Evaluated(Recorder(problem, 0, Journal()))
    for point in np.stack(np.meshgrid(*2 * [np.linspace(-3, 3, 13)]), -1).reshape(-1, 2):
        evaluated.add(point)
    state = iteration.first_state(evaluated, space.unit_box(problem), rng)
    for number in (0, 2):
        state = iteration.refitted(state, evaluated, rng, False, number)
    turned = change_of_space.turned(state, evaluated, rng)
    rotation = turned.map_.rotation
    assert np.degrees(np.arctan2(rotation[1, 0], rotation[0, 0])) % 90 == pytest.approx(45, abs=5)
    assert turned.fitted.elbo > state.fitted.elbo
    assert turned.map_.log_volume == pytest.approx(state.map_.log_volume)
    assert change_of_space.turned(turned, evaluated, rng) is turned


def test_what_is_foreseen_of_a_value_is_what_the_process_without_it_predicts(process):
    which = np.arange(12) % 3 == 0
    expected = 0.0
    for n in np.flatnonzero(which):
        data = process.data
        kept = np.arange(12) != n
        rest = Data(data.inputs[kept], data.values[kept], data.noise[kept])
        without = Process.condition(rest, process.hyperparameters)
        mean, variance = without.predict(data.inputs[n : n + 1])
        sd = np.sqrt(variance[0] + data.noise[n])
        expected += norm(mean[0], sd).logpdf(data.values[n])
    assert process.foreseen(which) == pytest.approx(expected, rel=1e-6)


def test_a_round_bowl_is_guessed_from_a_few_values():
    """In six dimensions, where ten values say nothing about any one of them."""
    x = np.random.default_rng(2).uniform(-0.5, 0.5, (10, 6))
    data = Data.of(x, -0.5 * np.square((x - x[3]) / 0.1).sum(axis=1))
    guess = dense.bowl_guess(data)
    np.testing.assert_allclose(np.exp(guess[14:]), 0.1, rtol=1e-9)
    np.testing.assert_allclose(guess[8:14], x[3])
    # A fit from there sees the bowl, and promises nothing far away.
    far = np.full((1, 6), 2.0)
    assert dense.fit(data, [guess], 50).predict(far)[0][0] < -1000


def _turned_away(log_density, draws, rng):
    """A state that knows these points, with axes at odds with the parameters' own."""
    d = draws.shape[1]
    problem = Problem(
        log_density=log_density,
        plausible_lower_bounds=np.full(d, -4.0),
        plausible_upper_bounds=np.full(d, 4.0),
    )
    evaluated = iteration.Evaluated(Recorder(problem, 0, Journal()))
    for point in draws:
        evaluated.add(point)
    box = space.unit_box(problem)
    rotation = np.linalg.eigh(np.cov(draws.T))[1]
    map_ = space.along(box, rotation, np.cov(box.forward(draws).T))
    state = iteration.first_state(evaluated, map_, rng)
    for number in (0, 1, 2):
        state = iteration.refitted(state, evaluated, rng, False, number)
    return state, evaluated


def test_a_bend_by_one_parameter_is_seen_along_the_parameters_own_axes():
    rng = np.random.default_rng(11)

    def log_density(x):
        z = np.array(x)
        z[1] -= 0.6 * x[0] ** 2
        return -0.5 * float(z @ z)

    draws = 1.2 * rng.standard_normal((70, 5))
    draws[:, 1] += 0.6 * draws[:, 0] ** 2
    state, evaluated = _turned_away(log_density, draws, rng)
    straight = change_of_space.straightened(state, evaluated, rng)
    np.testing.assert_array_equal(straight.map_.rotation, np.eye(5))
    assert straight.map_.log_volume == pytest.approx(state.map_.log_volume)
    assert straight.fitted.elbo > state.fitted.elbo
    assert change_of_space.straightened(straight, evaluated, rng) is straight


def test_own_axes_are_left_where_the_mixture_is_worth_less(monkeypatch):
    """However well the surrogate foresees there."""
    rng = np.random.default_rng(11)
    draws = 1.2 * rng.standard_normal((70, 5))
    state, evaluated = _turned_away(lambda x: -0.5 * float(x @ x), draws, rng)
    proud = replace(state, fitted=replace(state.fitted, elbo=state.fitted.elbo + 1))
    monkeypatch.setattr(change_of_space, "_LIKELIHOOD_GAIN", -np.inf)
    assert change_of_space.straightened(proud, evaluated, rng) is proud
    modest = replace(state, fitted=replace(state.fitted, elbo=state.fitted.elbo - 1))
    assert change_of_space.straightened(modest, evaluated, rng) is not modest
    lost = replace(modest, fitted=replace(modest.fitted, elbo_sd=2.0))
    assert change_of_space.straightened(lost, evaluated, rng) is lost


def test_a_guess_in_another_space_is_not_what_is_known():
    rng = np.random.default_rng(11)
    state, _ = _turned_away(lambda x: -0.5 * float(x @ x), rng.standard_normal((40, 5)), rng)
    map_ = space.along(state.map_, np.eye(5), state.fitted.mixture.moments()[1])
    there = space.moved(state.fitted.mixture, state.map_, map_)
    other = replace(state.fitted, mixture=Mixture(there.weights, there.means + 1, there.sds))
    sure = change_of_space._entered(state, map_, state.process, replace(other, elbo_sd=0.5))
    assert sure.known is other.mixture
    guess = change_of_space._entered(state, map_, state.process, replace(other, elbo_sd=5.0))
    np.testing.assert_array_equal(guess.known.means, there.means)


def test_finer_fits_are_nearer_to_the_best_mixture():
    """Fifty components for a Gaussian in six dimensions, which the surrogate knows."""
    rng = np.random.default_rng(6)
    x = 1.3 * rng.standard_normal((150, 6))
    values = -0.5 * np.square(x).sum(axis=1)
    process = Process.condition(
        Data.of(x, values), np.r_[np.full(6, 2.0), 0.0, 0.0, np.zeros(6), np.zeros(6)]
    )
    start = growth.split(Mixture(np.ones(1), np.zeros((1, 6)), np.full((1, 6), 0.8)), 50, rng)
    worth = {}
    for finer in (1, 8):
        fitted = mixture_fit.fit(process, start, rng, rounds=5, finer=finer)
        worth[finer] = mixture_fit.evaluated(process, fitted, rng, 256).elbo
    best = 0.5 * 6 * np.log(2 * np.pi)
    assert worth[1] + 0.01 < worth[8] < best + 0.01


def test_correlated_parameters_keep_the_axes_of_their_covariance():
    rng = np.random.default_rng(12)
    covariance = 0.9 + 0.1 * np.eye(5)
    precision = np.linalg.inv(covariance)
    draws = 1.2 * rng.multivariate_normal(np.zeros(5), covariance, 70)
    state, evaluated = _turned_away(lambda x: -0.5 * float(x @ precision @ x), draws, rng)
    assert change_of_space.straightened(state, evaluated, rng) is state


def test_a_singular_kernel_is_met_with_more_noise():
    x = np.zeros((30, 2)) + 1e-9 * np.arange(30)[:, None]
    process = Process.condition(
        Data(x, np.arange(30.0), np.full(30, 1e-14)), np.array([3.0, 3.0, 6.0, 0, 0, 0, 0, 0])
    )
    assert np.isfinite(process.alpha).all()


def test_the_unit_box_is_pyvbmcs():
    from pyvbmc.parameter_transformer import ParameterTransformer

    lower, upper = np.array([-np.inf, 0.0]), np.array([np.inf, 4.0])
    low, high = np.array([-3.0, 0.5]), np.array([5.0, 2.0])
    problem = Problem(
        log_density=len,
        lower_bounds=lower,
        upper_bounds=upper,
        plausible_lower_bounds=low,
        plausible_upper_bounds=high,
    )
    boxes = (lower[None], upper[None], low[None], high[None])
    theirs = read_transform(ParameterTransformer(2, *boxes, transform_type="probit"))
    ours = space.unit_box(problem)
    for name in ("kinds", "lower", "upper", "centre", "width", "scale", "rotation"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name))


def test_whitening_keeps_the_volume_and_the_moments(mixture):
    problem = Problem(
        log_density=len, plausible_lower_bounds=[-1, -4], plausible_upper_bounds=[1, 6]
    )
    old = space.unit_box(problem)
    new = space.whitened(old, mixture.moments()[1])
    assert new.log_volume == pytest.approx(old.log_volume)
    step = space.step_between(old, new)
    covariance = step @ mixture.moments()[1] @ step.T
    np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(2), atol=1e-12)
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(new.forward(old.inverse(x)), x @ step.T, atol=1e-12)
    moved = space.moved(mixture, old, new)
    np.testing.assert_allclose(moved.moments()[0], mixture.moments()[0] @ step.T, atol=1e-12)
    one = space.as_component(*mixture.moments(), old, new)
    np.testing.assert_allclose(one.moments()[0], moved.moments()[0], atol=1e-12)
    np.testing.assert_allclose(one.moments()[1], covariance, atol=1e-12)
    for before, after in zip(mixture.sds, moved.sds, strict=True):
        expected = np.diag(step @ np.diag(before**2) @ step.T)
        np.testing.assert_allclose(after**2, expected, rtol=1e-12)


def test_hyperparameters_move_with_the_space(mixture):
    old = space.unit_box(target(2))
    new = space.whitened(old, mixture.moments()[1])
    h = np.array([-1.0, 0.3, 1.2, -2.0, 0.1, -0.3, -0.5, 0.8])
    moved = space.moved_hyperparameters(h, old, new)
    back = space.step_between(new, old)
    for axis in np.eye(2):  # along each new axis the kernel is the old one
        near, far = (axis[None] * t for t in (0.0, 0.4))
        expected = dense.kernel_between(h, near @ back.T, far @ back.T)
        np.testing.assert_allclose(dense.kernel_between(moved, near, far), expected)
    centre = moved[4:6][None]
    np.testing.assert_allclose(dense.mean_at(moved, centre), dense.mean_at(h, centre @ back.T))


def test_settling_is_judged_in_one_space(mixture):
    old = space.unit_box(target(2))
    new = space.whitened(old, mixture.moments()[1])
    before = loop.State(old, None, mixture_fit.Fitted(mixture, 1.0, 0.01))
    moved = mixture_fit.Fitted(space.moved(mixture, old, new), 1.01, 0.01)
    assert loop._is_small(before, loop.State(new, None, moved), 0.05)
    elsewhere = Mixture(mixture.weights, mixture.means + 1.0, mixture.sds)
    assert not loop._is_small(
        before, loop.State(old, None, mixture_fit.Fitted(elsewhere, 1.0, 0.01)), 0.05
    )


@pytest.mark.parametrize(
    ("dimension", "way", "tests"),
    [(2, scout, [1, 1, 3, 1, 3, 5]), (5, typical, [0, 0, 2, 2, 4, 6])],
)
def test_the_calmer_a_run_the_more_its_mixture_is_tested(mixture, dimension, way, tests):
    map_, settings = space.unit_box(target(2)), Settings.of({}, dimension)
    elbos = [0.0, 0.01, 1.0, 1.02, 1.03]
    states_ = [loop.State(map_, None, mixture_fit.Fitted(mixture, e, 0.01)) for e in elbos]
    for n, expected in enumerate(tests):
        for count in (4, 8):
            ways = loop._ways(target(dimension), states_[:n], count, settings)
            some = min(expected, count)
            assert ways == [worthy] * (count - some) + [way] * some


def test_with_noise_most_evaluations_are_draws():
    settings = Settings.of({}, 2, noisy=True)
    draws = [typical, typical, tempered, tempered]
    assert loop._ways(noisy_target(2), [], 5, settings) == [scout, *draws]
    assert loop._ways(noisy_target(2), [], 3, settings) == draws[1:]


def test_a_typical_point_is_drawn_and_unknown(mixture, process):
    rng = np.random.default_rng(0)
    fitted = mixture_fit.evaluated(process, mixture, rng)
    candidates = Candidates.of(process, fitted, space.unit_box(target(2)), rng)
    points = np.array([typical(candidates, process, mixture, rng) for _ in range(400)])
    plain = mixture.draws(400, rng)
    unknown, usual = (np.sqrt(process.predict(x)[1]).mean() for x in (points, plain))
    assert unknown > 1.1 * usual
    # Weighted by 1/s they are draws of the mixture again.
    weights = 1 / np.sqrt(process.predict(points)[1])
    mean, covariance = mixture.moments()
    shift = (weights @ points / weights.sum() - mean) / np.sqrt(np.diag(covariance))
    assert np.abs(shift).max() < 0.2


def test_tempered_points_have_the_density_that_is_said(process):
    """Their moments against those of s e^((f̄ + s)/3) on a grid; q is wide enough to hold it."""
    rng = np.random.default_rng(0)
    steep = process.hyperparameters.copy()
    steep[-2:] = np.log(0.3)
    process = Process.condition(process.data, steep)
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.full((1, 2), 0.5))
    fitted = mixture_fit.evaluated(process, mixture, rng)
    candidates = Candidates.of(process, fitted, space.unit_box(target(2)), rng)
    points = np.array([tempered(candidates, process, mixture, rng) for _ in range(1000)])
    axis = np.linspace(-2.5, 2.5, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mean, variance = process.predict(grid)
    density = np.sqrt(variance) * np.exp((mean + np.sqrt(variance)) / 3)
    expected = density @ grid / density.sum()
    spread = np.sqrt(density @ np.square(grid - expected) / density.sum())
    np.testing.assert_allclose((points.mean(axis=0) - expected) / spread, 0, atol=0.12)
    np.testing.assert_allclose(points.std(axis=0) / spread, 1, atol=0.12)


CENTRE, SPREAD = np.array([1.0, -0.5, 2.0]), np.array([0.5, 1.0, 0.3])


def gaussian(x):
    return float(-0.5 * np.sum(((x - CENTRE) / SPREAD) ** 2))


def noisy_gaussian(x, rng):
    return gaussian(x) + 2.0 * rng.standard_normal(), 2.0


def noisy_target(dimension=3):
    return replace(target(dimension), log_density=noisy_gaussian, noisy=True)


def target(dimension=3):
    return Problem(
        log_density=gaussian,
        plausible_lower_bounds=[-3] * dimension,
        plausible_upper_bounds=[4] * dimension,
    )


def native_run(journal, seed=5):
    return run_native(
        target(), np.array([0.0, 0.0, 0.0]), seed, Recorder(target(), seed, journal), {}
    )


@pytest.fixture(scope="module")
def finished():
    return native_run(Journal())


def test_a_gaussian_is_recovered(finished):
    assert finished.converged
    assert finished.elbo == pytest.approx(1.5 * np.log(2 * np.pi) + np.log(SPREAD).sum(), abs=0.01)
    mean, covariance = stack([finished], weights="naive").moments()
    np.testing.assert_allclose((mean - CENTRE) / SPREAD, 0, atol=1e-2)
    np.testing.assert_allclose(covariance / np.outer(SPREAD, SPREAD), np.eye(3), atol=1e-2)


def test_a_run_is_replayed_bit_for_bit_from_half_a_journal(finished):
    journal = Journal()
    whole = native_run(journal)
    half = Journal()
    half.entries = journal.entries[: len(journal.entries) // 2]
    again = native_run(half)
    for run in (whole, again):
        for name in ("weights", "means", "sds", "log_joint", "log_joint_covariance"):
            np.testing.assert_array_equal(getattr(run, name), getattr(finished, name))
        np.testing.assert_array_equal(run.evaluations.x, finished.evaluations.x)


def test_the_surrogate_kept_gives_the_runs_own_integrals(finished):
    surrogate = finished.surrogate
    hyperparameters = np.r_[
        surrogate.log_lengths[0], surrogate.log_output[0], surrogate.mean_parameters[0]
    ]
    data = Data(surrogate.inputs, surrogate.values, surrogate.noise_variance[0])
    process = Process.condition(data, hyperparameters)
    values = integrals.integrals(process, finished.means, finished.sds)[0]
    np.testing.assert_allclose(values, finished.log_joint[0], rtol=1e-9)


def test_evaluations_known_beforehand_are_used(finished):
    known = Recorder(target(), 5, Journal(), precomputed=_entries(finished, 20))
    run = run_native(target(), np.zeros(3), 5, known, {"max_fun_evals": 40})
    assert len(run.evaluations.values) == 40
    assert len(np.unique(run.evaluations.x, axis=0)) == 40
    assert run.surrogate.values.size == 40
    np.testing.assert_array_equal(run.evaluations.x[:20], finished.evaluations.x[:20])
    posterior = stack([run], screen=Screen(require_converged=False, max_variance=np.inf))
    assert np.isfinite(posterior.evidence.raw)


def _entries(run, count):
    from vbstack.runs.journal import Entry

    pairs = zip(run.evaluations.x[:count], run.evaluations.values[:count], strict=True)
    entries = [Entry(tuple(x), float(value), None, 0.0) for x, value in pairs]
    assert as_evaluations(entries, False).values.size == count
    return entries


def cut_off(x):
    return gaussian(x) if x[0] > -2 else -np.inf


def plateau(x):
    return 0.0


def steps(x):
    return float(np.floor(gaussian(x) / 2))


def spike(x):
    return 1e4 * gaussian(x)


@pytest.mark.parametrize("log_density", [cut_off, plateau, steps, spike])
def test_difficult_log_densities_end_in_a_status(log_density):
    problem = Problem(
        log_density=log_density, plausible_lower_bounds=[-3] * 3, plausible_upper_bounds=[4] * 3
    )
    recorder = Recorder(problem, 1, Journal(), on_error="floor")
    run = run_native(problem, np.array([3.9, 3.9, -2.9]), 1, recorder, {"max_fun_evals": 80})
    assert len(run.evaluations.values) <= 80
    assert np.isfinite(run.elbo)
    assert np.isfinite(run.expected_log_joint).all()
    assert (np.diagonal(run.expected_log_joint_covariance) > 0).all()


def test_a_run_covers_a_good_part_of_a_thin_ring_and_is_not_lured_into_it():
    def ring(x):
        return float(-0.5 * ((np.hypot(x[0] - 1, x[1] + 2) - 8) / 0.1) ** 2)

    box = {"plausible_lower_bounds": [-10, -10], "plausible_upper_bounds": [10, 10]}
    problem = Problem(log_density=ring, **box)
    for seed in (1, 2):
        start = np.random.default_rng(seed).uniform(-10, 10, 2)
        run = run_native(problem, start, seed, Recorder(problem, seed, Journal()), {})
        covered = np.exp(run.elbo - 2.5337)  # of the whole ring's mass
        assert run.converged
        assert 0.3 < covered < 1
        assert len(run.evaluations.values) < 200


@pytest.mark.parametrize(("centre", "width"), [(2.5, 0.06), (1.4, 0.25)])
def test_a_component_where_nothing_was_evaluated_is_looked_at_and_left(centre, width):
    """Also a wide one, of which only the centre is known."""

    def cliff(x):
        return float(-0.5 * x @ x - 100 * (x[0] > 2))

    box = {"plausible_lower_bounds": [-4, -4], "plausible_upper_bounds": [4, 4]}
    problem = Problem(log_density=cliff, **box)
    evaluated = loop.Evaluated(Recorder(problem, 1, Journal()))
    rng = np.random.default_rng(0)
    for point in rng.uniform([-3, -3], [1.5, 3], (30, 2)):
        evaluated.add(point)
    map_ = space.unit_box(problem)
    data = evaluated.seen_from(map_)
    process = dense.fit(data, [dense.first_guess(data)], 50)
    centres = map_.forward(np.array([[0.0, 0.0], [centre, 0.0]]))
    sds = np.array([[0.06, 0.06], [width, width]])
    blind = Mixture(np.array([0.7, 0.3]), centres, sds)
    state = loop.State(map_, process, mixture_fit.evaluated(process, blind, rng))
    checked, calm = loop._checked(state, evaluated, Settings.of({}, 2), rng)
    after = checked.fitted.mixture
    assert calm
    beyond = map_.inverse(after.means)[:, 0] > 2
    assert min(evaluated.values) < -100
    assert after.weights[beyond].sum() < 0.01


def test_a_spike_is_found_from_far_away():
    problem = Problem(
        log_density=spike, plausible_lower_bounds=[-3] * 3, plausible_upper_bounds=[4] * 3
    )
    run = run_native(problem, np.full(3, 3.9), 1, Recorder(problem, 1, Journal()), {})
    assert run.converged
    truth = 1.5 * np.log(2 * np.pi) + np.log(SPREAD / 100).sum()
    assert run.elbo == pytest.approx(truth, abs=0.05)


def test_low_values_are_compressed_and_keep_their_order():
    values = np.array([0.0, -10.0, -40.0, -100.0, -1e6, -1e300])
    found = dense.compressed(values, 0.0, 2)
    np.testing.assert_array_equal(found[:3], values[:3])
    assert (np.diff(found) < 0).all()
    assert found[4] > -500


def test_points_out_of_reach_are_moved_into_the_box(mixture):
    problem = Problem(
        log_density=len, plausible_lower_bounds=[-1, -4], plausible_upper_bounds=[1, 6]
    )
    map_ = space.whitened(space.unit_box(problem), mixture.moments()[1])
    moved = map_.inverse(space.within_reach(map_, np.array([[1e6, -1e6], [0.01, 0.02]])))
    assert (np.abs(moved[0] - [0, 1]) <= [5.0 + 1e-9, 25.0 + 1e-9]).all()
    np.testing.assert_allclose(moved[1], map_.inverse(np.array([[0.01, 0.02]]))[0])


def beta(x):
    return float(3 * np.log1p(-x[0]) + np.log(4))


def bounded(low=0.1, high=0.9):
    return Problem(
        log_density=beta,
        lower_bounds=[0.0],
        upper_bounds=[1.0],
        plausible_lower_bounds=[low],
        plausible_upper_bounds=[high],
        names=("rate",),
    )


def test_one_bounded_parameter_with_its_mass_at_the_bound():
    run = run_native(bounded(), np.array([0.5]), 3, Recorder(bounded(), 3, Journal()), {})
    assert run.converged
    assert run.elbo == pytest.approx(0.0, abs=0.03)
    assert len(np.unique(run.evaluations.x)) == len(run.evaluations.x)
    mean, _ = stack([run], weights="naive").moments()
    assert mean[0] == pytest.approx(0.2, abs=0.01)


def test_what_cannot_be_run_is_refused_with_its_name():
    with pytest.raises(ValueError, match="not within the hard bounds"):
        run_native(bounded(), np.array([0.0]), 0, Recorder(bounded(), 0, Journal()), {})
    narrow = bounded(0.0, 1e-4)
    with pytest.raises(ValueError, match="plausible box of rate"):
        run_native(narrow, np.array([0.5]), 0, Recorder(narrow, 0, Journal()), {})
    for option, value in (("fun_eval_start", 1), ("max_fun_evals", 0), ("final_components", 0)):
        with pytest.raises(ValueError, match=f"{option}={value}"):
            native_options({option: value})


def test_the_budget_is_kept_however_small():
    assert len(native_options({"max_fun_evals": 7}).evaluations.values) == 7
    few = native_options({"max_fun_evals": 30, "final_components": 2})
    assert len(few.evaluations.values) == 30


def native_options(options):
    return run_native(target(), np.zeros(3), 5, Recorder(target(), 5, Journal()), options)


def test_engines_by_name_and_options_that_do_not_exist(tmp_path):
    assert engine_named("native") is run_native
    assert resolved("auto", target()) == "native"
    many = Problem(
        log_density=gaussian, plausible_lower_bounds=[-1] * 11, plausible_upper_bounds=[1] * 11
    )
    assert resolved("auto", many) == "pyvbmc"
    for refusing in (lambda: resolved("mcmc", target()), lambda: engine_named("mcmc")):
        with pytest.raises(ValueError, match="engine='mcmc' is not known"):
            refusing()
    with pytest.raises(ValueError, match=r"no option \['max_evals'\]"):
        run_native(target(), np.zeros(3), 0, Recorder(target(), 0, Journal()), {"max_evals": 3})
    assert resolved("auto", noisy_target()) == "pyvbmc"
    assert engine_for(target(), RunStore(tmp_path), "auto") == "native"
    RunStore(tmp_path).open(target(), 0, {}, "pyvbmc")
    assert engine_for(target(), RunStore(tmp_path), "auto") == "pyvbmc"  # a store keeps its own


def test_a_noisy_gaussian_is_found_and_its_error_known():
    """Ten runs: ELBOs near the log evidence, by about as much as they say."""
    problem = noisy_target()
    truth = 1.5 * np.log(2 * np.pi) + np.log(SPREAD).sum()
    runs = [run_native(problem, CENTRE, s, Recorder(problem, s, Journal()), {}) for s in range(10)]
    assert sum(run.converged for run in runs) >= 8
    assert all(run.is_noisy and run.evaluations.sds is not None for run in runs)
    errors = np.array([run.elbo - truth for run in runs])
    sds = np.array([run.elbo_sd for run in runs])
    assert abs(errors.mean()) < 0.3
    assert np.sqrt(np.mean((errors / sds) ** 2)) < 2.0
    posterior = stack(runs)
    np.testing.assert_allclose(posterior.moments()[0], CENTRE, atol=0.3 * SPREAD.min())


def test_a_noisy_run_continues_from_its_journal():
    problem, options = noisy_target(), {"max_fun_evals": 40}
    recorder = Recorder(problem, 3, Journal())
    whole = run_native(problem, CENTRE, 3, recorder, options)
    journal = Journal()
    for entry in recorder.made[:25]:
        journal.append(entry)
    again = Recorder(problem, 3, journal)
    run = run_native(problem, CENTRE, 3, again, options)
    assert again.replayed == 25
    assert run.elbo == whole.elbo
    np.testing.assert_array_equal(run.evaluations.values, whole.evaluations.values)


def test_a_process_with_a_noisy_value_more_is_the_process_of_all():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (8, 2)), rng.standard_normal(8)
    h = np.array([-0.7, -0.4, 0.8, 0.5, 0.1, -0.2, 0.3, 0.6])
    data = Data.of(x, y, np.full(8, 2.0))
    some = Process.condition(Data.of(x[:7], y[:7], np.full(7, 2.0)), h).including(x[7], y[7], 2.0)
    every = Process.condition(data, h)
    np.testing.assert_allclose(some.factor, every.factor, atol=1e-10)
    np.testing.assert_allclose(some.alpha, every.alpha, atol=1e-10)
    assert data.top == pytest.approx(y.max() - 4.0)
    np.testing.assert_allclose(every.believed(), every.predict(x)[0])
