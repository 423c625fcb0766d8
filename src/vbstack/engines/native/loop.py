"""The native engine: variational Bayesian Monte Carlo, arranged for runs that will be stacked.

    repeat: evaluate a few points, some of them to doubt the mixture (acquisition) · refit the
            surrogate (gp) · refit the mixture (mixture_fit) · after warm-up, whiten or turn the
            space, or go back to the parameters' own axes, if the evaluations are then
            likelier or better foreseen, or the mixture worth more (moves)
    until:  ELBO, its sd and the mean have settled
    end:    own axes once more; up to fifty components, kept away from where the surrogate is
            uncertain (last_fit); evaluations at those that it knows least

A run only has to be right about the region it covers, and to know its own error: stacking chooses
the weights. Everything is deterministic given the start and the seed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vbstack.engines.native import change_of_space, final_fit, iteration, space
from vbstack.engines.native.acquisition import (
    Candidates,
    Way,
    scout,
    tempered,
    typical,
    worthy,
)
from vbstack.engines.native.iteration import Evaluated, State
from vbstack.engines.native.settings import MANY, Settings
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process import dense, integrals
from vbstack.gaussian_process.dense import Process
from vbstack.problem import Problem
from vbstack.runs.run import Run
from vbstack.runs.surrogate import Surrogate

Array = NDArray[np.float64]

_WHITENING_PAUSE = 4  # iterations between two attempts at another space
_CALM = 2  # more evaluations that doubt the mixture, for every calm iteration
_LOOKS = 4  # at most, at what the last fit made
_MISFIT = 12.0  # by which J is enlarged: no log density is a draw of the surrogate's prior
_NOISY_MISFIT = 4.0  # with noise, which is most of J


def run_native(
    problem: Problem, start: Array, seed: int, recorder: Recorder, options: Mapping[str, Any]
) -> Run:
    """One run with one thread; it depends on nothing but its arguments and the libraries."""
    settings = Settings.of(options, problem.dimension, problem.noisy)
    misfit = _NOISY_MISFIT if problem.noisy else _MISFIT
    if not space.unit_box(problem).link.inside(start[None])[0]:
        raise ValueError(
            f"the start {start.tolist()} is not within the hard bounds; move it inside"
        )
    begun = time.perf_counter()
    with threadpool_limits(1):
        evaluated, rng = Evaluated(recorder), np.random.default_rng([seed, 4])
        state, settled = _explore(problem, start, seed, evaluated, settings)
        state = final_fit.final(change_of_space.straightened(state, evaluated, rng), settings, rng)
        state, calm = _checked(state, evaluated, settings, rng)
    mixture, process = state.fitted.mixture, state.process
    return Run(
        weights=mixture.weights,
        means=mixture.means,
        sds=mixture.sds,
        transform=state.map_,
        log_joint=integrals.integrals(process, mixture.means, mixture.sds)[0][None],
        log_joint_covariance=misfit
        * integrals.covariance(process, mixture.means, mixture.sds)[None],
        elbo=state.fitted.elbo,
        elbo_sd=float(np.sqrt(misfit)) * state.fitted.elbo_sd,
        converged=settled and calm,
        noise_level=2 if problem.noisy else 0,
        names=tuple(problem.names),
        surrogate=as_surrogate(process),
        evaluations=recorder.evaluations(),
        start=start,
        seed=seed,
        seconds=time.perf_counter() - begun,
        engine="native",
        versions={
            **{package: version(package) for package in ("vbstack", "numpy", "scipy")},
            "host": socket.gethostname(),
        },
        floored=len(recorder.floored),
    )


def _explore(
    problem: Problem, start: Array, seed: int, evaluated: Evaluated, settings: Settings
) -> tuple[State, bool]:
    """The last state, and whether everything had settled."""
    rng = np.random.default_rng([seed, 3])
    map_ = space.unit_box(problem)
    _evaluate_first(problem, start, evaluated, rng, settings)
    history: list[State] = []
    evaluated.recorder.observe = lambda: (
        len(history),
        history[-1].fitted.elbo if history else None,
    )
    best: list[float] = []
    warming, whitenings, tried = True, 0, -_WHITENING_PAUSE
    state = iteration.first_state(evaluated, map_, rng)
    while len(evaluated) < settings.max_fun_evals and len(history) < settings.max_iter:
        count = min(settings.fun_evals_per_iter, settings.max_fun_evals - len(evaluated))
        _evaluate_more(state, evaluated, rng, _ways(problem, history, count, settings))
        best.append(float(evaluated.seen_from(state.map_).values.max()))
        if warming and len(best) > 3 and best[-1] - best[-4] < 1.0:
            warming = False
        state = iteration.refitted(state, evaluated, rng, warming, len(history))
        due = len(history) - tried >= _WHITENING_PAUSE and state.fitted.elbo_sd < 1.0
        if not warming and due and whitenings < settings.whitenings:
            tried, before = len(history), state
            state = change_of_space.moved(state, evaluated, rng)
            whitenings += state is not before
        history.append(state)
        if not warming and _settled(history, settings):
            return state, True
    return state, False


def _evaluate_first(
    problem: Problem,
    start: Array,
    evaluated: Evaluated,
    rng: np.random.Generator,
    settings: Settings,
) -> None:
    """The start and points uniform in the plausible box, as far as they are not known yet."""
    lower = np.asarray(problem.plausible_lower_bounds, dtype=float)
    upper = np.asarray(problem.plausible_upper_bounds, dtype=float)
    others = rng.uniform(lower, upper, (settings.fun_eval_start - 1, problem.dimension))
    known = {tuple(x) for x in evaluated.x}
    wanted = min(settings.fun_eval_start, settings.max_fun_evals)
    for point in (start, *others):
        if len(evaluated) < wanted and tuple(point) not in known:
            evaluated.add(point)


def _evaluate_more(
    state: State, evaluated: Evaluated, rng: np.random.Generator, ways: Sequence[Way]
) -> None:
    """Choose and evaluate points one after the other, each with the knowledge of the last."""
    process, mixture = state.process, state.fitted.mixture
    candidates = Candidates.of(process, state.fitted, state.map_, rng)
    for left, way in zip(range(len(ways), 0, -1), ways, strict=True):
        point = way(candidates, process, mixture, rng)
        seen = evaluated.add(state.map_.inverse(point[None])[0])
        seen += float(state.map_.log_jacobian(point[None])[0])
        if left > 1:
            top = max(seen, float(process.data.values.max()))
            value = float(dense.compressed(np.array(seen), top, point.size))
            candidates = candidates.including(process, point, value, evaluated.sds[-1])
            process = process.including(point, value, evaluated.sds[-1])


def _checked(
    state: State, evaluated: Evaluated, settings: Settings, rng: np.random.Generator
) -> tuple[State, bool]:
    """The state after a last look at the components that the surrogate knows least, and whether the
    look ended without a surprise.

    The last fit may have put one where nothing was ever evaluated. If a value there is a surprise,
    the surrogate learns it, the fit is made again, and the next doubtful ones are looked at.
    """
    for _ in range(_LOOKS):
        left = max(0, settings.max_fun_evals - len(evaluated))
        count = min(settings.fun_evals_per_iter, left)
        mixture, process = state.fitted.mixture, state.process
        doubt = np.sqrt(integrals.variances(process, mixture.means, mixture.sds)[0])
        chosen = np.argsort(-mixture.weights * doubt)[:count]
        steps = mixture.sds[chosen] * rng.standard_normal((len(chosen), mixture.dimension))
        points = mixture.means[chosen] + steps
        mean, variance = process.predict(points)
        found = np.array([evaluated.add(x) for x in state.map_.inverse(points)])
        found += state.map_.log_jacobian(points)
        data = evaluated.seen_from(state.map_)
        misses = np.abs(dense.compressed(found, float(data.values.max()), mixture.dimension) - mean)
        noise = np.array(evaluated.sds[len(evaluated) - len(points) :])
        if not (misses > 0.5 + 3 * np.sqrt(variance + noise**2)).any():
            return iteration.conditioned(state, data, rng), True
        state = final_fit.final(iteration.relearned(state, data), settings, rng)
    return state, False


def _ways(problem: Problem, history: list[State], count: int, settings: Settings) -> Sequence[Way]:
    """How the points of the next iteration are chosen: the calmer the run, the more of them put the
    mixture to the test.

    Up to four dimensions one looks for what the mixture misses, and two more for each calm
    iteration since the last that was not. In more, nearly all mass lies where no single point is
    worth much, and they are draws of it, two for each calm iteration of those that decide whether
    the run has settled. With noise most are draws, always.
    """
    if problem.noisy:
        return ([scout] * count + [typical, typical, tempered, tempered])[-count:]
    small = _small(history, settings)
    if problem.dimension > MANY:
        test, tests = typical, _CALM * sum(small)
    else:
        test, tests = scout, 1 + _CALM * sum(1 for _ in takewhile(bool, small))
    tests = min(tests, count)
    return [worthy] * (count - tests) + [test] * tests


def _settled(history: list[State], settings: Settings) -> bool:
    """Whether most of the last iterations changed little, the last one too."""
    small = _small(history, settings)
    return (
        len(small) == settings.settled_iterations
        and small[0]
        and sum(small) >= 0.8 * settings.settled_iterations
    )


def _small(history: list[State], settings: Settings) -> list[bool]:
    """Which of the last iterations changed little, the latest first."""
    pairs = zip(history[-2::-1], history[:0:-1], strict=True)
    return [
        _is_small(*pair, settings.tolerance) for pair in islice(pairs, settings.settled_iterations)
    ]


def _is_small(before: State, after: State, tolerance: float) -> bool:
    """Small change of the ELBO, small sd, small shift of the mean in units of the spread."""
    mean, covariance = after.fitted.mixture.moments()
    moved = space.moved(before.fitted.mixture, before.map_, after.map_)
    shift = np.abs(mean - moved.moments()[0]) / np.sqrt(np.diag(covariance))
    return bool(
        abs(after.fitted.elbo - before.fitted.elbo) < tolerance
        and after.fitted.elbo_sd < 3 * tolerance
        and shift.max() < 3 * tolerance
    )


def as_surrogate(process: Process) -> Surrogate:
    """The process as the arrays that a run keeps; very low values are compressed (`gp`)."""
    h, d = process.hyperparameters, process.dimension
    return Surrogate(
        inputs=process.data.inputs,
        values=process.data.values,
        noise_variance=process.data.noise[None],
        log_lengths=h[None, :d],
        log_output=h[d : d + 1],
        mean="negative_quadratic",
        mean_parameters=h[None, d + 1 :],
    )
