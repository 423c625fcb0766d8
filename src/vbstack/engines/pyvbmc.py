"""pyvbmc as an engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.one_thread import one_thread
from vbstack.engines.recorder import Recorder
from vbstack.problem import Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.pyvbmc_objects import read_posterior
from vbstack.runs.run import Run
from vbstack.runs.versions import PYVBMC_PACKAGES, recorded_versions

_LOW = -1e3  # stands for −inf while no evaluation is finite
# What stands for −inf later: the nearest finite evaluation's value, less a step and a slope that
# ends. A surrogate can follow that, so most runs converge: on a half-plane eight of ten passed,
# with the lowest value so far one, with a cliff of ten nats three (tried by hand, not kept).
_STEP, _SLOPE, _DEEPEST = 2.0, 40.0, 10.0  # nats, nats per width of the plausible box, nats
OPTIONS = {"display": "off", "show_tips": False, "performance_calibration": "off"}


def run_pyvbmc(
    problem: Problem, start: Array, seed: int, recorder: Recorder, options: Mapping[str, Any]
) -> Run:
    """One VBMC run, with one thread; it depends on nothing but its arguments and the libraries.

    Tips, release reminders and machine calibration are off; `options` are pyvbmc's own.
    """
    known = {}
    if recorder.precomputed:
        earlier = Evaluations.of(recorder.precomputed, problem.noisy)
        values = earlier.values.copy()
        values[earlier.outside] = _substitutes(earlier.x[earlier.outside], earlier, problem)
        parts = (earlier.x, values) + ((earlier.sds,) if problem.noisy else ())
        known = {"precomputed_evaluations": parts}
    begun = time.perf_counter()
    with one_thread(), _quiet():
        vbmc = _vbmc(_Answers(recorder), problem, start, seed, options, **known)
        if recorder.side_by_side and not known:
            recorder.ahead(_first_points(problem, start, seed, options))
        recorder.observe = lambda: _progress(vbmc)
        vp, results = vbmc.optimize()
    return read_posterior(
        vp,
        vbmc.get_gp(results["best_iter"]),
        recorder.evaluations(),
        names=tuple(problem.names),
        start=start,
        seed=seed,
        seconds=time.perf_counter() - begun,
        floored=len(recorder.floored),
        noise_level=2 if problem.noisy else 0,
        versions=recorded_versions(PYVBMC_PACKAGES),
    )


def check_pyvbmc_options(problem: Problem, options: Mapping[str, Any]) -> None:
    """An error if pyvbmc refuses these options when it is set up; nothing is evaluated."""
    middle = (problem.plausible_lower_bounds + problem.plausible_upper_bounds) / 2
    with _quiet():
        _vbmc(lambda x: 0.0, problem, middle, 0, options)


def _vbmc(
    target: Callable[..., Any],
    problem: Problem,
    start: Array,
    seed: int,
    options: Mapping[str, Any],
    **known: Any,
) -> Any:
    """pyvbmc's object for a run."""
    from pyvbmc import VBMC

    return VBMC(
        target,
        start,
        problem.lower_bounds,
        problem.upper_bounds,
        problem.plausible_lower_bounds,
        problem.plausible_upper_bounds,
        options={**OPTIONS, "specify_target_noise": problem.noisy, **options},
        seed=seed,
        **known,
    )


class _Enough(Exception):
    """The points of the initial design are known."""


def _first_points(
    problem: Problem, start: Array, seed: int, options: Mapping[str, Any]
) -> list[Array]:
    """The initial design of a run, which does not depend on values: asked of a run without any."""
    points: list[Array] = []

    def target(x: Array) -> Any:
        points.append(np.array(x, dtype=float).ravel())
        if len(points) == count:
            raise _Enough
        return (0.0, 1.0) if problem.noisy else 0.0

    vbmc = _vbmc(target, problem, start, seed, options)
    count = int(vbmc.options.get("fun_eval_start"))
    with suppress(_Enough):
        vbmc.optimize()
    return points[:count]


class _Answers:
    """Evaluations as pyvbmc wants them: a float, or (value, sd) when noisy; never −inf."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder

    def __call__(self, x: Array) -> float | tuple[float, float]:
        evaluation = self.recorder(x)
        value = evaluation.value
        if np.isneginf(value):
            made = self.recorder.evaluations()
            value = float(_substitutes(np.array([evaluation.x]), made, self.recorder.problem)[0])
        return value if evaluation.sd is None else (value, evaluation.sd)


def _substitutes(x: Array, made: Evaluations, problem: Problem) -> Array:
    """Finite values (n,) for points x (n, D) outside the support.

    Each is the value of the nearest evaluation inside less min(2 + 40 d, 10) nats, with d the
    distance from it in widths of the plausible box.
    """
    inside = ~made.outside
    if not inside.any():
        return np.full(len(x), _LOW)
    widths = problem.plausible_upper_bounds - problem.plausible_lower_bounds
    away = (x[:, None] - made.x[inside][None]) / widths
    distances = np.sqrt(np.square(away).sum(axis=2))
    lowered = np.minimum(_STEP + _SLOPE * distances.min(axis=1), _DEEPEST)
    return np.asarray(made.values[inside][distances.argmin(axis=1)] - lowered)


@contextmanager
def _quiet() -> Iterator[None]:
    """No word from pyvbmc: that a run may not have converged is in its record."""

    def serious(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger = logging.getLogger("VBMC")
    logger.addFilter(serious)
    try:
        yield
    finally:
        logger.removeFilter(serious)


def _progress(vbmc: Any) -> tuple[int, float | None]:
    """Iterations done, and the ELBO of the last one."""
    recorded = vbmc.iteration_history.get("elbo")
    elbos = [] if recorded is None else [v for v in np.ravel(recorded) if v is not None]
    return len(elbos), float(elbos[-1]) if elbos else None
