"""`Problem`: a log density, its bounds, names and noise. Validated once, at construction."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from vbstack.arrays import Array
from vbstack.calling import (
    columns,
    interruptible,
    log_prior_at,
    log_prior_of,
    number,
    shown,
    truth,
)
from vbstack.checks import checked_names, checked_whole
from vbstack.inputs.bounds import Bounds, check_bounds, count, read_bounds
from vbstack.inputs.evaluation import Evaluation, EvaluationError, failed, parsed
from vbstack.inputs.mapped import Insertion, Mapped, innermost, maps_of, through
from vbstack.inputs.priors import (
    CENTRAL,
    IndependentPrior,
    bounds_with_prior,
    check_values,
    read_prior,
    size_of,
)

__all__ = ["Evaluation", "EvaluationError", "Problem", "ProblemCheck", "checked_problem"]

BoundsLike = ArrayLike | Sequence[float | None] | None


@dataclass(frozen=True, init=False, eq=False)
class Problem:
    """What is to be inferred, following pyvbmc's conventions.

    Parameters
    ----------
    log_density : callable
        Takes a point (D,) and returns a float; when `noisy`, a pair (value, standard deviation).
        −inf means that the point is outside the support of the posterior. A
        function with a keyword `rng` gets a NumPy generator seeded by the run and the number of the
        evaluation, so that a stochastic model can be replayed exactly.
    plausible_lower_bounds, plausible_upper_bounds : (D,), a number, or None
        A box that holds most of the posterior, by your guess. One number is for all parameters.
        None, for one parameter or for all: the prior's quantiles at 5 and 95 %, where its
        marginals are known (univariate distributions, a multivariate normal or t).
    lower_bounds, upper_bounds : (D,), a number, or None
        Hard bounds: both, one, or None for none. The supports of univariate priors are hard bounds
        too. A parameter with one bound is seen by runs through its logarithm.
    names : sequence of D strings, optional
    dimension : int, optional
        How many parameters there are, if nothing else says so.
    noisy : bool
        Whether `log_density` returns (value, sd).
    prior : optional
        Its logarithm is added to every value. Univariate SciPy distributions, as a list, as a dict
        by name (which gives the names) or one for all parameters; a multivariate one, or any object
        with `logpdf` or `log_pdf`; or a function that returns the log prior, such as PINTS has.
        Judged here: `IndependentPrior` is what univariate ones become.
    log_prior : optional
        Another name for `prior`.
    args, kwargs
        Passed to `log_density` after the point.
    constraint : callable, optional
        Takes a point (D,) and returns True or False: whether it is within the support. Where it is
        not the log density is −inf, and is not called: that is no evaluation, and counts as none.
    vectorized : bool
        Whether `log_density` takes points (n, D) and returns values (n,); when `noisy`, a pair of
        arrays (values, standard deviations). A keyword `rng` then gets a list of n generators, one
        for each point. The prior and the constraint still take one point.
    """

    log_density: Callable[..., Any]
    plausible_lower_bounds: Array
    plausible_upper_bounds: Array
    lower_bounds: Array
    upper_bounds: Array
    names: tuple[str, ...]
    noisy: bool
    log_prior: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    constraint: Callable[[Array], Any] | None
    vectorized: bool

    def __init__(
        self,
        log_density: Callable[..., Any],
        *,
        plausible_lower_bounds: BoundsLike = None,
        plausible_upper_bounds: BoundsLike = None,
        lower_bounds: BoundsLike = None,
        upper_bounds: BoundsLike = None,
        names: Sequence[str] = (),
        dimension: int | None = None,
        noisy: bool = False,
        log_prior: Any = None,
        prior: Any = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        constraint: Callable[[Array], Any] | None = None,
        vectorized: bool = False,
    ):
        if not callable(log_density):
            raise TypeError(
                f"problem: log_density is a {type(log_density).__name__}, not a function"
            )
        if constraint is not None and not callable(constraint):
            raise TypeError(f"problem: constraint is a {type(constraint).__name__}, not a function")
        if prior is not None and log_prior is not None:
            raise ValueError("problem: give log_prior or prior, not both")
        prior = prior if log_prior is None else log_prior
        given = {
            "plausible_lower_bounds": plausible_lower_bounds,
            "plausible_upper_bounds": plausible_upper_bounds,
            "lower_bounds": lower_bounds,
            "upper_bounds": upper_bounds,
        }
        if isinstance(prior, Mapping) and not len(names):
            names = tuple(prior)
        if dimension is not None:
            dimension = checked_whole("dimension", dimension, 1)
        said = [dimension, *map(count, given.values()), size_of(prior), len(names) or None, 1]
        size = next(one for one in said if one is not None)
        names = checked_names("problem", names, size)
        bounds = read_bounds(size, **given)
        prior = read_prior(prior, names)
        bounds = bounds_with_prior(names, bounds, prior)
        settings = {
            "log_density": log_density,
            **bounds._asdict(),
            "names": names,
            "noisy": bool(noisy),
            "log_prior": prior,
            "args": args,
            "kwargs": {} if kwargs is None else kwargs,
            "constraint": constraint,
            "vectorized": bool(vectorized),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        check_bounds(names, bounds)
        if prior is not None:
            check_values(prior, bounds, self._certainly_allows)

    @classmethod
    def from_prior_transform(
        cls,
        log_likelihood: Callable[..., Any],
        transform: Callable[[Array], Any],
        dimension: int,
        *,
        names: Sequence[str] = (),
        noisy: bool = False,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        vectorized: bool = False,
    ) -> Problem:
        """The problem of a nested sampler, in the coordinates u of its unit cube.

        The prior is uniform there, so the log evidence is the same. Runs, posterior and report are
        in u; `to_parameters` makes parameters of draws.

        Parameters
        ----------
        log_likelihood : callable
            Takes the parameters that `transform` returns.
        transform : callable
            Takes a point (D,) of the open unit cube, and returns the parameters.
        dimension : int
            D, of the cube.
        names : sequence of D strings, optional
            Names of the parameters; the coordinate of "a" is then called "u(a)".
        noisy, args, kwargs, vectorized
            As of `Problem`; for `log_likelihood`. `transform` takes one point at a time.
        """
        for name, function in (("log_likelihood", log_likelihood), ("transform", transform)):
            if not callable(function):
                raise TypeError(f"problem: {name} is a {type(function).__name__}, not a function")
        size = checked_whole("dimension", dimension, 1)
        given = checked_names("problem", names, size) if len(names) else ()
        problem = cls(
            Mapped(log_likelihood, transform),
            lower_bounds=0.0,
            upper_bounds=1.0,
            plausible_lower_bounds=CENTRAL[0],
            plausible_upper_bounds=CENTRAL[1],
            names=[f"u({name})" for name in given] or [f"u{d + 1}" for d in range(size)],
            noisy=noisy,
            args=args,
            kwargs=kwargs,
            vectorized=vectorized,
        )
        problem.to_parameters(np.random.default_rng(0).random((3, size)))
        return problem

    def fixed(self, values: Mapping[str, float] | None = None, /, **named: float) -> Problem:
        """The problem of the other parameters, with these at fixed values.

        `problem.fixed(b=2.0)`, or `problem.fixed({"log b": 2.0})` for other names. Function, noise
        and constraint stay the same; they get all parameters. Of an independent prior the laws of
        the fixed parameters are left out, so that the log evidence is that of the smaller model;
        any other prior is taken at their values, as it is.
        """
        fixed = {**(values or {}), **named}
        insertion = Insertion.of(fixed, self.names, self.lower_bounds, self.upper_bounds)
        free = [d for d, name in enumerate(self.names) if name not in fixed]
        prior = self.log_prior
        if isinstance(prior, IndependentPrior):
            prior = prior.without(insertion.places)
        elif prior is not None:
            prior = Mapped(log_prior_of(prior), insertion)
        return replace(
            self,
            log_density=Mapped(self.log_density, insertion),
            names=tuple(self.names[d] for d in free),
            log_prior=prior,
            constraint=None if self.constraint is None else Mapped(self.constraint, insertion),
            **{name: getattr(self, name)[free] for name in Bounds._fields},
        )

    def to_parameters(self, x: ArrayLike) -> Array:
        """The parameters (n, ·) or (·,) that your function gets at points (n, D) or (D,).

        Of a problem from `from_prior_transform` the transform's; with `fixed` ones all of them.
        Otherwise they are the points themselves.
        """
        points = np.array(x, dtype=float)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dimension:
            raise ValueError(
                f"problem: x has shape {points.shape}, expected (n, {self.dimension}) or "
                f"({self.dimension},)"
            )
        maps = maps_of(self.log_density)
        rows = [through(maps, row) for row in np.atleast_2d(points)]
        found = np.array(rows).reshape(len(rows), -1)
        return found[0] if points.ndim == 1 else found

    @property
    def dimension(self) -> int:
        return len(self.names)

    @property
    def prior(self) -> Any:
        """Another name for `log_prior`."""
        return self.log_prior

    @property
    def takes_rng(self) -> bool:
        """Whether `log_density` has a parameter called `rng`."""
        try:
            return "rng" in inspect.signature(innermost(self.log_density)).parameters
        except (TypeError, ValueError):  # some built-in callables have no signature
            return False

    def description(self) -> dict[str, Any]:
        """What two problems must share to share a store: bounds, names and noise."""
        keys = ("lower_bounds", "upper_bounds", "plausible_lower_bounds", "plausible_upper_bounds")
        return {
            "names": list(self.names),
            "noisy": self.noisy,
            **{key: getattr(self, key).tolist() for key in keys},
        }

    def evaluate(self, x: Array, rng: np.random.Generator) -> tuple[float, float | None]:
        """The log density (plus log prior) at x and its sd; `EvaluationError` if it is unusable."""
        evaluation = self.evaluation(x, rng)
        return evaluation.value, evaluation.sd

    def evaluation(self, x: Array, rng: np.random.Generator) -> Evaluation:
        """One evaluation at x; `EvaluationError` if it is unusable."""
        begun = time.perf_counter()
        x = np.array(x, dtype=float).ravel()
        if not self.allows(x):
            sd = 1.0 if self.noisy else None
            return Evaluation(tuple(x.tolist()), -np.inf, sd, time.perf_counter() - begun)
        if self.vectorized:
            (found,) = self._one_call(x[None], [rng])
            if isinstance(found, EvaluationError):
                raise found
            return found
        extra = {"rng": rng} if self.takes_rng else {}
        with np.errstate(), interruptible():  # what the function sets stays in it
            try:
                answer = self.log_density(x.copy(), *self.args, **self.kwargs, **extra)
            except BaseException as error:  # also SystemExit: it must not end more than its run
                raise failed("log_density", error, x) from error
            try:
                prior = 0.0 if self.log_prior is None else number(log_prior_at(self.log_prior, x))
            except BaseException as error:
                raise failed("log_prior", error, x) from error
            value, sd = parsed(answer, self.noisy, x)
        return _summed(x, value, sd, prior, time.perf_counter() - begun)

    def evaluations(
        self, points: Array, rngs: Sequence[np.random.Generator]
    ) -> list[Evaluation | EvaluationError]:
        """An evaluation at each of the points (n, D), or why there is none.

        When `vectorized`, all that the constraint allows are one call of the log density.
        """
        found: dict[int, Evaluation | EvaluationError] = {}
        for place, (x, rng) in enumerate(zip(points, rngs, strict=True)):
            try:
                if not self.vectorized or not self.allows(x):
                    found[place] = self.evaluation(x, rng)
            except EvaluationError as error:
                found[place] = error
        left = [place for place in range(len(points)) if place not in found]
        if left:
            made = self._one_call(points[left], [rngs[place] for place in left])
            found |= zip(left, made, strict=True)
        return [found[place] for place in range(len(points))]

    def _one_call(
        self, points: Array, rngs: Sequence[np.random.Generator]
    ) -> list[Evaluation | EvaluationError]:
        """One call of a vectorized log density at allowed points (n, D).

        If a call with several points raises something, they are called one by one, so that only
        those fail at which it raises.
        """
        begun, count = time.perf_counter(), len(points)
        extra = {"rng": list(rngs)} if self.takes_rng else {}
        with np.errstate(), interruptible():
            try:
                answer = self.log_density(points.copy(), *self.args, **self.kwargs, **extra)
            except BaseException as error:
                if count > 1:
                    pairs = zip(points, rngs, strict=True)
                    return [one for x, rng in pairs for one in self._one_call(x[None], [rng])]
                return [failed("log_density", error, points[0])]
            try:
                values, sds = columns(answer, count, self.noisy)
            except (ValueError, TypeError) as error:
                message = f"log_density returned {error}, because vectorized=True"
                return [EvaluationError(message, x) for x in points]
        seconds = (time.perf_counter() - begun) / count
        return [
            self._with_prior(x, float(values[i]), None if sds is None else float(sds[i]), seconds)
            for i, x in enumerate(points)
        ]

    def _with_prior(
        self, x: Array, value: float, sd: float | None, seconds: float
    ) -> Evaluation | EvaluationError:
        """The evaluation with the log prior added, or why there is none."""
        if sd is not None and not 0 < sd < np.inf:
            return EvaluationError(f"log_density returned the standard deviation {sd}", x)
        begun = time.perf_counter()
        with np.errstate(), interruptible():
            try:
                prior = 0.0 if self.log_prior is None else number(log_prior_at(self.log_prior, x))
            except BaseException as error:
                return failed("log_prior", error, x)
        try:
            return _summed(x, value, sd, prior, seconds + time.perf_counter() - begun)
        except EvaluationError as error:
            return error

    def _certainly_allows(self, x: Array) -> bool:
        try:
            return self.allows(x)
        except EvaluationError:  # a run will meet it
            return False

    def allows(self, x: Array) -> bool:
        """Whether the constraint, if there is one, holds at x; this is no evaluation."""
        if self.constraint is None:
            return True
        try:
            with np.errstate(), interruptible():
                answer = self.constraint(np.array(x, dtype=float))
        except BaseException as error:
            raise failed("constraint", error, x) from error
        holds = truth(answer)
        if holds is None:
            raise EvaluationError(
                f"constraint returned {shown(answer)}, expected True or False", np.array(x)
            )
        return holds

    def check(self, n: int = 3, seed: int = 0) -> ProblemCheck:
        """Call the function at n plausible points, and try to send it to another process.

        Raises what a run would have met: an `EvaluationError` with the point, or a TypeError when
        the function cannot be sent.
        """
        rng = np.random.default_rng(seed)
        box = self.plausible_lower_bounds, self.plausible_upper_bounds
        points = rng.uniform(*box, (n, self.dimension))
        made = [self.evaluation(point, np.random.default_rng(seed)) for point in points]
        values = np.array([one.value for one in made])
        seconds = float(np.median([one.seconds for one in made]))
        return ProblemCheck(points, values, seconds, len(self.packed()))

    def packed(self) -> bytes:
        """The problem as bytes for another process; closures and lambdas included."""
        try:
            return bytes(cloudpickle.dumps(self))
        except Exception as error:
            raise TypeError(
                f"problem: log_density cannot be sent to another process ({error}); do not let it "
                "hold open files, locks or connections, or use executor='here'"
            ) from error


@dataclass(frozen=True)
class ProblemCheck:
    """What `Problem.check` found: points, values, seconds per call, and bytes to send."""

    points: Array
    values: Array
    seconds: float
    size: int

    def __str__(self) -> str:
        return (
            f"{len(self.values)} evaluations, values {self.values.min():.4g} to "
            f"{self.values.max():.4g}, {self.seconds:.3g} s each; {self.size} bytes to send"
        )


def checked_problem(problem: Any) -> Problem:
    """The problem, or an error that says how to make one."""
    if isinstance(problem, Problem):
        return problem
    kind = type(problem).__name__
    name = getattr(problem, "__name__", "log_density") if callable(problem) else "log_density"
    name = name if name.isidentifier() else "log_density"
    raise TypeError(
        f"the problem is a {kind}, not a vbstack.Problem: give "
        f"Problem({name}, plausible_lower_bounds=[…], plausible_upper_bounds=[…]), or "
        f"Problem({name}, prior=[…]) with univariate SciPy distributions"
    )


def _summed(x: Array, value: float, sd: float | None, prior: float, seconds: float) -> Evaluation:
    """The evaluation; an error if the sum of log density and log prior cannot be used."""
    total = value + prior
    if not total < np.inf:  # −inf is a value: the point is outside the support
        raise EvaluationError(f"log_density returned {value} and the log prior {prior}", x)
    return Evaluation(tuple(x.tolist()), total, sd, seconds)
