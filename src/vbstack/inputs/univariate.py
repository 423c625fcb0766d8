"""Univariate distributions as priors: what they must be able to do, and whether they are densities.

A distribution is judged by what SciPy's frozen ones have: logpdf, cdf, ppf (or icdf) and support.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import quad

from vbstack.arrays import Array
from vbstack.calling import shown

_BULK = (0.05, 0.95)  # quantiles between which the density is integrated
_CELLS = 40  # of equal probability, between them: so steep densities need no adaptive rule
_FAR = 5.0  # widths of the bulk beyond it, in which the rest of the mass must not be exceeded
# Of the mass. Log evidences are told apart to about 0.02 nats; a density that is not normalised is
# mostly wrong by far more, and one with steps is integrated to about 0.005.
_TOLERANCE = 0.02


class NotADensity(ValueError):
    """A distribution that cannot be a prior; the message goes on after its name."""


def is_univariate(law: Any) -> bool:
    """Whether this is a continuous distribution of one number, frozen or not."""
    return (
        all(callable(getattr(law, name, None)) for name in ("logpdf", "cdf", "support"))
        and _quantile_function(law) is not None
        and not isinstance(law, type)
    )


def why_no_law(law: Any) -> str:
    """Why this is no univariate distribution, for an error."""
    if isinstance(law, type):
        return f"the class {law.__name__}, not a distribution with its parameters"
    if hasattr(law, "pmf"):
        return "a discrete distribution; parameters are continuous"
    return f"{shown(law)}, not a frozen univariate distribution such as scipy.stats.norm(0, 1)"


def frozen(law: Any) -> Any:
    """The distribution with its parameters; SciPy's families without a shape are standard ones."""
    if not callable(getattr(law, "freeze", None)):
        return law
    if law.numargs:
        raise NotADensity(
            f"is the family {law.name!r} without its parameters; freeze it: "
            f"{law.name}({law.shapes}, loc=…, scale=…)"
        )
    return law.freeze()


def support_of(law: Any) -> tuple[float, float]:
    """The ends of its support."""
    low, high = law.support()
    return float(np.reshape(low, ())), float(np.reshape(high, ()))


def quantiles(law: Any, shares: Any) -> Array:
    """Its quantiles at these probabilities."""
    function = _quantile_function(law)
    return np.asarray(function(np.asarray(shares)), dtype=float)


def mass_between(law: Any, low: float, high: float) -> float:
    """Its probability between two points."""
    return float(np.reshape(law.cdf(high), ())) - float(np.reshape(law.cdf(low), ()))


def check_density(law: Any) -> None:
    """A `NotADensity` that says what is wrong unless this is a normalised density."""
    if np.size(law.support()[0]) != 1:
        raise NotADensity("has arrays as parameters; give one distribution per parameter")
    low, high = support_of(law)
    if not low < high:
        raise NotADensity(f"has the support [{low}, {high}]; check its parameters")
    _check_total(law, low, high)
    edges = quantiles(law, np.linspace(*_BULK, _CELLS + 1))
    if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise NotADensity(f"has the quantiles {edges[[0, _CELLS // 2, -1]]}; check its parameters")
    if edges[0] < low or edges[-1] > high:
        raise NotADensity(f"has quantiles outside its support [{low}, {high}]")
    far = _FAR * (edges[-1] - edges[0])
    above = _integral(law, np.linspace(edges[-1], min(high, edges[-1] + far), _CELLS))
    below = _integral(law, np.linspace(max(low, edges[0] - far), edges[0], _CELLS))
    inside = _integral(law, edges)
    wanted = _BULK[1] - _BULK[0]
    if not abs(inside - wanted) <= _TOLERANCE:
        raise NotADensity(
            f"is not a normalised density: it integrates to {inside:.3g} between its quantiles at "
            f"{_BULK[0]:.0%} and {_BULK[1]:.0%}, where {wanted:.3g} is expected"
        )
    if max(above, below) > _BULK[0] + _TOLERANCE:
        raise NotADensity(
            f"is not a normalised density: beyond its quantiles at {_BULK[0]:.0%} and "
            f"{_BULK[1]:.0%} it integrates to {max(above, below):.3g}; a periodic density needs a "
            "support of one period (scipy.stats.vonmises_line)"
        )


def _check_total(law: Any, low: float, high: float) -> None:
    """An error if a distribution of the user's own does not integrate to one.

    SciPy has no quantiles of such a one, and would look for them without an end.
    """
    family = getattr(law, "dist", None)
    if family is None or type(family).__module__.startswith("scipy."):
        return
    _, loc, scale = family._parse_args(*law.args, **law.kwds)
    steps = np.array([-np.inf, -10.0, -1.0, 0.0, 1.0, 10.0, np.inf])
    edges = np.unique(np.clip(loc + scale * steps, low, high))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # whether it converged is seen in the total
        parts = [
            quad(lambda x: float(np.exp(law.logpdf(x))), *pair, limit=200)[0]
            for pair in pairwise(edges)
        ]
    if not abs(sum(parts) - 1.0) <= _TOLERANCE:
        raise NotADensity(
            f"is not a normalised density: it integrates to {sum(parts):.3g} over its support "
            f"[{low:g}, {high:g}]"
        )


def _integral(law: Any, edges: Array) -> float:
    """∫ exp(logpdf) over the cells between these edges, by eight Gauss–Legendre nodes each."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    halves = np.diff(edges) / 2
    x = edges[:-1, None] + halves[:, None] * (1 + nodes)
    with np.errstate(all="ignore"):
        return float(halves @ (np.exp(law.logpdf(x.ravel())).reshape(x.shape) @ weights))


def _quantile_function(law: Any) -> Any:
    return next(
        (f for f in (getattr(law, name, None) for name in ("ppf", "icdf")) if callable(f)), None
    )
