"""A mixture of diagonal Gaussians: density, moments, draws."""

import numpy as np
from scipy.stats import multivariate_normal, norm

from vbstack.engines.native.diagonal_mixture import DiagonalMixture, log_components


def test_the_density_is_the_weighted_sum_of_its_components(mixture):
    x = np.random.default_rng(0).normal(size=(9, 2))
    parts = zip(mixture.weights, mixture.means, mixture.sds, strict=True)
    expected = sum(w * multivariate_normal(m, np.diag(s**2)).pdf(x) for w, m, s in parts)
    np.testing.assert_allclose(np.exp(mixture.log_density(x)), expected, rtol=1e-10)


def test_log_components_stay_exact_far_from_the_origin_and_in_the_tails():
    means, sds = np.array([[1e6, -1e6], [1e6 + 1, -1e6]]), np.array([[0.5, 2.0], [1.0, 0.1]])
    x = means[0] + np.array([[0.3, -0.4], [40.0, 30.0]])
    expected = norm(means[:, None], sds[:, None]).logpdf(x).sum(axis=-1)
    np.testing.assert_allclose(log_components(x, means, sds), expected, rtol=1e-8)


def test_far_away_the_log_density_is_finite():
    mixture = DiagonalMixture(np.full(2, 0.5), np.zeros((2, 2)), np.ones((2, 2)))
    far = mixture.log_density(np.array([[1e3, 0.0]]))
    np.testing.assert_allclose(far, -0.5e6 - np.log(2 * np.pi))


def test_draws_have_the_moments_and_inflated_ones_wider_components(mixture):
    """Within five standard errors of twenty thousand draws."""
    mean, covariance = mixture.moments()
    between = covariance - np.diag(mixture.weights @ mixture.sds**2)
    for inflation in (1.0, 3.0):
        x = mixture.draws(20_000, np.random.default_rng(1), inflation)
        expected = between + inflation**2 * np.diag(mixture.weights @ mixture.sds**2)
        spread = np.sqrt(np.diag(expected))
        np.testing.assert_allclose((x.mean(axis=0) - mean) / spread, 0, atol=0.036)
        found = np.cov(x.T) / np.outer(spread, spread)
        np.testing.assert_allclose(found, expected / np.outer(spread, spread), atol=0.07)
