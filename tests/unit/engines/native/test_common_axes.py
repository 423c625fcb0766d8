"""Axes along which all components are as wide as they can be."""

import numpy as np

from vbstack.engines.native import common_axes


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
