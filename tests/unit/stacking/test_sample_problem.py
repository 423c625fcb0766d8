"""The sample problem: concavity, gradients, the duality gap. Property tests on random mixtures."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.synthetic import make_run, random_mixture
from vbstack import Mixture
from vbstack.stacking.adam import textbook_elbo
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights

SEEDS = st.integers(0, 10_000)
DIMENSIONS = st.integers(1, 10)


def problem_of(mixture, log_joint, draws=16, seed=0, kind="all"):
    rng = np.random.default_rng(seed)
    sample = Sample.draw(mixture, np.full(mixture.size, draws), rng)
    free = FreeWeights.of(kind, mixture, [0.0] * mixture.n_runs)
    return free.problem(sample, mixture.rewards(log_joint)), free


@settings(max_examples=40, deadline=None)
@given(SEEDS, DIMENSIONS, st.sampled_from(["all", "runs"]))
def test_the_sample_problem_is_concave(seed, dimension, kind):
    problem, _ = problem_of(*random_mixture(seed, dimension), seed=seed, kind=kind)
    rng = np.random.default_rng(seed)
    a, b = rng.dirichlet(np.full(problem.size, 0.3), 2)
    middle = problem.value(0.5 * (a + b))
    # Single-precision densities: 1e-5 is a thousand times their rounding in a value of order one.
    assert middle >= 0.5 * (problem.value(a) + problem.value(b)) - 1e-5


@settings(max_examples=25, deadline=None)
@given(SEEDS, DIMENSIONS)
def test_the_gap_bounds_the_shortfall_of_the_sample_problem(seed, dimension):
    problem, target = problem_of(*random_mixture(seed, dimension), seed=seed)
    short = maximise(problem, target.start, 1e-9, max_gradients=25)
    long = maximise(problem, target.start, 1e-9, max_gradients=2500)
    assert long.value - short.value <= short.gap + 1e-5
    assert long.value >= short.value - 1e-5


@settings(max_examples=20, deadline=None)
@given(SEEDS, DIMENSIONS)
def test_values_and_gradients_agree(seed, dimension):
    """L̂ = Σ w g, and g_j − g_i is the slope of L̂ from i to j (finite differences)."""
    problem, _ = problem_of(*random_mixture(seed, dimension), seed=seed)
    double = SampleProblem(
        tuple(
            type(b)(b.columns, b.densities.astype(float), b.log_scale, b.share.astype(float))
            for b in problem.blocks
        ),
        problem.column_scale,
        problem.linear,
    )
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(problem.size))
    i, j = np.argsort(w)[-2:]
    step = np.zeros(problem.size)
    step[j], step[i] = 1e-5, -1e-5
    slope = (double.value(w + step) - double.value(w - step)) / 2e-5
    g = double.gradient(w)
    assert slope == pytest.approx(g[j] - g[i], abs=1e-5)
    np.testing.assert_allclose(problem.gradient(w), g, atol=2e-5)


@settings(max_examples=20, deadline=None)
@given(SEEDS, DIMENSIONS)
def test_the_textbook_gradient_equals_finite_differences(seed, dimension):
    """The gradient that Adam climbs (paper, eq. 10)."""
    mixture, log_joint = random_mixture(seed, dimension)
    rng = np.random.default_rng(seed)
    sample = Sample.draw(mixture, np.full(mixture.size, 20), rng, quasi=False)
    sample = Sample(
        sample.columns,
        tuple(values.astype(float) for values in sample.densities),
        sample.log_scales,
        sample.sources,
        sample.counts,
    )
    w = rng.dirichlet(np.ones(mixture.size))
    _, gradient = textbook_elbo(sample, mixture.rewards(log_joint), w)
    for j in range(3):
        step = np.zeros(mixture.size)
        step[j] = 1e-6
        up, down = (
            textbook_elbo(sample, mixture.rewards(log_joint), w + s)[0] for s in (step, -step)
        )
        assert (up - down) / 2e-6 == pytest.approx(gradient[j], rel=1e-4, abs=1e-4)


def entropy_by_integration(means, sds, weights):
    def density(x):
        z = (x - means) / sds
        return float(weights @ (np.exp(-0.5 * z**2) / sds / np.sqrt(2 * np.pi)))

    def integrand(x):
        p = density(x)
        return -p * np.log(p) if p > 0 else 0.0

    edges = np.linspace(-15, 15, 61)
    return sum(quad(integrand, a, b)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("seed", range(5))
def test_entropy_of_a_one_dimensional_mixture_equals_integration(seed):
    rng = np.random.default_rng(seed)
    means, sds = rng.normal(0, 2, 6), rng.uniform(0.2, 1.5, 6)
    weights = rng.dirichlet(np.ones(6))
    expected = entropy_by_integration(means, sds, weights)
    mixture = Mixture.from_runs([make_run(means[:, None], sds[:, None], 0.0, weights)])
    log_joint = np.zeros(6)
    fresh = fresh_elbos(mixture, log_joint, [weights], 4000, rng)
    # log_joint is zero, so the ELBO is the entropy.
    assert fresh.values[0] == pytest.approx(expected, abs=5 * fresh.standard_error(0) + 1e-5)
    assert fresh.standard_error(0) < 2e-3
    problem, _ = problem_of(mixture, log_joint, draws=4000, seed=seed)
    assert problem.value(weights) == pytest.approx(expected, abs=5e-3)


def test_the_balance_heuristic_estimate_is_unbiased_up_to_its_normalisation():
    """Scaling the columns of R adds a bias; it must vanish against the Monte Carlo error."""
    mixture, log_joint = random_mixture(5, 2)
    weights = mixture.naive_weights
    values = [problem_of(mixture, log_joint, 16, seed)[0].value(weights) for seed in range(200)]
    truth = fresh_elbos(mixture, log_joint, [weights], 20_000, np.random.default_rng(0))
    error = np.hypot(np.std(values) / np.sqrt(200), truth.standard_error(0))
    assert abs(np.mean(values) - truth.values[0]) < 4 * error + 1e-3


def test_tied_weights_are_the_same_problem():
    mixture, log_joint = random_mixture(7, 3)
    tied, target = problem_of(mixture, log_joint, kind="runs")
    free, _ = problem_of(mixture, log_joint)
    v = np.random.default_rng(0).dirichlet(np.ones(mixture.n_runs))
    # Column sums differ between the tied and the free problem by the sampling error only.
    assert tied.value(v) == pytest.approx(free.value(target.basis @ v), abs=0.05)


def test_fresh_standard_error_is_honest():
    """Over repeated draws the spread of the estimate is what the halves promise."""
    mixture, log_joint = random_mixture(11, 4)
    weights = mixture.naive_weights
    runs = [
        fresh_elbos(mixture, log_joint, [weights], 64, np.random.default_rng(s)) for s in range(60)
    ]
    spread = np.std([r.values[0] for r in runs])
    promised = np.sqrt(np.mean([r.standard_error(0) ** 2 for r in runs]))
    assert 0.6 < spread / promised < 1.6
