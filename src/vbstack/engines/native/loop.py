"""The native engine: variational Bayesian Monte Carlo, arranged for runs that will be stacked.

    repeat: evaluate a few points, some of them exploratory (acquisition) · refit the surrogate
            (hyperparameter_fit) · refit the mixture (mixture_fit) · after warm-up, whiten
            the space, or go back to the parameters' own axes, if that is better (change_of_space);
            once calm, look elsewhere (looks)
    until:  ELBO, its sd and the mean have settled, and looks find nothing more
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
from typing import Any, NamedTuple

import numpy as np

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
from vbstack.engines.native.policy import MANY, Policy
from vbstack.engines.native.training import compressed, training_data
from vbstack.engines.one_thread import one_thread
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


def run_native(
    problem: Problem, start: Array, seed: int, recorder: Recorder, options: Mapping[str, Any]
) -> Run:
    """One run with one thread; it depends on nothing but its arguments and the libraries."""
    policy = Policy.of(options, problem.dimension, problem.noisy)
    if not space.unit_box(problem).link.inside(start[None])[0]:
        raise ValueError(
            f"the start {start.tolist()} is not within the hard bounds; move it inside"
        )
    begun = time.perf_counter()
    with one_thread():
        rng = np.random.default_rng([seed, 4])
        state, settled, looked = _explore(problem, start, seed, recorder, policy)
        if policy.whitenings and policy.own_axes:
            state = change_of_space.straightened(state, recorder, rng, policy)
        state = final_fit.final(state, policy, rng)
        state, valid = _validated(state, recorder, policy, rng)
        evaluating.ask_the_constraint(state, recorder, rng)
    mixture, process = state.fitted.mixture, state.process
    return Run(
        weights=mixture.weights,
        means=mixture.means,
        sds=mixture.sds,
        transform=state.map_,
        log_joint=expected_log_joints(process, mixture.means, mixture.sds)[0][None],
        log_joint_covariance=policy.misfit * covariance(process, mixture.means, mixture.sds)[None],
        elbo=state.fitted.elbo,
        elbo_sd=float(np.sqrt(policy.misfit)) * state.fitted.elbo_sd,
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
        looks=looked,
    )


class Explored(NamedTuple):
    """What a run knows when it stops evaluating at its own choice."""

    state: State
    settled: bool
    looks: int  # places, the start among them, where it could have met another mode and did not


def _explore(
    problem: Problem, start: Array, seed: int, recorder: Recorder, policy: Policy
) -> Explored:
    """The last state, whether everything had settled, and the looks that found nothing."""
    rng = np.random.default_rng([seed, 3])
    if policy.reach is None:
        drawn = np.random.default_rng([seed, 5]).choice(policy.reaches)
        policy = replace(policy, reach=float(drawn))
    map_ = space.unit_box(problem)
    evaluating.first(problem, start, recorder, rng, policy)
    history: list[State] = []
    recorder.observe = lambda: (len(history), history[-1].fitted.elbo if history else None)
    best: list[float] = []
    warming, whitenings, tried = True, 0, -policy.space_pause
    began = 0  # the iteration since which the run knows its modes; those before say nothing
    quiet = int(np.isfinite(policy.reach or np.inf))  # looks that found nothing; a start is one
    outside = 0  # of them, outside the support
    state = iteration.first_state(recorder, map_, rng, policy)
    while len(recorder) < policy.max_fun_evals and len(history) < policy.max_iter:
        recent = history[began:]
        calm = not warming and any(_small(recent, policy)[:1])
        settled = not warming and _settled(recent, policy)
        left = max(0, policy.looks - quiet)
        wanted = left if settled else min(left, policy.calm_looks) if calm else 0
        region = _region(state, policy) if warming else None
        made = len(recorder)
        if policy.batch:
            points = 0 if settled else policy.fun_evals_per_iter
            looked = _side_by_side(state, recorder, rng, policy, recent, region, wanted, points)
        else:
            looked = looks.elsewhere(state, recorder, rng, policy, wanted)
        quiet, outside = quiet + looked.in_vain, outside + looked.outside
        if looked.state is not None:
            state, began = looked.state, len(history) + 1
            history.append(state)
            continue
        if settled and (looked.in_vain == wanted or not looks.affordable(recorder, policy)):
            data = training_data(recorder, state.map_)
            state = iteration.with_surrogate_conditioned(state, data, rng)
            return Explored(state, True, quiet - outside)
        if settled or not policy.batch:
            spent = 0 if settled else len(recorder) - made
            count = max(1, policy.fun_evals_per_iter - spent)
            ways = _ways(problem, recent, min(count, policy.max_fun_evals - len(recorder)), policy)
            evaluating.more(state, recorder, rng, policy, ways, region)
        best.append(float(training_data(recorder, state.map_).values.max()))
        warming = warming and not policy.at_the_top(best)
        state = iteration.refitted(state, recorder, rng, policy, warming, len(history))
        due = len(history) - tried >= policy.space_pause and state.fitted.elbo_sd < policy.reliable
        if not warming and due and whitenings < policy.whitenings:
            tried, before = len(history), state
            state = change_of_space.improved(state, recorder, rng, policy)
            whitenings += state is not before
        history.append(state)
    return Explored(state, not warming and _settled(history[began:], policy), quiet - outside)


def _side_by_side(
    state: State,
    recorder: Recorder,
    rng: np.random.Generator,
    policy: Policy,
    recent: list[State],
    region: Region | None,
    wanted: int,
    count: int,
) -> looks.Looked:
    """Evaluate looks and an iteration's other points, `count` together, all at once."""
    places = looks.places(state, recorder, rng, policy, wanted)
    left = policy.max_fun_evals - len(recorder) - len(places)
    others = min(max(1, count - len(places)), left) if count else 0
    ways = _ways(recorder.problem, recent, others, policy)
    points = evaluating.chosen(state, recorder, rng, policy, ways, region)
    found = recorder.many([*places, *points])
    return looks.met(state, recorder, rng, policy, found[: len(places)])


