"""`Evaluation`: one call of a log density; and what its answers and failures mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.calling import failure, number, shown, text_of


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


def parsed(answer: Any, noisy: bool, x: Array) -> tuple[float, float | None]:
    """The value and the sd that a log density returned; None for the sd of an exact one."""
    if isinstance(answer, tuple) != noisy:
        expected = "a pair (value, sd)" if noisy else "a single number"
        raise EvaluationError(
            f"log_density returned {shown(answer)}, expected {expected} because noisy={noisy}",
            x,
        )
    parts = answer if noisy else (answer,)
    try:
        numbers = [number(part) for part in parts]
    except BaseException as error:  # numbers may be objects of the user's too
        raise EvaluationError(
            f"log_density returned {shown(answer)}, whose parts are not single numbers "
            f"({text_of(error, 200)})",
            x,
        ) from error
    if not noisy:
        return numbers[0], None
    if len(numbers) != 2 or not (np.isfinite(numbers[1]) and numbers[1] > 0):
        raise EvaluationError(
            f"log_density returned {shown(answer)}, expected a pair (value, sd > 0)", x
        )
    return numbers[0], numbers[1]


def failed(what: str, error: BaseException, x: Array) -> EvaluationError:
    """The error of a run whose log density, prior or constraint raised this."""
    message, where = failure(what, error)
    return EvaluationError(message, x, where)
