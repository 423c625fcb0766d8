"""The native engine: variational Bayesian Monte Carlo, arranged for runs that will be stacked.

    repeat: evaluate five points (acquisition) · refit the surrogate (gp) · refit the mixture
            (mixture_fit) · after warm-up, whiten the space if the evaluations are then more
            likely (space)
    until:  ELBO, its sd and the mean have settled
    end:    up to fifty components, kept away from where the surrogate is uncertain

A run only has to be right about the region it covers, and to know its own error: stacking chooses
the weights. Everything is deterministic given the start and the seed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vbstack.engine import Recorder
from vbstack.engines.native import gp, mixture_fit, quadrature, space
from vbstack.engines.native.acquisition import Candidates
from vbstack.engines.native.gp import Data, Process
from vbstack.engines.native.mixture_fit import Fitted, Mixture
from vbstack.engines.native.settings import Settings
from vbstack.problem import Problem
from vbstack.run import Run
from vbstack.surrogate import Surrogate
from vbstack.transform import Transform

Array = NDArray[np.float64]

_WHITENING_PAUSE = 4  # iterations between two attempts at whitening
_ROUNDS = 5  # short fits of the mixture per iteration
_MOST = 50  # components before the last fit
_LOST = 5.0  # nats per dimension: a mixture so far below the best value has lost the posterior
_GROWTH_GAIN = 0.005  # nats that more components must bring
_MISFIT = (
    3.0  # by which J is enlarged at the end: no log density is a draw of the surrogate's prior
)
_LIKELIHOOD_GAIN = 2.0  # nats by which a whitened space must explain the evaluations better


@dataclass(frozen=True)
class State:
    """One iteration: the space, the surrogate, the mixture and what it is worth."""

    map_: Transform
    process: Process
    fitted: Fitted


class Evaluated:
    """The evaluations of a run, in the original space, seen from any other."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        known = recorder.precomputed
        self.x = [np.array(entry.x) for entry in known]
        self.values = [entry.value for entry in known]

    def add(self, x: Array) -> float:
        value = self.recorder(x)
        if isinstance(value, tuple):
            raise TypeError("the native engine is for log densities without noise")
        self.x.append(np.array(x))
        self.values.append(value)
        return value

    def seen_from(self, map_: Transform) -> Data:
        """Inputs in the run's space and values with the log-Jacobian of its map.

        A point on a hard bound has no place there, and is left out.
        """
        x = np.array(self.x)
        inside = map_.link.inside(x)
        u = map_.forward(x[inside])
        return Data.of(u, np.array(self.values)[inside] + map_.log_jacobian(u))

    def __len__(self) -> int:
        return len(self.x)


def run_native(
    problem: Problem, start: Array, seed: int, recorder: Recorder, options: Mapping[str, Any]
) -> Run:
    """One run with one thread; it depends on nothing but its arguments and the libraries."""
    if problem.noisy:
        raise ValueError("the native engine is for log densities without noise; use pyvbmc")
    settings = Settings.of(options, problem.dimension)
    if not space.unit_box(problem).link.inside(start[None])[0]:
        raise ValueError(
            f"the start {start.tolist()} is not within the hard bounds; move it inside"
        )
    begun = time.perf_counter()
    with threadpool_limits(1):
        state, settled = _explore(problem, start, seed, recorder, settings)
        state = _final(state, settings, np.random.default_rng([seed, 4]))
    mixture, process = state.fitted.mixture, state.process
    return Run(
        weights=mixture.weights,
        means=mixture.means,
        sds=mixture.sds,
        transform=state.map_,
        log_joint=quadrature.integrals(process, mixture.means, mixture.sds)[0][None],
        log_joint_covariance=_MISFIT
        * quadrature.covariance(process, mixture.means, mixture.sds)[None],
        elbo=state.fitted.elbo,
        elbo_sd=float(np.sqrt(_MISFIT)) * state.fitted.elbo_sd,
        converged=settled,
        noise_level=0,
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
    problem: Problem, start: Array, seed: int, recorder: Recorder, settings: Settings
) -> tuple[State, bool]:
    """The last state, and whether everything had settled."""
    rng = np.random.default_rng([seed, 3])
    evaluated = Evaluated(recorder)
    map_ = space.unit_box(problem)
    _evaluate_first(problem, start, evaluated, rng, settings)
    history: list[State] = []
    recorder.observe = lambda: (len(history), history[-1].fitted.elbo if history else None)
    best: list[float] = []
    warming, whitenings, tried = True, 0, -_WHITENING_PAUSE
    state = _first_state(evaluated, map_, rng)
    while len(evaluated) < settings.budget and len(history) < settings.max_iter:
        count = min(settings.fun_evals_per_iter, settings.budget - len(evaluated))
        _evaluate_more(state, evaluated, rng, count)
        best.append(float(evaluated.seen_from(state.map_).values.max()))
        if warming and len(best) > 3 and best[-1] - best[-4] < 1.0:
            warming = False
        state = _refitted(state, evaluated, rng, warming, len(history))
        due = len(history) - tried >= _WHITENING_PAUSE and state.fitted.elbo_sd < 1.0
        if not warming and due and whitenings < settings.whitenings:
            tried, before = len(history), state
            state = _whitened(state, evaluated, rng)
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
    wanted = min(settings.fun_eval_start, settings.budget)
    for point in (start, *others):
        if len(evaluated) < wanted and tuple(point) not in known:
            evaluated.add(point)


def _first_state(evaluated: Evaluated, map_: Transform, rng: np.random.Generator) -> State:
    data = evaluated.seen_from(map_)
    process = gp.fit(data, [gp.first_guess(data)], 50)
    return State(map_, process, _fitted(process, _at_the_top(process), rng))


