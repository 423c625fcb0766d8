"""The run's space: the plausible box scaled to unit width, and later whitened or turned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.problem import Problem
from vbstack.runs.transform import PROBIT, Link, Transform

_REACH = 2.5  # half the width of the box that is searched, in widths of the plausible box
_SMALLEST = 1e-3  # a parameter's plausible box is kept this share of its range away from a bound


def unit_box(problem: Problem) -> Transform:
    """The link of the hard bounds, then the plausible box to unit width; pyvbmc's default.

    pyvbmc has no link for one bound alone, the logarithm.
    """
    lower, upper = problem.lower_bounds, problem.upper_bounds
    link = Link.of_bounds(lower, upper)
    bounded = link.kinds == PROBIT
    span = np.where(bounded, upper - lower, 0.0)
    low, high = problem.plausible_lower_bounds, problem.plausible_upper_bounds
    with np.errstate(invalid="ignore"):
        ends_of_range = lower + _SMALLEST * span, upper - _SMALLEST * span
        low, high = (np.where(bounded, np.clip(x, *ends_of_range), x) for x in (low, high))
    empty = np.flatnonzero(low >= high)
    if empty.size:
        raise ValueError(
            f"the plausible box of {problem.names[int(empty[0])]} is within {_SMALLEST:.0e} of its "
            f"range from a hard bound; widen the box or narrow the hard bounds"
        )
    ends = link.forward(np.array([low, high]))
    d = problem.dimension
    return Transform(
        kinds=link.kinds,
        lower=lower,
        upper=upper,
        centre=ends.mean(axis=0),
        width=ends[1] - ends[0],
        scale=np.ones(d),
        rotation=np.eye(d),
    )


def within_reach(map_: Transform, points: Array) -> Array:
    """Points (n, D) of the run's space, moved into a box five times the plausible one."""
    to_box = (map_.rotation * map_.scale).T
    reach = np.clip(points @ to_box, -_REACH, _REACH)
    return np.asarray(np.linalg.solve(to_box.T, reach.T).T)


def whitened(map_: Transform, covariance: Array) -> Transform:
    """The space in which this covariance is a multiple of the identity, volume kept.

    With b = R (scale ∘ u) and cov(b) = U Λ Uᵀ the new rotation is U and the new scale ∝ √Λ.
    """
    old = map_.rotation * map_.scale
    return along(map_, np.linalg.eigh(old @ covariance @ old.T)[1], covariance)


def along(map_: Transform, rotation: Array, covariance: Array) -> Transform:
    """The space with these axes, in which this covariance has an equal diagonal, volume kept."""
    old = rotation.T @ (map_.rotation * map_.scale)
    values = np.diag(old @ covariance @ old.T)
    log_scale = 0.5 * np.log(np.maximum(values, 1e-12 * values.max()))
    log_scale += (np.log(map_.scale) - log_scale).mean()
    return replace(map_, rotation=rotation, scale=np.exp(log_scale))


def as_component(mean: Array, covariance: Array, old: Transform, new: Transform) -> DiagonalMixture:
    """A Gaussian of the old space as one component of the new; only its diagonal there is kept."""
    step = step_between(old, new)
    sds = np.sqrt(np.diag(step @ covariance @ step.T))
    return DiagonalMixture(np.ones(1), (step @ mean)[None], sds[None])


def mixture_in_space(mixture: DiagonalMixture, old: Transform, new: Transform) -> DiagonalMixture:
    """The mixture in the new space, its components' covariances reduced to their diagonals."""
    step = step_between(old, new)
    sds = np.sqrt(np.einsum("de,ke->kd", step**2, mixture.sds**2))
    return DiagonalMixture(mixture.weights, mixture.means @ step.T, sds)


def hyperparameters_in_space(h: Hyperparameters, old: Transform, new: Transform) -> Hyperparameters:
    """Hyperparameters for the new space: lengths and widths are those along its axes.

    Along axis i of the new space the old coordinates change by T_di, so 1/ℓ_i² = Σ_d (T_di/ℓ_d)².
    """
    back = step_between(new, old)

    def along_axes(log_lengths: Array) -> Array:
        return -0.5 * np.log(np.square(back / np.exp(log_lengths)[:, None]).sum(axis=0))

    return Hyperparameters(
        log_lengths=along_axes(h.log_lengths),
        log_output=h.log_output,
        height=h.height,
        centre=h.centre @ step_between(old, new).T,
        log_widths=along_axes(h.log_widths),
    )


def step_between(old: Transform, new: Transform) -> Array:
    """T (D, D) with u_new = T u_old; the two differ in rotation and scale only."""
    return np.asarray(np.linalg.solve(new.rotation * new.scale, old.rotation * old.scale))
