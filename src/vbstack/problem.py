"""`Problem`: a log density, its bounds, names and noise. Validated once, at construction."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from vbstack.arrays import Array
from vbstack.calling import (
    columns,
    failure,
    interruptible,
    log_prior_at,
    number,
    shown,
    text_of,
    truth,
)
from vbstack.checks import checked_names


class EvaluationError(RuntimeError):
    """The user's function failed at a point; `x` is that point, the message says how.

    `traceback` is where in the user's code it failed, if it raised something.
    """

    def __init__(self, message: str, x: Array, traceback: str = ""):
        super().__init__(message, x, traceback)
        self.message, self.x, self.traceback = message, x, traceback

    def __str__(self) -> str:
        return f"{self.message}, at x = {self.x.tolist()}"


@dataclass(frozen=True)
class Evaluation:
    """One call of the log density.

    Parameters
    ----------
    x : (D,)
        The point, in the original space.
    value : float
        Log density (plus log prior) there.
    sd : float or None
        Standard deviation of the value; None when it is exact.
    seconds : float
        What the call took.
    failure : str
        Why the call failed; then `value` is a substitute.
    """

    x: tuple[float, ...]
    value: float
    sd: float | None
    seconds: float
    failure: str = ""


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
    plausible_lower_bounds, plausible_upper_bounds : (D,)
        A box that holds most of the posterior, by your guess.
    lower_bounds, upper_bounds : (D,), optional
        Hard bounds, for each parameter both finite or both infinite.
    names : sequence of D strings, optional
    noisy : bool
        Whether `log_density` returns (value, sd).
    log_prior : callable or object with `log_pdf` or `logpdf`, optional
        Added to every value; `prior` is another name for it.
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
        *,
        log_density: Callable[..., Any],
        plausible_lower_bounds: ArrayLike,
        plausible_upper_bounds: ArrayLike,
        lower_bounds: ArrayLike | None = None,
        upper_bounds: ArrayLike | None = None,
        names: Sequence[str] = (),
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
        dimension = np.size(plausible_lower_bounds)
        infinite = np.full(dimension, np.inf)
        bounds = {
            "plausible_lower_bounds": plausible_lower_bounds,
            "plausible_upper_bounds": plausible_upper_bounds,
            "lower_bounds": -infinite if lower_bounds is None else lower_bounds,
            "upper_bounds": infinite if upper_bounds is None else upper_bounds,
        }
        settings = {
            "log_density": log_density,
            **{name: _bounds(name, value, dimension) for name, value in bounds.items()},
            "names": checked_names("problem", names, dimension),
            "noisy": bool(noisy),
            "log_prior": prior if log_prior is None else log_prior,
            "args": args,
            "kwargs": {} if kwargs is None else kwargs,
            "constraint": constraint,
            "vectorized": bool(vectorized),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        self._check_bounds()

    def _check_bounds(self) -> None:
        lower, upper = self.lower_bounds, self.upper_bounds
        plausible_lower, plausible_upper = self.plausible_lower_bounds, self.plausible_upper_bounds
        for d, name in enumerate(self.names):
            box = f"[{lower[d]}, {upper[d]}]"
            if not lower[d] < upper[d]:
                raise ValueError(f"problem: the hard bounds {box} of {name!r} are reversed")
            if np.isfinite(lower[d]) != np.isfinite(upper[d]):
                raise ValueError(
                    f"problem: {name!r} has the bounds {box}; give both or neither (transform a "
                    "half-bounded parameter, for example by its logarithm)"
                )
            if not plausible_lower[d] < plausible_upper[d]:
                raise ValueError(
                    f"problem: the plausible bounds [{plausible_lower[d]}, {plausible_upper[d]}] "
                    f"of {name!r} are reversed or equal"
                )
            if not lower[d] <= plausible_lower[d] < plausible_upper[d] <= upper[d]:
                raise ValueError(
                    f"problem: the plausible bounds [{plausible_lower[d]}, {plausible_upper[d]}] "
                    f"of {name!r} are not within its hard bounds {box}"
                )
            if not np.isfinite([plausible_lower[d], plausible_upper[d]]).all():
                raise ValueError(f"problem: the plausible bounds of {name!r} must be finite")

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
            return "rng" in inspect.signature(self.log_density).parameters
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
                raise _failed("log_density", error, x) from error
            try:
                prior = 0.0 if self.log_prior is None else number(log_prior_at(self.log_prior, x))
            except BaseException as error:
                raise _failed("log_prior", error, x) from error
            value, sd = self._parsed(answer, x)
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
                return [_failed("log_density", error, points[0])]
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
                return _failed("log_prior", error, x)
        try:
            return _summed(x, value, sd, prior, seconds + time.perf_counter() - begun)
        except EvaluationError as error:
            return error

    def allows(self, x: Array) -> bool:
        """Whether the constraint, if there is one, holds at x; this is no evaluation."""
        if self.constraint is None:
            return True
        try:
            with np.errstate(), interruptible():
                answer = self.constraint(np.array(x, dtype=float))
        except BaseException as error:
            raise _failed("constraint", error, x) from error
        holds = truth(answer)
        if holds is None:
            raise EvaluationError(
                f"constraint returned {shown(answer)}, expected True or False", np.array(x)
            )
        return holds

    def _parsed(self, answer: Any, x: Array) -> tuple[float, float | None]:
        if isinstance(answer, tuple) != self.noisy:
            expected = "a pair (value, sd)" if self.noisy else "a single number"
            raise EvaluationError(
                f"log_density returned {shown(answer)}, expected {expected} because "
                f"noisy={self.noisy}",
                x,
            )
        parts = answer if self.noisy else (answer,)
        try:
            numbers = [number(part) for part in parts]
        except BaseException as error:  # numbers may be objects of the user's too
            raise EvaluationError(
                f"log_density returned {shown(answer)}, whose parts are not single numbers "
                f"({text_of(error, 200)})",
                x,
            ) from error
        if not self.noisy:
            return numbers[0], None
        if len(numbers) != 2 or not (np.isfinite(numbers[1]) and numbers[1] > 0):
            raise EvaluationError(
                f"log_density returned {shown(answer)}, expected a pair (value, sd > 0)", x
            )
        return numbers[0], numbers[1]

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


def _bounds(name: str, value: ArrayLike, dimension: int) -> Array:
    """One number per parameter, read-only."""
    array = np.ravel(np.array(value, dtype=float))
    if array.size != dimension or dimension == 0 or np.isnan(array).any():
        raise ValueError(
            f"problem: {name} is {array.tolist()}, expected {dimension or 'one or more'} "
            "numbers, one per parameter"
        )
    array.flags.writeable = False
    return array


def _summed(x: Array, value: float, sd: float | None, prior: float, seconds: float) -> Evaluation:
    """The evaluation; an error if the sum of log density and log prior cannot be used."""
    total = value + prior
    if not total < np.inf:  # −inf is a value: the point is outside the support
        raise EvaluationError(f"log_density returned {value} and the log prior {prior}", x)
    return Evaluation(tuple(x.tolist()), total, sd, seconds)


def _failed(what: str, error: BaseException, x: Array) -> EvaluationError:
    """The error of a run whose log density, prior or constraint raised this."""
    message, where = failure(what, error)
    return EvaluationError(message, x, where)
