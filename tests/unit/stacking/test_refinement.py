"""Refinement of a stack by the pooled surrogate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.archived_runs import plan_of, run_of
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.true_elbo import true_elbo
from tests.synthetic import gaussian_posterior
from vbstack import StackedPosterior, diagnostics, load_runs, stack
from vbstack.analysis.subsets import Subsets
from vbstack.assembly import stacked
from vbstack.numerics.quasi_random import centred_normals
from vbstack.stacking.gaussians import Gaussians
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import pool
from vbstack.stacking.refinement import (
    CHARGE,
    DOUBTFUL,
    MISCALIBRATED,
    PAYS,
    doubt,
    has_strayed,
    is_trusted,
    miscalibration,
    promises_too_much,
    refined,
)
from vbstack.stacking.refinement_fit import (
    PooledQuadrature,
    StepCoordinates,
    drawn,
    entropy,
    log_density,
    objective,
)
from vbstack.stacking.settings import StackSettings
from vbstack.verifying import verify

NOISY_RUNS = Path(__file__).parents[2] / "data" / "noisy_gmm.npz"
BANANA = "rosenbrock4"


@pytest.fixture(scope="module")
def runs():
    """Two runs of two bananas, in four dimensions."""
    problem = PROBLEMS[BANANA]().problem()
    plan = plan_of(problem, "native")
    return [run_of(problem, plan, index) for index in range(2)]


@pytest.fixture(scope="module")
def plain(runs):
    return stack(runs, refine=False)


@pytest.fixture(scope="module")
def better(runs):
    return stack(runs)


def some_gaussians(pooled, size=4):
    rng = np.random.default_rng(0)
    mixture = pooled.mixture
    k = rng.choice(mixture.size, size)
    d = mixture.dimension
    turned = np.eye(d) + np.tril(rng.normal(0, 0.2, (size, d, d)))
    weights = rng.dirichlet(np.ones(size))
    return Gaussians(weights, mixture.centres[k], mixture.factors[k] @ turned)


@pytest.mark.parametrize("charge", [0.0, CHARGE])
def test_the_gradient_of_the_charged_elbo_equals_finite_differences(charge):
    pooled = pool(load_runs(NOISY_RUNS)[:3])  # noise: little cancels in this surrogate
    surrogate = PooledQuadrature.of(pooled)
    coordinates = StepCoordinates(some_gaussians(pooled))
    points = centred_normals(4, 32, 2, np.random.default_rng(1))

    def elbo(v):
        parts = coordinates.at(v)
        value, *slopes = objective(surrogate, parts, points, charge)
        return value, coordinates.slope(parts, *slopes)

    v = np.random.default_rng(2).normal(0, 0.2, 4 * 6)
    moves = 1e-4 * np.eye(v.size)
    wanted = [(elbo(v + move)[0] - elbo(v - move)[0]) / 2e-4 for move in moves]
    np.testing.assert_allclose(elbo(v)[1], wanted, atol=1e-6)


def test_the_entropy_is_the_mean_of_the_log_density(runs):
    parts = some_gaussians(pool(runs))
    points = centred_normals(4, 64, 4, np.random.default_rng(1))
    logs = log_density(parts, drawn(parts, points)).reshape(4, 64)
    assert entropy(parts, points)[0] == pytest.approx(-parts.weights @ logs.mean(axis=1))


def test_refinement_raises_the_true_elbo(plain, better):
    target = PROBLEMS[BANANA]()
    assert better.refined is not None
    assert better.refined_weight > 0.5
    before, after = true_elbo(target, plain), true_elbo(target, better)
    assert after > before + PAYS
    assert after < target.log_evidence + 0.003  # 20,000 draws
    assert better.evidence.elbo == pytest.approx(after, abs=3 * better.evidence.elbo_sd)


def test_the_bracket_holds_and_contains_the_stack_before(plain, better):
    solution = better.solution
    assert solution.status == "certified"
    assert solution.lower <= solution.upper == pytest.approx(solution.lower + solution.gap)
    assert solution.upper > plain.solution.lower
    assert solution.naive == plain.solution.naive


def test_without_refinement_it_is_the_stack_before(plain, better):
    alone = better.unrefined
    np.testing.assert_array_equal(alone.weights, plain.weights)
    np.testing.assert_array_equal(alone.link_log_joint, plain.link_log_joint)
    assert alone.evidence == plain.evidence
    assert plain.unrefined is plain
    np.testing.assert_array_equal(better.run_weights, plain.run_weights)


def test_diagnostics_are_those_of_the_runs_alone(plain, better):
    one, other = diagnostics(plain), diagnostics(better)
    assert one.runs == other.runs
    assert one.verdict == other.verdict
    np.testing.assert_array_equal(one.coverage.by_runs, other.coverage.by_runs)
    assert Subsets.of(better).mixture.size == plain.mixture.size


def test_components_of_no_run_are_named_so(better):
    assert better.refined is not None
    size = better.refined.gaussians.size
    components = better.components
    np.testing.assert_array_equal(components.run[-size:], -1)
    assert components.run[:-size].min() == 0
    np.testing.assert_array_equal(better.places(np.arange(better.weights.size)), components.run)
    mixture = better.to_gaussian_mixture()
    assert (mixture.run == -1).sum() == np.count_nonzero(better.weights[-size:])
    x = better.sample(5, seed=0)
    gaps = x[:, None] - mixture.means
    inverse = np.linalg.inv(mixture.covariances)
    logs = -0.5 * np.einsum("nkd,kde,nke->nk", gaps, inverse, gaps)
    logs -= 0.5 * np.linalg.slogdet(2 * np.pi * mixture.covariances)[1]
    np.testing.assert_allclose(np.exp(logs) @ mixture.weights, better.pdf(x))


def test_it_is_saved_and_loaded(better, tmp_path):
    again = StackedPosterior.load(better.save(tmp_path / "refined"))
    assert again.refined is not None
    assert again.evidence == better.evidence
    assert again.refined.evidence == better.refined.evidence
    np.testing.assert_array_equal(again.sample(10, seed=1), better.sample(10, seed=1))
    np.testing.assert_array_equal(again.unrefined.weights, better.unrefined.weights)
    assert again.settings == better.settings
    assert again.summary() == better.summary()
    assert "components fitted to the pooled surrogate" in again.summary()


def test_the_same_runs_give_the_same_refinement(runs, better):
    np.testing.assert_array_equal(stack(runs).weights, better.weights)


def test_an_uncertain_surrogate_adds_nothing(runs):
    few = [replace(run, surrogate=_blurred(run.surrogate), evaluations=None) for run in runs]
    found = stack(few, refine=True)
    assert found.refined is None


def test_auto_leaves_a_stack_alone_whose_surrogate_is_doubtful(runs, plain):
    rng = np.random.default_rng(0)
    assert doubt(pool(runs), plain.mixture, plain.weights, rng) < DOUBTFUL
    few = [replace(run, surrogate=_blurred(run.surrogate), evaluations=None) for run in runs]
    alone = stack(few)
    assert alone.refined is None
    assert doubt(pool(few), alone.mixture, alone.weights, rng) > DOUBTFUL


def test_a_surrogate_that_errs_by_more_than_it_says_is_not_trusted(runs, plain):
    rng, pooled = np.random.default_rng(0), pool(runs)
    assert miscalibration(pooled) < MISCALIBRATED
    assert is_trusted(pooled, plain.mixture, plain.weights, rng)
    jumps = replace(pooled.data, values=pooled.data.values + rng.normal(0, 3, pooled.data.size))
    wrong = replace(pooled, data=jumps)
    assert miscalibration(wrong) > 10
    assert not is_trusted(wrong, plain.mixture, plain.weights, rng)


def test_a_stack_that_goes_where_the_surrogate_is_uncertain_has_strayed(runs, plain):
    mixture, rng = plain.mixture, np.random.default_rng(0)
    wide = replace(mixture, factors=5 * mixture.factors)
    before = mixture, plain.weights
    assert has_strayed(pool(runs), before, (wide, plain.weights), rng)
    assert not has_strayed(pool(runs), before, before, rng)


def test_an_elbo_above_the_log_evidence_is_not_believed(plain):
    before = plain.evidence
    pooled = before.from_pool
    assert not promises_too_much(before, before)
    above = replace(before, from_pool=replace(pooled, elbo=before.log_evidence + 10 * before.sd))
    assert promises_too_much(above, before)


def _blurred(surrogate):
    """As if every value had an error of a hundred nats."""
    return replace(surrogate, noise_variance=np.full_like(surrogate.noise_variance, 1e4))


def test_what_is_fitted_is_charged_for_its_variance(runs, plain):
    pooled = pool(runs)
    parts, charged = refined(pooled, plain.mixture, plain.weights, np.random.default_rng(0))
    mean, covariance = pooled.processes[0].integrate(parts.centres, parts.factors)
    assert len(pooled.processes) == 1
    assert np.all(charged < mean)
    np.testing.assert_allclose(mean - charged, CHARGE * np.diag(covariance), atol=1e-5)


def test_refinement_that_cannot_be_is_an_error_if_asked_for(runs):
    with pytest.raises(ValueError, match="refine=True needs weights='all'"):
        stack(runs, weights="runs", refine=True)
    with pytest.raises(ValueError, match="must be 'auto', True or False"):
        stack(runs, refine="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="several runs are not pooled"):
        stack(runs[:1], refine=True)
    assert stack(runs[:1]).refined is None
    assert stack(runs, weights="runs").refined is None
    assert gaussian_posterior(0.0).refined is None


def test_a_verified_stack_stays_refined(better):
    problem = PROBLEMS[BANANA]().problem()
    checked = verify(better, problem, 20, executor="here", progress=False)
    assert checked.passed
    assert checked.posterior.refined is not None
    assert checked.posterior.unrefined.evidence.verified is None


def test_settings_say_whether_to_refine(runs, plain):
    assert stacked(runs, StackSettings(refine=False)).refined is None
    assert StackSettings().refine == "auto"
    assert Mixture.from_runs(runs).n_runs == 2
    assert plain.mixture.naive_weights.sum() == pytest.approx(1.0)
