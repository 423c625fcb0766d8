"""`Transform`: one run's unconstrained space u ↔ the original space θ, and log-Jacobians.

A run's map has two parts. The *link* is the coordinate-wise, non-linear part and is the same for
every run of one problem. Parameter d becomes

    y_d = θ_d                           without hard bounds
    y_d = F⁻¹((θ_d − a)/(b − a))        between two; F is the logistic, normal or Student-t₄
                                        distribution function
    y_d = log(θ_d − a)                  above a lower bound alone
    y_d = −log(b − θ_d)                 below an upper bound alone

and increases with θ_d. The rest is affine and differs between runs:

    u = ((y − centre) / width) R / scale            y = centre + width ∘ (R (scale ∘ u))

So all runs that share a link are Gaussian mixtures in one common space, that of y.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from vbstack.arrays import Array

# The numbers of VBMC in MATLAB for the same maps; pyvbmc has all but the two logarithms.
UNBOUNDED, LOG_ABOVE, LOG_BELOW, LOGIT, PROBIT, STUDENT4 = 0, 1, 2, 3, 12, 13
_NAMES = {
    UNBOUNDED: "unbounded",
    LOG_ABOVE: "logarithm above a lower bound",
    LOG_BELOW: "logarithm below an upper bound",
    LOGIT: "logit",
    PROBIT: "probit",
    STUDENT4: "student4",
}
_SIGNS = {LOG_ABOVE: 1.0, LOG_BELOW: -1.0}  # θ = bound + sign · exp(sign · y)
_LARGEST_EXPONENT = 709.0  # its exponential is a number yet
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

    @classmethod
    def of_bounds(cls, lower: Array, upper: Array) -> Link:
        """The link that runs have for these hard bounds: probit between two, else a logarithm."""
        above, below = np.isfinite(lower), np.isfinite(upper)
        kinds = np.select(
            [above & below, above, below], [PROBIT, LOG_ABOVE, LOG_BELOW], default=UNBOUNDED
        )
        return cls(kinds.astype(np.int64), lower, upper)

    @property
    def dimension(self) -> int:
        return int(self.kinds.size)

    @property
    def signs(self) -> Array:
        """+1 (D,) where a parameter has a lower bound alone, −1 an upper one alone, else 0."""
        return (self.kinds == LOG_ABOVE) * 1.0 - (self.kinds == LOG_BELOW) * 1.0

    @property
    def logarithms(self) -> Link:
        """Its logarithms alone: the identity for all parameters that have not exactly one bound."""
        return replace(self, kinds=np.where(self.signs != 0, self.kinds, UNBOUNDED))

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
        for kind in self._kinds_among(_QUANTILE):
            d = self.kinds == kind
            y[:, d] = _QUANTILE[kind](_to_unit(y[:, d], self.lower[d], self.upper[d]))
        for kind in self._kinds_among(_SIGNS):
            d, sign = self.kinds == kind, _SIGNS[kind]
            with np.errstate(divide="ignore", invalid="ignore"):
                y[:, d] = sign * np.log(sign * (y[:, d] - self._one_bound(kind)))
        return y

    def inverse(self, y: Array) -> Array:
        """θ (n, D), strictly within the bounds even where y is far out in a tail."""
        x = np.array(y, dtype=float)
        for kind in self._kinds_among(_DISTRIBUTION):
            d = self.kinds == kind
            a, b = self.lower[d], self.upper[d]
            x[:, d] = a + _DISTRIBUTION[kind](x[:, d]) * (b - a)
        for kind in self._kinds_among(_SIGNS):
            d, sign = self.kinds == kind, _SIGNS[kind]
            away = np.exp(np.minimum(sign * x[:, d], _LARGEST_EXPONENT))
            x[:, d] = self._one_bound(kind) + sign * away
        d = self.kinds != UNBOUNDED
        ends = np.nextafter(self.lower[d], np.inf), np.nextafter(self.upper[d], -np.inf)
        x[:, d] = np.clip(x[:, d], *ends)
        return x

    def log_jacobian(self, y: Array) -> Array:
        """log |det ∂θ/∂y| at each row of y (n, D)."""
        total = np.zeros(len(y))
        for d in np.flatnonzero(self.kinds):
            total += self._log_slope(int(d), y[:, d])
        return total

    def expected_log_jacobian(self, means: Array, variances: Array) -> Array:
        """E[log |det ∂θ/∂y|] for Gaussians with these marginal means and variances (K, D).

        One-dimensional integrals, because the link acts on each coordinate alone; no Monte Carlo.
        """
        total = np.zeros(len(means))
        for d in np.flatnonzero(self.kinds):
            y = means[:, d, None] + np.sqrt(variances[:, d, None]) * _NODES
            total += self._log_slope(int(d), y) @ _NODE_WEIGHTS
        return total

    def _kinds_among(self, these: Container[int]) -> list[int]:
        return [int(kind) for kind in np.unique(self.kinds) if int(kind) in these]

    def _one_bound(self, kind: int) -> Array:
        """The bounds of the parameters that have one alone, on this side."""
        return (self.lower if kind == LOG_ABOVE else self.upper)[self.kinds == kind]

    def _log_slope(self, d: int, y: Array) -> Array:
        """log |dθ_d/dy_d| at values y of any shape."""
        kind = int(self.kinds[d])
        if kind in _SIGNS:
            return _SIGNS[kind] * y
        return np.asarray(_LOG_DENSITY[kind](y) + np.log(self.upper[d] - self.lower[d]))


@dataclass(frozen=True)
class Transform:
    """One run's map between the original space and its own, as plain arrays.

    Parameters
    ----------
    kinds : (D,) integers
        0 unbounded, 1 logarithm above a lower bound, 2 logarithm below an upper bound, 3 logit, 12
        probit, 13 Student-t with four degrees of freedom.
    lower, upper : (D,)
        Hard bounds; −inf and +inf where there are none.
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
        with np.errstate(invalid="ignore"):
            kinds = np.asarray(self.kinds).astype(np.int64).ravel()
        if not np.array_equal(kinds, np.ravel(self.kinds)):
            raise ValueError(f"transform: kinds {self.kinds} are not whole numbers")
        object.__setattr__(self, "kinds", kinds)
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
        has_lower = ~np.isin(self.kinds, (UNBOUNDED, LOG_BELOW))
        has_upper = ~np.isin(self.kinds, (UNBOUNDED, LOG_ABOVE))
        fits = (np.isfinite(self.lower) == has_lower) & (np.isfinite(self.upper) == has_upper)
        fits &= self.lower < self.upper
        if not fits.all():
            raise ValueError(
                f"transform: kinds {self.kinds.tolist()} do not fit the bounds "
                f"{self.lower.tolist()} to {self.upper.tolist()}: a logarithm needs its one bound, "
                "an unbounded kind none, and the others two, lower below upper"
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
