"""Component densities, draws and the reference, against pyvbmc and SciPy."""

import numpy as np
import pytest
from pyvbmc.parameter_transformer import ParameterTransformer
from pyvbmc.variational_posterior import VariationalPosterior
from scipy.stats import multivariate_normal, ortho_group

from tests.synthetic import make_run, random_mixture
from vbstack import Mixture, Run, stack
from vbstack.stacking.draws import draw


def posterior(kind, *, bounded, rotated, seed=0, k=4, d=3):
    rng = np.random.default_rng(seed)
    lower, upper = np.full((1, d), -np.inf), np.full((1, d), np.inf)
    if bounded:
        lower[0, 1:], upper[0, 1:] = [-2.0, 0.0], [3.0, 50.0]
    plausible = np.array([[-1.0, -1.0, 1.0]]), np.array([[2.0, 2.0, 30.0]])
    rotation = ortho_group.rvs(d, random_state=seed) if rotated else None
    scale = rng.uniform(0.3, 3, d) if rotated else None
    map_ = ParameterTransformer(
        d, lower, upper, *plausible, scale=scale, rotation_matrix=rotation, transform_type=kind
    )
    vp = VariationalPosterior(d, k, parameter_transformer=map_, rng=seed)
    vp.w = rng.dirichlet(np.ones(k))[None]
    vp.mu, vp.sigma = rng.normal(0, 0.3, (d, k)), rng.uniform(0.05, 0.4, (1, k))
    vp.lambd = rng.uniform(0.5, 2, (d, 1))
    vp.stats = {
        "elbo": 0.0,
        "elbo_sd": 0.01,
        "stable": True,
        "I_sk": rng.normal(0, 0.1, (2, k)),
        "J_sjk": np.tile(1e-4 * np.eye(k), (2, 1, 1)),
    }
    return vp


@pytest.mark.parametrize("kind", ["logit", "probit", "student4"])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("rotated", [False, True])
def test_log_pdf_of_a_naive_stack_of_one_run_equals_pyvbmc(kind, bounded, rotated):
    vp = posterior(kind, bounded=bounded, rotated=rotated)
    x, _ = vp.sample(300)
    stacked = stack([Run.from_pyvbmc(vp)], weights="naive")
    theirs = np.ravel(vp.log_pdf(x, orig_flag=True))
    np.testing.assert_allclose(stacked.log_pdf(x), theirs, rtol=1e-9, atol=1e-9)


def test_runs_with_different_links_are_evaluated_in_the_original_space():
    vps = [posterior(kind, bounded=True, rotated=True, seed=s) for s, kind in enumerate(
        ["logit", "probit", "student4"])]  # fmt: skip
    mixture = Mixture.from_runs([Run.from_pyvbmc(vp) for vp in vps])
    assert len(mixture.links) == 3
    x, _ = vps[1].sample(50)
    theirs = [np.ravel(vp.log_pdf(x, orig_flag=True)) for vp in vps]
    expected = np.log(np.mean(np.exp(theirs), axis=0))
    np.testing.assert_allclose(mixture.log_density(x, mixture.naive_weights), expected, rtol=1e-9)
    assert stack([Run.from_pyvbmc(vp) for vp in vps]).solution.status == "certified"


def test_blocks_hold_the_densities_relative_to_the_reference():
    """Each draw is recovered from its own z, and every density compared with SciPy's."""
    mixture, _ = random_mixture(1, 3)
    counts = np.full(mixture.size, 16)
    points = []
    place = mixture.points

    def remember(component, z):
        points.append(place(component, z))
        return points[-1]

    object.__setattr__(mixture, "points", remember)
    assert mixture._reference is not None
    mean, inverse = mixture._reference
    reference = multivariate_normal(mean, np.linalg.inv(inverse.T @ inverse))
    for block in draw(mixture, counts, np.random.default_rng(0)):
        y = points[-1]
        for column, j in enumerate(block.columns):
            factor = mixture.factors[j]
            component = multivariate_normal(mixture.centres[j], factor @ factor.T)
            expected = component.logpdf(y) - reference.logpdf(y)
            np.testing.assert_allclose(block.log_densities[:, column], expected, atol=1e-3)


def test_expected_log_reference_is_exact():
    """reward + E_j[log ref] = log_joint, with E_j by Monte Carlo."""
    mixture, log_joint = random_mixture(2, 3)
    rng = np.random.default_rng(0)
    assert mixture._reference is not None
    mean, inverse = mixture._reference
    covariance = np.linalg.inv(inverse.T @ inverse)
    for j in (0, 7, 19):
        y = mixture.centres[j] + rng.standard_normal((200_000, 3)) @ mixture.factors[j].T
        values = multivariate_normal(mean, covariance).logpdf(y)
        expected = log_joint[j] - values.mean()
        assert mixture.rewards(log_joint)[j] == pytest.approx(
            expected, abs=4 * values.std() / np.sqrt(200_000)
        )


@pytest.mark.parametrize("quasi", [True, False])
def test_draws_follow_their_components(quasi):
    """Moments of the draws: recovered from each block's densities under its own component."""
    run = make_run([[0.0, 0.0], [50.0, 0.0]], [[1.0, 2.0], [0.5, 0.1]], 0.0)
    mixture = Mixture.from_runs([run])
    counts = np.array([4096, 0])
    blocks = list(draw(mixture, counts, np.random.default_rng(1), quasi=quasi))
    assert {int(s) for block in blocks for s in np.unique(block.sources)} == {0}
    own = np.concatenate([b.log_densities[:, 0] for b in blocks])
    # log p_0 − log ref has expectation −h_0 − E_0[log ref] = reward_0 − (h_0 + log_joint).
    expected = mixture.rewards(np.zeros(2))[0] - (np.log(2.0) + 1 + np.log(2 * np.pi))
    assert own.mean() == pytest.approx(expected, abs=0.08 if not quasi else 0.02)


def test_far_components_are_left_out_and_nothing_else():
    run = make_run([[0.0, 0.0], [0.5, 0.5], [500.0, 0.0]], 1.0, 0.0)
    mixture = Mixture.from_runs([run])
    (block,) = draw(mixture, np.array([64, 0, 0]), np.random.default_rng(0))
    assert block.columns.tolist() == [0, 1]


def test_narrow_component_inside_a_wide_block_is_evaluated_in_double_precision():
    run = make_run([[0.0], [0.3]], [[1.0], [1e-6]], 0.0)
    mixture = Mixture.from_runs([run])
    (block,) = draw(mixture, np.array([64, 64]), np.random.default_rng(0))
    assert block.log_densities.dtype == np.float64
    own = block.log_densities[block.sources == 1, 1]
    assert own.max() - own.min() < 15  # χ² of the draws, not rounding noise


def test_sample_has_the_mixture_moments():
    mixture, _ = random_mixture(3, 2)
    x = mixture.sample(mixture.naive_weights, 100_000, np.random.default_rng(0))
    mean = mixture.naive_weights @ mixture.centres
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=4 * x.std() / np.sqrt(1e5))
