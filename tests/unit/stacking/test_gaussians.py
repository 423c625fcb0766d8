"""Merging and splitting of Gaussians keep moments."""

import numpy as np
import pytest

from tests.unit.gaussian_process.examples import gaussians
from vbstack.stacking.gaussians import Gaussians, merged


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return Gaussians(rng.dirichlet(np.ones(6)), *gaussians(6))


def moments(parts):
    mean = parts.weights @ parts.centres
    away = parts.centres - mean
    inner = parts.covariances + away[:, :, None] * away[:, None, :]
    return np.r_[mean, np.einsum("k,kde->de", parts.weights, inner).ravel()]


def test_merging_keeps_the_moments_of_the_whole(parts):
    for size in (5, 2, 1):
        fewer = merged(parts, size)
        assert fewer.size == size
        np.testing.assert_allclose(moments(fewer), moments(parts), atol=1e-12)


def test_merging_joins_what_is_alike():
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.1, 0.0]])
    parts = Gaussians(np.full(3, 1 / 3), centres, np.tile(np.eye(2), (3, 1, 1)))
    fewer = merged(parts, 2)
    np.testing.assert_allclose(np.sort(fewer.centres[:, 0]), [0.05, 5.0])


def test_merging_to_more_changes_nothing(parts):
    assert merged(parts, 10).size == 6


def test_splitting_keeps_the_moments_of_the_whole(parts):
    directions = np.array([[1.0, 0.0], [0.6, 0.8]])
    more = parts.split(np.array([0, 3]), directions)
    assert more.size == 8
    np.testing.assert_allclose(moments(more), moments(parts), atol=1e-12)
