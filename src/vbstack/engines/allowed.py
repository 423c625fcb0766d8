"""Points that the constraint of a problem allows. Asking it costs no evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.problem import Problem
from vbstack.runs.plausible import PlausibleBox

# Draws of the plausible box among which one has to be allowed: a thousandth of the box is found
# nearly always, and a constraint of a microsecond takes no time.
_DRAWS = 10_000


def allowed(problem: Problem, points: Array) -> NDArray[np.bool_]:
    """Which of the points (n, D), in the original space, the constraint allows."""
    if problem.constraint is None:
        return np.ones(len(points), dtype=bool)
    return np.array([problem.allows(x) for x in points], dtype=bool)


def draws_until_allowed(problem: Problem, rng: np.random.Generator) -> Iterator[tuple[Array, bool]]:
    """Points uniform in the plausible box, each with whether it is allowed; the last one is.

    A ValueError after 10,000 that are not.
    """
    box = PlausibleBox.of(problem.description())
    for _ in range(_DRAWS):
        point = box.uniform(rng)
        is_allowed = problem.allows(point)
        yield point, is_allowed
        if is_allowed:
            return
    raise ValueError(
        f"problem: constraint is false at {_DRAWS:,} random points of the plausible box, "
        f"{_text(problem.plausible_lower_bounds)} to {_text(problem.plausible_upper_bounds)}: move "
        "the box to where the constraint holds, or check that the constraint is true for allowed "
        "points"
    )


def check_plausible_box(problem: Problem) -> None:
    """An error if the constraint allows hardly any point of the plausible box."""
    if problem.constraint is not None:
        for _ in draws_until_allowed(problem, np.random.default_rng(0)):
            pass


def _text(bounds: Array) -> str:
    return "[" + ", ".join(f"{bound:g}" for bound in bounds) + "]"
