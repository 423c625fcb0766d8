"""pyvbmc as an engine.

pyvbmc knows two hard bounds or none. Of a parameter with one bound it sees the logarithm (`Link`),
and with it the log density plus the log-Jacobian; the run that comes back has the link itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.one_thread import one_thread
from vbstack.engines.recorder import Recorder
from vbstack.problem import Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.plausible import PlausibleBox
from vbstack.runs.pyvbmc_objects import read_posterior
from vbstack.runs.run import Run
from vbstack.runs.transform import Link, Transform
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
    box = PlausibleBox.of(problem.description())
    known = {}
    if recorder.precomputed:
        earlier = Evaluations.of(recorder.precomputed, problem.noisy)
        z = box.link.forward(earlier.x)
        values = earlier.values + box.link.log_jacobian(z)
        values[earlier.outside] = _substitutes(z[earlier.outside], earlier, box)
        parts = (z, values) + ((earlier.sds,) if problem.noisy else ())
        known = {"precomputed_evaluations": parts}
    begun = time.perf_counter()
    with one_thread(), _quiet():
        first = box.link.forward(start[None])[0]
        vbmc = _vbmc(problem, box, _Answers(recorder, box), first, seed, options, **known)
        if recorder.side_by_side and not known:
            recorder.ahead(box.link.inverse(_first_points(problem, box, first, seed, options)))
        recorder.observe = lambda: _progress(vbmc)
        vp, results = vbmc.optimize()
    run = read_posterior(
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
    return replace(run, transform=_with_logarithms(run.transform, box.link))


def check_pyvbmc_options(problem: Problem, options: Mapping[str, Any]) -> None:
    """An error if pyvbmc refuses these options when it is set up; nothing is evaluated."""
    box = PlausibleBox.of(problem.description())
    with _quiet():
        _vbmc(problem, box, lambda z: 0.0, (box.low + box.high) / 2, 0, options)


def _vbmc(
    problem: Problem,
    box: PlausibleBox,
    answers: Callable[[Array], Any],
    start: Array,
    seed: int,
    options: Mapping[str, Any],
    **known: Any,
) -> Any:
    """A VBMC object in the space of the box, where no parameter has one bound alone."""
    from pyvbmc import VBMC

    logarithmic = box.link.signs != 0
    return VBMC(
        answers,
        start,
        np.where(logarithmic, -np.inf, problem.lower_bounds),
        np.where(logarithmic, np.inf, problem.upper_bounds),
        box.low,
        box.high,
        options={**OPTIONS, "specify_target_noise": problem.noisy, **options},
        seed=seed,
        **known,
    )


class _Enough(Exception):
    """The points of the initial design are known."""


def _first_points(
    problem: Problem, box: PlausibleBox, start: Array, seed: int, options: Mapping[str, Any]
) -> Array:
    """The initial design (n, D) of a run, which does not depend on values: asked of a run without
    any."""
    points: list[Array] = []

    def answers(z: Array) -> Any:
        points.append(np.array(z, dtype=float).ravel())
        if len(points) == count:
            raise _Enough
        return (0.0, 1.0) if problem.noisy else 0.0

    vbmc = _vbmc(problem, box, answers, start, seed, options)
    count = int(vbmc.options.get("fun_eval_start"))
    with suppress(_Enough):
        vbmc.optimize()
    return np.array(points)


def _with_logarithms(map_: Transform, link: Link) -> Transform:
    """The map of a pyvbmc run, from its space through these logarithms to the parameters."""
    kinds = np.where(link.signs != 0, link.kinds, map_.kinds)
    return replace(map_, kinds=kinds, lower=link.lower, upper=link.upper)


class _Answers:
    """Evaluations as pyvbmc wants them: a float, or (value, sd) when noisy; never −inf."""

    def __init__(self, recorder: Recorder, box: PlausibleBox):
        self.recorder, self.box = recorder, box

    def __call__(self, z: Array) -> float | tuple[float, float]:
        z = np.reshape(z, (1, -1))
        evaluation = self.recorder(self.box.link.inverse(z)[0])
        if np.isneginf(evaluation.value):
            value = float(_substitutes(z, self.recorder.evaluations(), self.box)[0])
        else:
            value = evaluation.value + float(self.box.link.log_jacobian(z)[0])
        return value if evaluation.sd is None else (value, evaluation.sd)


def _substitutes(z: Array, made: Evaluations, box: PlausibleBox) -> Array:
    """Finite values (n,) for points z (n, D), in the space of the box, outside the support.

    Each is the value of the nearest evaluation inside less min(2 + 40 d, 10) nats, with d the
    distance from it in widths of the plausible box.
    """
    inside = made.seen_from(box.link)
    if not inside.size:
        return np.full(len(z), _LOW)
    away = (z[:, None] - inside.x[None]) / (box.high - box.low)
    distances = np.sqrt(np.square(away).sum(axis=2))
    lowered = np.minimum(_STEP + _SLOPE * distances.min(axis=1), _DEEPEST)
    return np.asarray(inside.values[distances.argmin(axis=1)] - lowered)


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
