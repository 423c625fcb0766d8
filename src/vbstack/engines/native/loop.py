"""The native engine: variational Bayesian Monte Carlo, arranged for runs that will be stacked.

    repeat: evaluate a few points, some of them exploratory (acquisition) · refit the surrogate
            (hyperparameter_fit) · refit the mixture (mixture_fit) · after warm-up, whiten or turn
            the space, or go back to the parameters' own axes, if that is better (change_of_space)
    until:  ELBO, its sd and the mean have settled
    end:    own axes once more; a final fit with more components, penalised for uncertainty
            (final_fit); validation evaluations at the least certain of them

A run only has to be right about the region it covers, and to know its own error: stacking chooses
the weights. Everything is deterministic given the start and the seed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vbstack.arrays import Array
from vbstack.engines.native import change_of_space, evaluating, final_fit, iteration, looks, space
from vbstack.engines.native.acquisition import (
    Region,
    Way,
    exploratory,
    flattened_draw,
    mixture_draw,
    most_promising,
)
from vbstack.engines.native.iteration import State
from vbstack.engines.native.settings import MANY, Settings
from vbstack.engines.native.training import compressed, training_data
from vbstack.engines.recorder import Recorder
from vbstack.gaussian_process.hyperparameters import as_surrogate
from vbstack.gaussian_process.quadrature import (
    covariance,
    expected_log_joints,
    standard_deviations,
)
from vbstack.problem import Problem
from vbstack.runs.run import Run
from vbstack.runs.versions import NATIVE_PACKAGES, recorded_versions

# Widths of the plausible box, of which each run draws one. Runs that begin near their start climb
# the mode that it is nearest to, and find most; where the posterior fills the box they take more
# evaluations (mass at a bound: 76, 58 and 52, medians of ten or twelve runs, not kept).
_REACHES = (0.15, 0.3, np.inf)
_WHITENING_PAUSE = 4  # iterations between two attempts at another space
_CALM = 2  # more exploratory evaluations for every calm iteration
_VALIDATIONS = 4  # of the final fit, at most
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
        rng = np.random.default_rng([seed, 4])
        state, settled = _explore(problem, start, seed, recorder, settings)
        if settings.whitenings:
            state = change_of_space.straightened(state, recorder, rng)
        state = final_fit.final(state, settings, rng)
        state, valid = _validated(state, recorder, settings, rng)
        evaluating.ask_the_constraint(state, recorder, rng)
    mixture, process = state.fitted.mixture, state.process
    return Run(
        weights=mixture.weights,
        means=mixture.means,
        sds=mixture.sds,
        transform=state.map_,
        log_joint=expected_log_joints(process, mixture.means, mixture.sds)[0][None],
        log_joint_covariance=misfit * covariance(process, mixture.means, mixture.sds)[None],
        elbo=state.fitted.elbo,
        elbo_sd=float(np.sqrt(misfit)) * state.fitted.elbo_sd,
        converged=settled and valid,
        noise_level=2 if problem.noisy else 0,
        names=tuple(problem.names),
        surrogate=as_surrogate(
            process.hyperparameters,
            process.data.inputs,
            process.data.values,
            process.data.noise_variance,
        ),
        evaluations=recorder.evaluations(),
        start=start,
        seed=seed,
        seconds=time.perf_counter() - begun,
        engine="native",
        versions=recorded_versions(NATIVE_PACKAGES),
        floored=len(recorder.floored),
    )


def _explore(
    problem: Problem, start: Array, seed: int, recorder: Recorder, settings: Settings
) -> tuple[State, bool]:
    """The last state, and whether everything had settled."""
    rng = np.random.default_rng([seed, 3])
    if settings.reach is None:
        drawn = float(np.random.default_rng([seed, 5]).choice(_REACHES))
        settings = replace(settings, reach=drawn)
    map_ = space.unit_box(problem)
    evaluating.first(problem, start, recorder, rng, settings)
    history: list[State] = []
    recorder.observe = lambda: (
        len(history),
        history[-1].fitted.elbo if history else None,
    )
    best: list[float] = []
    warming, whitenings, tried = True, 0, -_WHITENING_PAUSE
    looked = 0  # iterations before another mode was found: they say nothing about settling
    state = iteration.first_state(recorder, map_, rng)
    while len(recorder) < settings.max_fun_evals and len(history) < settings.max_iter:
        count = min(settings.fun_evals_per_iter, settings.max_fun_evals - len(recorder))
        recent = history[looked:]
        if settings.looks and not warming and any(_small(recent, settings)[:1]):
            other = looks.elsewhere(state, recorder, rng, settings)
            if other is not None:
                state, looked = other, len(history) + 1
                history.append(state)
                continue
            others = max(1, count - looks.per_iteration(problem.dimension))
            count = min(others, settings.max_fun_evals - len(recorder))
        region = _region(state, settings) if warming else None
        evaluating.more(state, recorder, rng, _ways(problem, recent, count, settings), region)
        best.append(float(training_data(recorder, state.map_).values.max()))
        if warming and len(best) > 3 and best[-1] - best[-4] < 1.0:
            warming = False
        state = iteration.refitted(state, recorder, rng, warming, len(history))
        due = len(history) - tried >= _WHITENING_PAUSE and state.fitted.elbo_sd < iteration.RELIABLE
        if not warming and due and whitenings < settings.whitenings:
            tried, before = len(history), state
            state = change_of_space.improved(state, recorder, rng)
            whitenings += state is not before
        history.append(state)
        if not warming and _settled(history[looked:], settings):
            return state, True
    return state, False


def _region(state: State, settings: Settings) -> Region | None:
    """Where the next steps of the warm-up may go: around the best point, as far as the reach."""
    if settings.reach is None or np.isinf(settings.reach):
        return None
    data = state.process.data
    return Region(data.inputs[data.values.argmax()], settings.reach)


def _validated(
    state: State, recorder: Recorder, settings: Settings, rng: np.random.Generator
) -> tuple[State, bool]:
    """Validate the least certain components with new evaluations; refit on failure.

    The final fit may have put a component where nothing was ever evaluated. If an evaluation there
    is far from what the surrogate predicts, the surrogate and the final fit are made again with it,
    and the next uncertain components are validated. Also returned: whether the last ones passed.
    """
    for _ in range(_VALIDATIONS):
        left = max(0, settings.max_fun_evals - len(recorder))
        count = min(settings.fun_evals_per_iter, left)
        mixture, process = state.fitted.mixture, state.process
        doubt = standard_deviations(process, mixture.means, mixture.sds)
        chosen = np.argsort(-mixture.weights * doubt)[:count]
        steps = mixture.sds[chosen] * rng.standard_normal((len(chosen), mixture.dimension))
        points = mixture.means[chosen] + steps
        mean, variance = process.predict(points, lowered=False)
        made = [recorder(x) for x in state.map_.inverse(points)]
        found = np.array([evaluation.value for evaluation in made])
        found += state.map_.log_jacobian(points)
        data = training_data(recorder, state.map_)
        inside = np.isfinite(found)
        top, dimension = float(data.values.max()), mixture.dimension
        misses = np.abs(compressed(found[inside], top, dimension) - mean[inside])
        noise = np.array([evaluation.sd or 0.0 for evaluation in made])[inside]
        if not (misses > 0.5 + 3 * np.sqrt(variance[inside] + noise**2)).any():
            return iteration.with_surrogate_conditioned(state, data, rng), True
        refitted = iteration.with_surrogate_refitted(state, data)
        state = final_fit.final(refitted, settings, rng)
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
        return ([exploratory] * count + [mixture_draw] * 2 + [flattened_draw] * 2)[-count:]
    small = _small(history, settings)
    if problem.dimension > MANY:
        test, tests = mixture_draw, _CALM * sum(small)
    else:
        test, tests = exploratory, 1 + _CALM * sum(1 for _ in takewhile(bool, small))
    tests = min(tests, count)
    return [most_promising] * (count - tests) + [test] * tests


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
    moved = space.mixture_in_space(before.fitted.mixture, before.map_, after.map_)
    shift = np.abs(mean - moved.moments()[0]) / np.sqrt(np.diag(covariance))
    return bool(
        abs(after.fitted.elbo - before.fitted.elbo) < tolerance
        and after.fitted.elbo_sd < 3 * tolerance
        and shift.max() < 3 * tolerance
    )