def _region(state: State, policy: Policy) -> Region | None:
    """Where the next steps of the warm-up may go: around the best point, as far as the reach."""
    if policy.reach is None or np.isinf(policy.reach):
        return None
    data = state.process.data
    return Region(data.inputs[data.values.argmax()], policy.reach)


def _validated(
    state: State, recorder: Recorder, policy: Policy, rng: np.random.Generator
) -> tuple[State, bool]:
    """Validate the least certain components with new evaluations; refit on failure.

    The final fit may have put a component where nothing was ever evaluated. If an evaluation there
    is far from what the surrogate predicts, the surrogate and the final fit are made again with it,
    and the next uncertain components are validated. Also returned: whether the last ones passed.
    """
    for _ in range(policy.validations):
        left = max(0, policy.max_fun_evals - len(recorder))
        count = min(policy.fun_evals_per_iter, left)
        mixture, process = state.fitted.mixture, state.process
        doubt = standard_deviations(process, mixture.means, mixture.sds)
        chosen = np.argsort(-mixture.weights * doubt)[:count]
        steps = mixture.sds[chosen] * rng.standard_normal((len(chosen), mixture.dimension))
        points = mixture.means[chosen] + steps
        mean, variance = process.predict(points, lowered=False)
        made = recorder.many(state.map_.inverse(points))
        found = np.array([evaluation.value for evaluation in made])
        found += state.map_.log_jacobian(points)
        data = training_data(recorder, state.map_)
        inside = np.isfinite(found)
        top, dimension = float(data.values.max()), mixture.dimension
        misses = np.abs(compressed(found[inside], top, dimension) - mean[inside])
        noise = np.array([evaluation.sd or 0.0 for evaluation in made])[inside]
        allowed = policy.validation_sds * np.sqrt(variance[inside] + noise**2)
        if not (misses > policy.validation_nats + allowed).any():
            return iteration.with_surrogate_conditioned(state, data, rng), True
        refitted = iteration.with_surrogate_refitted(state, data, mixture, rng)
        state = final_fit.final(refitted, policy, rng)
    return state, not policy.validations


def _ways(problem: Problem, history: list[State], count: int, policy: Policy) -> Sequence[Way]:
    """How the points of the next iteration are chosen: the calmer the run, the more of them put the
    mixture to the test.

    Up to four dimensions one looks for what the mixture misses, and two more for each calm
    iteration since the last that was not. In more, nearly all mass lies where no single point is
    worth much, and they are draws of it, two for each calm iteration of those that decide whether
    the run has settled. With noise most are draws, always.
    """
    if problem.noisy:
        ways = [exploratory] * count + [mixture_draw] * 2 + [flattened_draw] * 2
        return ways[len(ways) - count :]
    small = _small(history, policy)
    if problem.dimension > MANY:
        test, tests = mixture_draw, policy.first_tests + policy.calm_tests * sum(small)
    else:
        calm = sum(1 for _ in takewhile(bool, small))
        test, tests = exploratory, policy.first_tests + policy.calm_tests * calm
    tests = min(tests, count)
    return [most_promising] * (count - tests) + [test] * tests


def _settled(history: list[State], policy: Policy) -> bool:
    """Whether most of the last iterations changed little, the last one too."""
    small = _small(history, policy)
    return (
        len(small) == policy.settled_iterations
        and small[0]
        and sum(small) >= policy.settled_share * policy.settled_iterations
    )


def _small(history: list[State], policy: Policy) -> list[bool]:
    """Which of the last iterations changed little, the latest first."""
    pairs = zip(history[-2::-1], history[:0:-1], strict=True)
    return [_is_small(*pair, policy.tolerance) for pair in islice(pairs, policy.settled_iterations)]


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
