"""Quadratic functions and moments of points by features."""

import numpy as np

from vbstack.numerics.quadratics import coefficients, features, moments


def test_quadratics_and_moments_are_those_written_out():
    rng = np.random.default_rng(0)
    x, centres, heights = rng.normal(size=(20, 3)), rng.normal(size=(2, 3)), np.array([1.0, -2.0])
    root = rng.normal(size=(2, 3, 3))
    precisions = root @ root.transpose(0, 2, 1)
    away = x[None] - centres[:, None]
    written = heights[:, None] - 0.5 * np.einsum("knd,kde,kne->kn", away, precisions, away)
    np.testing.assert_allclose(coefficients(heights, centres, precisions) @ features(x).T, written)
    shares = rng.random((2, 20))
    total, first, second = moments(shares @ features(x), centres)
    np.testing.assert_allclose(total, shares.sum(axis=1))
    np.testing.assert_allclose(first, np.einsum("kn,knd->kd", shares, away), atol=1e-12)
    np.testing.assert_allclose(second, np.einsum("kn,knd,kne->kde", shares, away, away), atol=1e-12)
