"""`Transform`: one run's unconstrained space u ↔ the original space θ, and log-Jacobians.

A run's map has two parts. The *link* is the coordinate-wise, non-linear part and is the same for
every run of one problem: y_d = θ_d where parameter d is unbounded, and y_d = F⁻¹((θ_d − a)/(b − a))
where it has hard bounds (a, b); F is the logistic, normal or Student-t₄ distribution function.
The rest is affine and differs between runs:

    u = ((y − centre) / width) R / scale            y = centre + width ∘ (R (scale ∘ u))

So all runs that share a link are Gaussian mixtures in one common space, that of y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from vbstack.arrays import Array

UNBOUNDED, LOGIT, PROBIT, STUDENT4 = 0, 3, 12, 13  # pyvbmc's numbers for the same maps
_NAMES = {UNBOUNDED: "unbounded", LOGIT: "logit", PROBIT: "probit", STUDENT4: "student4"}
_LOG_2PI = float(np.log(2 * np.pi))

# Trapezoid nodes for E f(Y), Y Gaussian. The integrands are analytic in a strip, so the error falls
# like exp(−2π·strip/h): below 1e-12 for standard deviations up to 7 of the link's own scale.
_NODES = np.linspace(-9.0, 9.0, 289)
_NODE_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


@dataclass(frozen=True)
class Link:
    """The coordinate-wise map θ ↔ y, with its log-Jacobian log |dθ/dy|."""

    kinds: NDArray[np.int64]
    lower: Array
    upper: Array

    @property
    def dimension(self) -> int:
        return int(self.kinds.size)

    @property
    def is_identity(self) -> bool:
        return not self.kinds.any()

    def same_as(self, other: Link) -> bool:
        """True when both maps are equal, bounds included."""
        return (
            np.array_equal(self.kinds, other.kinds)
            and np.array_equal(self.lower, other.lower)
            and np.array_equal(self.upper, other.upper)
        )

    def inside(self, x: Array) -> NDArray[np.bool_]:
        """True for the rows of x (n, D) that lie strictly within the hard bounds."""
        return np.all((x > self.lower) & (x < self.upper) & np.isfinite(x), axis=1)

    def forward(self, x: Array) -> Array:
        """y (n, D) for points x (n, D) within the bounds; ±inf on a bound."""
        y = np.array(x, dtype=float)
        for kind in self._bounded_kinds():
            d = self.kinds == kind
            y[:, d] = _QUANTILE[kind](_to_unit(y[:, d], self.lower[d], self.upper[d]))
        return y

    def inverse(self, y: Array) -> Array:
        """θ (n, D), strictly within the bounds even where y is far out in a tail."""
        x = np.array(y, dtype=float)
        for kind in self._bounded_kinds():
            d = self.kinds == kind
            a, b = self.lower[d], self.upper[d]
            x[:, d] = a + _DISTRIBUTION[kind](x[:, d]) * (b - a)
            x[:, d] = np.clip(x[:, d], np.nextafter(a, np.inf), np.nextafter(b, -np.inf))
        return x

    def log_jacobian(self, y: Array) -> Array:
        """log |det ∂θ/∂y| at each row of y (n, D)."""
        total = np.zeros(len(y))
        for d in np.flatnonzero(self.kinds):
            total += _LOG_DENSITY[int(self.kinds[d])](y[:, d]) + self._log_range(int(d))
        return total

    def expected_log_jacobian(self, means: Array, variances: Array) -> Array:
        """E[log |det ∂θ/∂y|] for Gaussians with these marginal means and variances (K, D).

        One-dimensional integrals, because the link acts on each coordinate alone; no Monte Carlo.
        """
        total = np.zeros(len(means))
        for d in np.flatnonzero(self.kinds):
            y = means[:, d, None] + np.sqrt(variances[:, d, None]) * _NODES
            total += _LOG_DENSITY[int(self.kinds[d])](y) @ _NODE_WEIGHTS + self._log_range(int(d))
        return total

    def _bounded_kinds(self) -> list[int]:
        return [int(kind) for kind in np.unique(self.kinds) if kind != UNBOUNDED]

    def _log_range(self, d: int) -> float:
        return float(np.log(self.upper[d] - self.lower[d]))


@dataclass(frozen=True)
class Transform:
    """One run's map between the original space and its own, as plain arrays.

    Parameters
    ----------
    kinds : (D,) integers
        0 unbounded, 3 logit, 12 probit, 13 Student-t with four degrees of freedom.
    lower, upper : (D,)
        Hard bounds; −inf and +inf where `kinds` is 0.
    centre, width, scale : (D,)
        The affine part; `width` and `scale` are positive.
    rotation : (D, D)
        An orthogonal matrix.
    """

    kinds: NDArray[np.int64]
    lower: Array
    upper: Array
    centre: Array
    width: Array
    scale: Array
    rotation: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", np.asarray(self.kinds).astype(np.int64).ravel())
        size = self.kinds.size
        shapes = dict.fromkeys(("lower", "upper", "centre", "width", "scale"), (size,))
        for name, shape in {**shapes, "rotation": (size, size)}.items():
            value = np.array(getattr(self, name), dtype=float)
            if value.shape != shape:
                raise ValueError(f"transform: {name} has shape {value.shape}, expected {shape}")
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        self._check_values()

    def _check_values(self) -> None:
        unknown = set(np.unique(self.kinds).tolist()) - set(_NAMES)
        if unknown:
            raise ValueError(f"transform: unknown kinds {sorted(unknown)}; known are {_NAMES}")
        for name in ("centre", "width", "scale", "rotation"):
            if not np.all(np.isfinite(getattr(self, name))):
                raise ValueError(f"transform: {name} is not finite: {getattr(self, name)}")
        if np.any(self.width <= 0) or np.any(self.scale <= 0):
            raise ValueError(
                f"transform: width {self.width} and scale {self.scale} must be positive"
            )
        bounded = self.kinds != UNBOUNDED
        finite = np.isfinite(self.lower) & np.isfinite(self.upper)
        infinite = np.isneginf(self.lower) & np.isposinf(self.upper)
        fits = np.where(bounded, finite & (self.lower < self.upper), infinite)
        if not fits.all():
            raise ValueError(
                f"transform: kinds {self.kinds.tolist()} do not fit the bounds "
                f"{self.lower.tolist()} to {self.upper.tolist()}: a bounded kind needs finite "
                "bounds, lower below upper, and an unbounded one has none"
            )
        if not np.allclose(self.rotation.T @ self.rotation, np.eye(self.dimension), atol=1e-9):
            raise ValueError("transform: rotation is not orthogonal")

    @property
    def dimension(self) -> int:
        return int(self.kinds.size)

    @property
    def link(self) -> Link:
        return Link(self.kinds, self.lower, self.upper)

    @property
    def matrix(self) -> Array:
        """A (D, D) with y = centre + A u."""
        return self.width[:, None] * self.rotation * self.scale

    @property
    def log_volume(self) -> float:
        """log |det A|, the affine part of the log-Jacobian."""
        return float(np.log(self.width).sum() + np.log(self.scale).sum())

    def inside(self, x: Array) -> NDArray[np.bool_]:
        """True for the rows of x (n, D) that lie strictly within the hard bounds."""
        return self.link.inside(x)

    def forward(self, x: Array) -> Array:
        """u (n, D) in the run's space for points x (n, D) in the original space."""
        y = self.link.forward(np.atleast_2d(x))
        return ((y - self.centre) / self.width) @ self.rotation / self.scale

    def inverse(self, u: Array) -> Array:
        """θ (n, D) in the original space for points u (n, D) in the run's space."""
        return self.link.inverse(self._to_link(np.atleast_2d(u)))

    def log_jacobian(self, u: Array) -> Array:
        """log J(u) = log |det ∂θ/∂u| at each row of u (n, D)."""
        return self.link.log_jacobian(self._to_link(np.atleast_2d(u))) + self.log_volume

    def _to_link(self, u: Array) -> Array:
        return self.centre + self.width * ((u * self.scale) @ self.rotation.T)


