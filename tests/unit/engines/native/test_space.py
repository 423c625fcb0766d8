"""Maps between spaces, and what moves with them."""

import numpy as np
import pytest

from tests.small_problems import gaussian_problem
from vbstack import Problem
from vbstack.engines.native import space
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.kernel import kernel
from vbstack.runs.pyvbmc_objects import read_transform


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
    moved = space.mixture_in_space(mixture, old, new)
    np.testing.assert_allclose(moved.moments()[0], mixture.moments()[0] @ step.T, atol=1e-12)
    mean, variances = mixture.moments()
    one = space.as_component(mean, variances, old, new)
    np.testing.assert_allclose(one.moments()[0], moved.moments()[0], atol=1e-12)
    np.testing.assert_allclose(one.moments()[1], covariance, atol=1e-12)
    for before, after in zip(mixture.sds, moved.sds, strict=True):
        expected = np.diag(step @ np.diag(before**2) @ step.T)
        np.testing.assert_allclose(after**2, expected, rtol=1e-12)


def test_hyperparameters_move_with_the_space(mixture):
    old = space.unit_box(gaussian_problem(2))
    new = space.whitened(old, mixture.moments()[1])
    h = Hyperparameters(
        log_lengths=np.array([-1.0, 0.3]),
        log_output=1.2,
        height=-2.0,
        centre=np.array([0.1, -0.3]),
        log_widths=np.array([-0.5, 0.8]),
    )
    moved = space.hyperparameters_in_space(h, old, new)
    back = space.step_between(new, old)
    for axis in np.eye(2):  # along each new axis the kernel is the old one
        near, far = (axis[None] * t for t in (0.0, 0.4))
        expected = kernel(h, near @ back.T, far @ back.T)
        np.testing.assert_allclose(kernel(moved, near, far), expected)
        np.testing.assert_allclose(
            moved.mean(moved.centre + far), h.mean((moved.centre + far) @ back.T)
        )
    centre = moved.centre[None]
    np.testing.assert_allclose(moved.mean(centre), h.mean(centre @ back.T))


def test_points_out_of_reach_are_moved_into_the_box(mixture):
    problem = Problem(
        log_density=len, plausible_lower_bounds=[-1, -4], plausible_upper_bounds=[1, 6]
    )
    map_ = space.whitened(space.unit_box(problem), mixture.moments()[1])
    moved = map_.inverse(space.within_reach(map_, np.array([[1e6, -1e6], [0.01, 0.02]])))
    assert (np.abs(moved[0] - [0, 1]) <= [5.0 + 1e-9, 25.0 + 1e-9]).all()
    np.testing.assert_allclose(moved[1], map_.inverse(np.array([[0.01, 0.02]]))[0])
