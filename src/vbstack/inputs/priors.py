"""Priors as users give them, made into one object with a log density, and judged.

Independent parameters (a list, a dict by name, or one univariate distribution for all) become an
`IndependentPrior`, whose supports and quantiles are known. Anything else with a log density, or
that is called for it, stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from vbstack.arrays import Array
from vbstack.calling import interruptible, log_prior_at, number, shown, text_of
from vbstack.inputs.bounds import Bounds, read_only
from vbstack.inputs.univariate import (
    NotADensity,
    check_density,
    frozen,
    is_univariate,
    mass_between,
    quantiles,
    support_of,
    why_no_law,
)

# Plausible bounds are the central 90 % of the prior. Against 68 % that saved a tenth to a fifth of
# the evaluations where the likelihood is as wide as the prior, and cost up to a sixth where it is
# narrower; log evidences were the same within their errors (`python -m benchmarks bounds`).
CENTRAL = (0.05, 0.95)
# Mass of a prior that hard bounds may cut off: it is missing in the log evidence, one in a thousand
# is 0.001 nats, less than a stack can resolve.
_LOST = 0.001
_ENOUGH, _TRIES = (
    3,
    200,
)  # plausible points at which a prior is called; at most, until one is finite
_SIZES = ("dim", "D", "dimension")  # where objects with a log density say for how many parameters


@dataclass(frozen=True, eq=False)
class IndependentPrior:
    """The prior of independent parameters.

    Parameters
    ----------
    laws : tuple of D frozen univariate distributions
    """

    laws: tuple[Any, ...]

    def log_pdf(self, x: Array) -> float:
        """The sum of the log densities at a point (D,)."""
        return float(
            sum(number(law.logpdf(value)) for law, value in zip(self.laws, x, strict=True))
        )

    @property
    def support(self) -> tuple[Array, Array]:
        """The ends (D,) of the supports."""
        low, high = zip(*map(support_of, self.laws), strict=True)
        return np.array(low), np.array(high)

    def quantile(self, share: float) -> Array:
        """The quantiles (D,) at this probability."""
        return np.array([float(np.reshape(quantiles(law, share), ())) for law in self.laws])

    def without(self, places: Iterable[int]) -> IndependentPrior:
        """The prior of the other parameters."""
        left = set(range(len(self.laws))) - set(places)
        return IndependentPrior(tuple(self.laws[place] for place in sorted(left)))


def size_of(prior: Any) -> int | None:
    """For how many parameters a prior is; None where it does not say."""
    if isinstance(prior, type):
        return None
    if isinstance(prior, IndependentPrior):
        return len(prior.laws)
    if isinstance(prior, (Mapping, list, tuple)):
        return len(prior)
    if callable(getattr(prior, "n_parameters", None)):  # as PINTS has it
        return int(prior.n_parameters())
    if _has_log_density(prior) and not is_univariate(prior):
        sizes = (getattr(prior, name, None) for name in _SIZES)
        return next((int(s) for s in sizes if isinstance(s, (int, np.integer))), None)
    return None


def read_prior(prior: Any, names: Sequence[str]) -> Any:
    """The prior of these parameters as an object with a log density, checked one by one."""
    if prior is None:
        return None
    size = size_of(prior)
    if size not in (None, len(names)):
        raise ValueError(
            f"problem: the prior is for {size} parameters, the problem has {len(names)}: "
            f"{list(names)}"
        )
    if isinstance(prior, IndependentPrior):
        return prior
    if isinstance(prior, Mapping):
        missing = [name for name in names if name not in prior]
        if missing:
            raise ValueError(
                f"problem: the prior has the names {list(prior)}, but none for {missing}"
            )
        return _independent([prior[name] for name in names], names)
    if isinstance(prior, (list, tuple)):
        return _independent(prior, names)
    if is_univariate(prior):
        return _independent([prior] * len(names), names)
    if isinstance(prior, type) or hasattr(prior, "pmf"):
        raise TypeError(f"problem: the prior is {why_no_law(prior)}")
    if not (_has_log_density(prior) or callable(prior)):
        raise TypeError(
            f"problem: the prior is {shown(prior)}, expected univariate distributions (a list, or "
            "a dict by name), a multivariate one, or a function that returns the log prior"
        )
    return prior


def _independent(laws: Sequence[Any], names: Sequence[str]) -> IndependentPrior:
    """Their prior, each judged once."""
    found, judged = [], dict[int, Any]()
    for name, law in zip(names, laws, strict=True):
        if id(law) not in judged:
            judged[id(law)] = _judged(name, law)
        found.append(judged[id(law)])
    return IndependentPrior(tuple(found))


def _judged(name: str, law: Any) -> Any:
    """The law, frozen; an error that names the parameter if it cannot be its prior."""
    if not is_univariate(law):
        raise TypeError(f"problem: the prior of {name!r} is {why_no_law(law)}")
    try:
        law = frozen(law)
        check_density(law)
    except NotADensity as error:
        raise ValueError(f"problem: the prior of {name!r} {error}") from None
    except Exception as error:
        raise ValueError(
            f"problem: the prior of {name!r} raised {type(error).__name__}: {text_of(error)}"
        ) from error
    return law


def marginals(prior: Any) -> IndependentPrior | None:
    """The laws of the single parameters, where they are known."""
    if isinstance(prior, IndependentPrior):
        return prior
    if not type(prior).__module__.startswith("scipy.stats"):
        return None
    if hasattr(prior, "cov") and isinstance(getattr(prior, "mean", None), np.ndarray):
        sds = np.sqrt(np.diag(np.atleast_2d(prior.cov)))
        laws = [stats.norm(*pair) for pair in zip(np.ravel(prior.mean), sds, strict=True)]
    elif all(hasattr(prior, name) for name in ("df", "loc", "shape")):
        scales = np.sqrt(np.diag(np.atleast_2d(prior.shape)))
        laws = [stats.t(prior.df, *pair) for pair in zip(np.ravel(prior.loc), scales, strict=True)]
    else:
        return None
    return IndependentPrior(tuple(laws))


def bounds_with_prior(names: Sequence[str], bounds: Bounds, prior: Any) -> Bounds:
    """The bounds with what the prior says: its support, and its quantiles where none are given."""
    laws = marginals(prior)
    if laws is None:
        return bounds
    lower, upper = bounds.lower_bounds, bounds.upper_bounds
    low, high = laws.support
    if laws is prior:
        _check_mass(names, bounds, laws)
    plausible = bounds.plausible_lower_bounds, bounds.plausible_upper_bounds
    central = [
        np.where(np.isnan(given), laws.quantile(share), given)
        for given, share in zip(plausible, CENTRAL, strict=True)
    ]
    return Bounds(*map(read_only, (np.maximum(lower, low), np.minimum(upper, high), *central)))


def _check_mass(names: Sequence[str], bounds: Bounds, prior: IndependentPrior) -> None:
    """An error if hard bounds cut off mass of a prior: it would no longer be normalised."""
    for name, law, lower, upper in zip(
        names, prior.laws, bounds.lower_bounds, bounds.upper_bounds, strict=True
    ):
        inside = mass_between(law, lower, upper) if lower < upper else 1.0
        if inside < 1.0 - _LOST:
            low, high = support_of(law)
            raise ValueError(
                f"problem: the hard bounds [{lower:g}, {upper:g}] of {name!r} hold {inside:.3g} of "
                f"its prior, whose support is [{low:g}, {high:g}]: it would not be normalised, and "
                "the log evidence too low. Truncate the prior (scipy.stats.truncnorm), or widen "
                "the bounds; a prior with a support needs none"
            )


def check_values(prior: Any, bounds: Bounds, allows: Callable[[Array], bool]) -> None:
    """An error unless the log prior is a number at allowed plausible points, one of them finite."""
    rng = np.random.default_rng(0)
    box = bounds.plausible_lower_bounds, bounds.plausible_upper_bounds
    called, finite = 0, False
    for place in range(_TRIES):
        x = np.array((box[0] + box[1]) / 2 if place == 0 else rng.uniform(*box))
        if not allows(x):
            continue
        called += 1
        finite |= np.isfinite(_value(prior, x))
        if finite and called >= _ENOUGH:
            return
    if called and not finite:
        raise ValueError(
            f"problem: the log prior is −inf at {called} plausible points, such as {x.tolist()}: "
            "move the plausible bounds to where the prior has mass"
        )


def _value(prior: Any, x: Array) -> float:
    with np.errstate(), interruptible():
        try:
            value = number(log_prior_at(prior, x.copy()))
        except BaseException as error:
            raise ValueError(
                f"problem: log_prior raised {type(error).__name__}: {text_of(error)}, at the "
                f"plausible point x = {x.tolist()}; it takes a point ({x.size},) and returns one "
                "number"
            ) from error
    if not value < np.inf:
        raise ValueError(
            f"problem: log_prior returned {value} at the plausible point x = {x.tolist()}"
        )
    return value


def _has_log_density(prior: Any) -> bool:
    return any(callable(getattr(prior, name, None)) for name in ("log_pdf", "logpdf"))