def _to_unit(x: Array, lower: Array, upper: Array) -> Array:
    """(x − a)/(b − a), kept off 0 and 1 by one step for points that are not on a bound."""
    z = (x - lower) / (upper - lower)
    z = np.where((z == 0) & (x != lower), np.nextafter(0, 1), z)
    return np.where((z == 1) & (x != upper), np.nextafter(1, 0), z)


def _student4_quantile(z: Array) -> Array:
    """Closed-form quantile of Student's t with four degrees of freedom."""
    a = np.sqrt(4 * z * (1 - z))
    with np.errstate(divide="ignore"):
        q = np.where(a > 0, np.cos(np.arccos(np.minimum(a, 1)) / 3) / a, np.inf)
    return np.sign(z - 0.5) * 2 * np.sqrt(q - 1)


def _student4_distribution(y: Array) -> Array:
    s = 1 + y**2 / 4
    return 0.5 + 0.375 * (y / np.sqrt(s)) * (1 - y**2 / s / 12)


def _logit_log_density(y: Array) -> Array:
    return -np.abs(y) - 2 * np.log1p(np.exp(-np.abs(y)))


def _probit_log_density(y: Array) -> Array:
    return -0.5 * (_LOG_2PI + y**2)


def _student4_log_density(y: Array) -> Array:
    return np.log(0.375) - 2.5 * np.log1p(y**2 / 4)


_QUANTILE = {LOGIT: logit, PROBIT: ndtri, STUDENT4: _student4_quantile}
_DISTRIBUTION = {LOGIT: expit, PROBIT: ndtr, STUDENT4: _student4_distribution}
_LOG_DENSITY = {
    LOGIT: _logit_log_density,
    PROBIT: _probit_log_density,
    STUDENT4: _student4_log_density,
}
