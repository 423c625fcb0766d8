"""`Problem`: a log density, its bounds, names and noise. Validated once, at construction."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class EvaluationError(RuntimeError):
    """The user's function failed at a point; `x` is that point, the message says how."""

    def __init__(self, message: str, x: Array):
        super().__init__(message, x)
        self.message, self.x = message, x

    def __str__(self) -> str:
        return f"{self.message}, at x = {self.x.tolist()}"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is to be inferred, following pyvbmc's conventions.

    Parameters
    ----------
    log_density : callable
        Takes a point (D,) and returns a float; when `noisy`, a pair (value, standard deviation). A
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
    """

    log_density: Callable[..., Any]
    plausible_lower_bounds: ArrayLike
    plausible_upper_bounds: ArrayLike
    lower_bounds: ArrayLike | None = None
    upper_bounds: ArrayLike | None = None
    names: Sequence[str] = ()
    noisy: bool = False
    log_prior: Any = None
    prior: Any = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.log_density):
            raise TypeError(
                f"problem: log_density is a {type(self.log_density).__name__}, not a function"
            )
        if self.prior is not None:
            if self.log_prior is not None:
                raise ValueError("problem: give log_prior or prior, not both")
            object.__setattr__(self, "log_prior", self.prior)
            object.__setattr__(self, "prior", None)
        plausible = np.ravel(np.asarray(self.plausible_lower_bounds, dtype=float))
        dimension = plausible.size
        infinite = np.full(dimension, np.inf)
        bounds = {
            "plausible_lower_bounds": plausible,
            "plausible_upper_bounds": self.plausible_upper_bounds,
            "lower_bounds": -infinite if self.lower_bounds is None else self.lower_bounds,
            "upper_bounds": infinite if self.upper_bounds is None else self.upper_bounds,
        }
        for name, value in bounds.items():
            array = np.ravel(np.array(value, dtype=float))
            if array.size != dimension or dimension == 0 or np.isnan(array).any():
                raise ValueError(
                    f"problem: {name} is {array.tolist()}, expected {dimension or 'one or more'} "
                    "numbers, one per parameter"
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "names", self._checked_names(dimension))
        self._check_bounds()

    def _checked_names(self, dimension: int) -> tuple[str, ...]:
        if isinstance(self.names, str):
            raise TypeError(f"problem: names is the string {self.names!r}, expected a list of them")
        names = tuple(self.names) or tuple(f"x{d + 1}" for d in range(dimension))
        if len(names) != dimension:
            raise ValueError(f"problem: {len(names)} names {names} for {dimension} parameters")
        if len(set(names)) != dimension:
            raise ValueError(f"problem: names are not unique: {names}")
        return names

    def _check_bounds(self) -> None:
        lower, upper, plausible_lower, plausible_upper = self._bounds()
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

    def _bounds(self) -> tuple[Array, Array, Array, Array]:
        return (
            np.asarray(self.lower_bounds),
            np.asarray(self.upper_bounds),
            np.asarray(self.plausible_lower_bounds),
            np.asarray(self.plausible_upper_bounds),
        )

    @property
    def dimension(self) -> int:
        return len(self.names)

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
            "noisy": bool(self.noisy),
            **{key: bounds.tolist() for key, bounds in zip(keys, self._bounds(), strict=True)},
        }

    def evaluate(self, x: Array, rng: np.random.Generator) -> tuple[float, float | None]:
        """The log density (plus log prior) at x and its sd; `EvaluationError` if it is unusable."""
        x = np.array(x, dtype=float).ravel()
        extra = {"rng": rng} if self.takes_rng else {}
        try:
            answer = self.log_density(x.copy(), *self.args, **self.kwargs, **extra)
            prior = 0.0 if self.log_prior is None else float(_log_prior(self.log_prior, x))
        except Exception as error:
            raise EvaluationError(
                f"log_density raised {type(error).__name__}: {error}", x
            ) from error
        value, sd = self._parsed(answer, x)
        total = value + prior
        if not np.isfinite(total):
            raise EvaluationError(f"log_density returned {value} and the log prior {prior}", x)
        return total, sd

    def _parsed(self, answer: Any, x: Array) -> tuple[float, float | None]:
        if isinstance(answer, tuple) != bool(self.noisy):
            expected = "a pair (value, sd)" if self.noisy else "a single number"
            raise EvaluationError(
                f"log_density returned {answer!r}, expected {expected} because noisy={self.noisy}",
                x,
            )
        parts = answer if self.noisy else (answer,)
        try:
            numbers = [float(np.asarray(part).reshape(())) for part in parts]
        except (TypeError, ValueError) as error:
            raise EvaluationError(
                f"log_density returned {answer!r}, whose parts are not single numbers", x
            ) from error
        if not self.noisy:
            return numbers[0], None
        if len(numbers) != 2 or not (np.isfinite(numbers[1]) and numbers[1] > 0):
            raise EvaluationError(
                f"log_density returned {answer!r}, expected a pair (value, sd > 0)", x
            )
        return numbers[0], numbers[1]

    def check(self, n: int = 3, seed: int = 0) -> ProblemCheck:
        """Call the function at n plausible points, and try to send it to another process.

        Raises what a run would have met: an `EvaluationError` with the point, or a TypeError when
        the function cannot be sent.
        """
        _, _, lower, upper = self._bounds()
        rng = np.random.default_rng(seed)
        points = rng.uniform(lower, upper, (n, self.dimension))
        values, seconds = [], []
        for point in points:
            begun = time.perf_counter()
            values.append(self.evaluate(point, np.random.default_rng(seed))[0])
            seconds.append(time.perf_counter() - begun)
        return ProblemCheck(points, np.array(values), float(np.median(seconds)), len(self.packed()))

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


def _log_prior(prior: Any, x: Array) -> Any:
    for name in ("log_pdf", "logpdf"):
        if hasattr(prior, name):
            return np.asarray(getattr(prior, name)(x)).reshape(())
    return prior(x)