def _at_the_top(process: Process) -> Mixture:
    """Two narrow components at the two best points."""
    means = process.data.inputs[np.argsort(process.data.values)[:-3:-1]]
    sds = np.minimum(0.1, 0.3 * process.lengths)
    return Mixture(np.array([0.5, 0.5]), means, np.tile(sds, (2, 1)))


def _fitted(process: Process, start: Mixture, rng: np.random.Generator) -> Fitted:
    mixture = mixture_fit.fit(process, start, rng, rounds=_ROUNDS)
    return mixture_fit.evaluated(process, mixture, rng)


def _evaluate_more(
    state: State, evaluated: Evaluated, rng: np.random.Generator, count: int
) -> None:
    """Choose and evaluate points one after the other, each with the knowledge of the last."""
    process, mixture = state.process, state.fitted.mixture
    candidates = Candidates.of(process, mixture, state.map_, rng)
    for left in range(count, 0, -1):
        point = candidates.best(process, mixture, rng)
        seen = evaluated.add(state.map_.inverse(point[None])[0])
        seen += float(state.map_.log_jacobian(point[None])[0])
        if left > 1:
            top = max(seen, float(process.data.values.max()))
            value = float(gp.compressed(np.array(seen), top, point.size))
            candidates = candidates.including(process, point, value)
            process = process.including(point, value)


def _refitted(
    state: State, evaluated: Evaluated, rng: np.random.Generator, warming: bool, iteration: int
) -> State:
    """Surrogate and mixture after new evaluations, from where they were."""
    data = evaluated.seen_from(state.map_)
    starts = [state.process.hyperparameters]
    if warming or iteration % 5 == 0:
        starts.append(gp.first_guess(data))
    if not warming and iteration % 5 in (0, 3):
        starts.append(gp.gaussian_guess(data, *state.fitted.mixture.moments()))
    process = gp.fit(data, starts, 30)
    fitted = _fitted(process, state.fitted.mixture, rng)
    if warming or fitted.elbo < data.values.max() - _LOST * process.dimension:
        fitted = max(fitted, _fitted(process, _at_the_top(process), rng), key=lambda fit: fit.elbo)
    if not warming and fitted.elbo_sd < 1.0:
        fitted = _grown(process, fitted, int(len(data.values) ** (2 / 3)), rng)
    return State(state.map_, process, fitted)


def _grown(process: Process, fitted: Fitted, limit: int, rng: np.random.Generator) -> Fitted:
    """With more components, up to `limit`, if they raise the ELBO; else as it was."""
    size = min(limit, _MOST, 2 + int(1.5 * fitted.mixture.size))
    if size <= fitted.mixture.size:
        return fitted
    mixture = mixture_fit.split(fitted.mixture, size, rng)
    more = _fitted(process, mixture, rng)
    return more if more.elbo > fitted.elbo + _GROWTH_GAIN else fitted


def _whitened(state: State, evaluated: Evaluated, rng: np.random.Generator) -> State:
    """The state in a whitened space, if the evaluations are more likely there; else as it was.

    Both spaces have the same volume, so both processes explain the same values.
    """
    map_ = space.whitened(state.map_, state.fitted.mixture)
    data = evaluated.seen_from(map_)
    start = space.moved_hyperparameters(state.process.hyperparameters, state.map_, map_)
    process = gp.fit(data, [start], 50)
    if process.log_likelihood < state.process.log_likelihood + _LIKELIHOOD_GAIN:
        return state
    mixture = space.moved(state.fitted.mixture, state.map_, map_)
    mixture = mixture_fit.fit(process, mixture, rng, rounds=2 * _ROUNDS)
    return State(map_, process, mixture_fit.evaluated(process, mixture, rng))


def _settled(history: list[State], settings: Settings) -> bool:
    """Whether most of the last iterations changed little, the last one too."""
    window = settings.settled_iterations
    if len(history) <= window:
        return False
    small = [
        _is_small(before, after, settings.tolerance)
        for before, after in zip(history[-window - 1 : -1], history[-window:], strict=True)
    ]
    return small[-1] and sum(small) >= 0.8 * window


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


def _final(state: State, settings: Settings, rng: np.random.Generator) -> State:
    """A last fit, wary of uncertainty: with as many components as before, or with many if better.

    For a target that is nearly Gaussian in many dimensions many are worse: there is more to fit.
    """
    starts = [state.fitted.mixture]
    if settings.final_components > starts[0].size:
        starts.append(mixture_fit.split(starts[0], settings.final_components, rng))
    fits = [_wary(state.process, start, settings, rng) for start in starts]
    return replace(state, fitted=max(fits, key=lambda fit: fit[0])[1])


def _wary(
    process: Process, start: Mixture, settings: Settings, rng: np.random.Generator
) -> tuple[float, Fitted]:
    """The fit from `start` without the components that the surrogate does not know, and its ELBO
    less the penalty."""
    mixture = mixture_fit.fit(process, start, rng, rounds=20, penalty=settings.penalty)
    variance = quadrature.variances(process, mixture.means, mixture.sds)[0]
    drop = (variance > settings.largest_variance) | (mixture.weights < 1e-6)
    mixture = mixture_fit.without(mixture, drop)
    fitted = mixture_fit.evaluated(process, mixture, rng, 256)
    spread = np.sqrt(quadrature.variances(process, mixture.means, mixture.sds)[0])
    return fitted.elbo - settings.penalty * float(mixture.weights @ spread), fitted


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
