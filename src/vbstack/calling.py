"""Calling a user's functions: what they return as numbers, what they raise as text, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.checks import shortened

_TRACEBACK = 4000  # characters of a traceback that are kept


def log_prior_of(prior: Any) -> Any:
    """The function of a prior that returns its logarithm: a method, or the prior itself."""
    for name in ("log_pdf", "logpdf"):
        if hasattr(prior, name):
            return getattr(prior, name)
    return prior


def log_prior_at(prior: Any, x: Array) -> Any:
    """The log prior at a point; of an object with a method as an array without dimensions."""
    function = log_prior_of(prior)
    return prior(x) if function is prior else np.asarray(function(x)).reshape(())


def number(value: Any) -> float:
    """A single real number as a float; numbers that are masked, complex or text are none."""
    if np.ma.is_masked(value):
        raise ValueError("it is masked")
    array = np.asarray(value)
    if array.dtype.kind not in "biufO":
        raise TypeError(f"its type is {array.dtype}")
    return float(array.reshape(()).item())


def columns(answer: Any, count: int, noisy: bool) -> tuple[Array, Array | None]:
    """What a vectorized function returned for `count` points: values, and sds (n,) if `noisy`.

    Otherwise an error whose text says what it was instead.
    """
    parts = answer if noisy and isinstance(answer, tuple) else (answer,)
    if len(parts) != 1 + noisy:
        expected = "a pair of arrays (values, sds)" if noisy else "an array"
        raise TypeError(f"{shown(answer)}, expected {expected} for {count} points")
    arrays = [_column(part, count) for part in parts]
    return arrays[0], arrays[1] if noisy else None


def _column(part: Any, count: int) -> Array:
    if np.ma.is_masked(part):
        raise ValueError(f"{shown(part)}, of which some are masked")
    try:
        array = np.asarray(part)
    except BaseException as error:  # its class may be the user's
        raise TypeError(f"{shown(part)}, which is no array ({text_of(error, 200)})") from error
    if array.shape != (count,):
        raise ValueError(f"an array of shape {array.shape}, expected one of shape ({count},)")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an array of type {array.dtype}, expected real numbers")
    return array.astype(float)


def truth(answer: Any) -> bool | None:
    """True or False, of Python or NumPy; None for all else, also numbers: −1 and NaN are truthy."""
    try:
        array = np.asarray(answer)
    except Exception:
        return None
    usable = array.dtype.kind == "b" and array.size == 1 and not np.ma.is_masked(answer)
    return bool(array.item()) if usable else None


def shown(answer: Any) -> str:
    try:
        return shortened(repr(answer))
    except BaseException:  # a repr of the user's may fail too
        return f"a {type(answer).__name__}"


def text_of(error: BaseException, most: int = 500) -> str:
    """What an exception says, cut to `most` characters."""
    try:
        return shortened(str(error), most)
    except BaseException:  # its class may be the user's
        return "(its text cannot be shown)"


def failure(what: str, error: BaseException) -> tuple[str, str]:
    """A message on what the user's function raised, and where in the user's code that was."""
    where = error.__traceback__.tb_next if error.__traceback__ is not None else None
    frames = "".join(traceback.format_tb(where))
    message = f"{what} raised {type(error).__name__}: {text_of(error)}"
    return message, shortened(frames, _TRACEBACK)


@contextmanager
def interruptible() -> Iterator[None]:
    """A real Ctrl-C in the block ends as KeyboardInterrupt, whatever the block made of it.

    A KeyboardInterrupt that the user's function raises by itself is a failure like any other; so
    the signal is noted when it comes.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def note(number: int, frame: Any) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except BaseException:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
