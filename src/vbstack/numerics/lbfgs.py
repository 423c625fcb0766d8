"""Limited-memory BFGS: directions from the last changes of the slope, and short climbs in a box.

The weights' solver climbs on a sphere and the native engine's fits in a box; both take their
directions from here. SciPy's L-BFGS-B is not used for these: it starts every fit without memory,
and the native engine's many short fits of nearly the same objective are quicker with one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from vbstack.arrays import Array

Memory = deque[tuple[Array, Array]]  # (change of the point, minus the change of the slope)

_SUFFICIENT = 1e-4  # share of the promised rise that a step must bring (Armijo)
_SHORTER = 0.3
_SHORTEST = 1e-6


def remember(memory: Memory, change: Array, bend: Array) -> None:
    """Keep a pair if the objective bends downwards along it."""
    if change @ bend > 1e-10 * np.linalg.norm(change) * np.linalg.norm(bend):
        memory.append((change, bend))


def two_loop(slope: Array, memory: Memory, first: float) -> Array:
    """The ascent direction (Nocedal & Wright, algorithm 7.4); `first` × slope without memory."""
    q = slope.copy()
    alphas = []
    for change, bend in reversed(memory):
        alpha = (change @ q) / (change @ bend)
        q -= alpha * bend
        alphas.append(alpha)
    if memory:
        change, bend = memory[-1]
        q *= (change @ bend) / (bend @ bend)
    else:
        q *= first
    for (change, bend), alpha in zip(memory, reversed(alphas), strict=True):
        q += change * (alpha - (bend @ q) / (change @ bend))
    return q


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    lower: Array,
    upper: Array,
    memory: Memory,
    *,
    steps: int,
    tolerance: float,
    reach: float,
    large: float = np.inf,
) -> tuple[Array, float]:
    """A point higher than `start` after at most `steps` steps within the box, and its value.

    A step that gains more than `large` is not counted, until there are five times as many. None
    changes a coordinate by more than `reach`. The climb ends early when a step gains less
    than `tolerance` times the value's size. `memory` may come from a climb on nearly the same
    objective, and is added to.
    """
    x = start
    value, slope = objective(x)
    counted = taken = 0
    while counted < steps and taken < 5 * steps:
        free = ~(((x <= lower) & (slope < 0)) | ((x >= upper) & (slope > 0)))
        held = np.where(free, slope, 0.0)
        steepest = float(np.abs(held).max())
        if steepest == 0.0:
            break
        direction = np.where(free, two_loop(held, memory, first=1 / steepest), 0.0)
        if direction @ held <= 0:
            memory.clear()
            direction = held / steepest
        plain = not memory
        direction *= min(1.0, reach / float(np.abs(direction).max()))
        step = 1.0
        while True:
            trial = np.clip(x + step * direction, lower, upper)
            new_value, new_slope = objective(trial)
            if new_value >= value + _SUFFICIENT * float(slope @ (trial - x)):
                break
            step *= _SHORTER
            if step < _SHORTEST:
                break
        gain = new_value - value if step >= _SHORTEST else 0.0
        if gain > 0:
            remember(memory, trial - x, slope - new_slope)
            x, value, slope = trial, new_value, new_slope
        taken += 1
        counted += gain < large
        if gain < tolerance * max(1.0, abs(value)):
            if plain or step == 1.0:
                break
            memory.clear()  # after a direction that had to be cut short, the slope alone is tried
    return x, value
