"""Evaluations by the rule for failures, wherever they are made.

A `Wanted` is everything that an evaluation depends on besides the problem. So it is the same in
whatever process it is made, and in whatever order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from vbstack.checks import shortened
from vbstack.modes import OnError
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.printable import LONGEST

_RETRIES = 3
GOES_ON = "its thread cannot be stopped and goes on"
T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """A point (D,) to evaluate, its place in the run, and the seed of its generator."""

    place: int
    x: tuple[float, ...]
    seed: tuple[int, ...]


Found = Evaluation | EvaluationError
# Makes evaluations; each comes with its place as soon as it is finished.
MakesAll = Callable[[Sequence[Wanted]], Iterable[tuple[int, Found]]]


@dataclass(frozen=True)
class Rule:
    """What happens when an evaluation fails, and after how many seconds it does."""

    on_error: OnError = "fail_run"
    timeout: float | None = None

    def failed(self, noisy: bool, why: EvaluationError, seconds: float = 0.0) -> Found:
        """What stands for an evaluation that failed: a floored one, or the error."""
        if self.on_error != "floor":
            return why
        sd = 1.0 if noisy else None
        return Evaluation(
            tuple(why.x.tolist()), -np.inf, sd, seconds, shortened(why.message, LONGEST)
        )


def calls(problem: Problem, wanted: Sequence[Wanted]) -> list[Sequence[Wanted]]:
    """The points of each call of the log density: one, or all of them when it is vectorized."""
    return [wanted] if problem.vectorized else [[one] for one in wanted]


def one_after_the_other(problem: Problem, rule: Rule) -> MakesAll:
    """Evaluations in this process; the first that fails is the last that is made."""

    def made(wanted: Sequence[Wanted]) -> Iterator[tuple[int, Found]]:
        for call in calls(problem, wanted):
            found = one_call(problem, call, rule)
            yield from zip((one.place for one in call), found, strict=True)
            if any(isinstance(one, EvaluationError) for one in found):
                return

    return made


def one_call(problem: Problem, call: Sequence[Wanted], rule: Rule) -> list[Found]:
    """The evaluations of one call of the log density, by the rule for failures.

    What took too long is not tried again.
    """
    begun = time.perf_counter()
    found: dict[int, Found] = {}
    for attempt in range(_RETRIES if rule.on_error == "retry" else 1):
        left = [i for i in range(len(call)) if not isinstance(found.get(i), Evaluation)]
        again = [call[i] for i in left]
        try:
            made = within(rule.timeout, partial(_made, problem, again, attempt))
        except TimeoutError:
            found |= {i: too_slow(call[i], rule.timeout) for i in left}
            break
        found |= zip(left, made, strict=True)
        if all(isinstance(one, Evaluation) for one in found.values()):
            break
    seconds = (time.perf_counter() - begun) / len(call)
    return [
        replace(one, seconds=seconds)
        if isinstance(one, Evaluation)
        else rule.failed(problem.noisy, one, seconds)
        for _, one in sorted(found.items())
    ]


def too_slow(one: Wanted, timeout: float | None, ended: str = GOES_ON) -> EvaluationError:
    """The failure of an evaluation that took too long."""
    return EvaluationError(too_slow_text(timeout, ended), np.array(one.x))


def too_slow_text(timeout: float | None, ended: str = GOES_ON) -> str:
    """What is said of an evaluation that took too long, and what became of it."""
    return f"log_density took longer than evaluation_timeout={timeout} s ({ended})"


def within(seconds: float | None, call: Callable[[], T]) -> T:
    """What `call` returns; a TimeoutError if it takes longer, which leaves it in its thread."""
    if seconds is None:
        return call()
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def answered() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=answered, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


def _made(problem: Problem, call: Sequence[Wanted], attempt: int) -> list[Found]:
    points = np.array([one.x for one in call])
    rngs = [np.random.default_rng([*one.seed, attempt]) for one in call]
    return problem.evaluations(points, rngs)
