"""Were the evaluations in a store made with this log density?

Two questions. Is it made of the same parts (`Fingerprint`)? And has it the same values: one
evaluation of the store is made again when the parts are the same and runs are to be made, two when
parts differ or cannot be compared, and two more at the edge of the support if it has one. There the
constraint, which costs nothing, is asked at all points of the store. Only a value can show that a
file changed which the log density reads; only the parts can show a change of a noisy one that has
no `rng`. Other code is refused even if the evaluations agree: it may differ anywhere else. Other
values that it uses are then accepted: a log density may change them itself, as a counter or a
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from vbstack.arrays import Array
from vbstack.launching.reasons import Reasons
from vbstack.launching.worker import Outcome, Recorded, Task
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.fingerprint import FILE, Fingerprint, is_code
from vbstack.runs.plan import Plan
from vbstack.runs.run import Run
from vbstack.runs.store import RunStore, StoreMismatch

_EXACT = 1e-8  # relative and absolute: rounding differs between machines and libraries
_REPLAYED = 1e-12  # the same, of a stochastic log density with the generator it had
_NOISY = 6.0  # standard deviations of the difference of two noisy values
_ATTEMPTS = 3  # generators that an evaluation may have had with on_error="retry"

Perform = Callable[[Task], Outcome]


def check_model(
    problem: Problem,
    store: RunStore,
    plan: Plan,
    now: Fingerprint,
    finished: Mapping[int, Run],
    perform: Perform,
    runs_are_missing: bool,
) -> str:
    """A line to show if the log density uses other values; `StoreMismatch` if it is another.

    `perform` does the task of evaluating again, wherever runs are made.
    """
    then = plan.model
    different = [] if then is None else then.differences(now)
    untold = [] if then is None else then.incomparable(now)
    # A file that an argument names may be one that the log density writes: a value decides.
    rewritten = [part for part in different if not part.startswith(FILE)]
    unsure = then is None or bool(rewritten) or bool(untold)
    known = recorded(problem, store, plan, finished, unsure)
    if not known and not finished:
        if different and _under_way(store):
            lines = [f"{part} differs" for part in different]
            raise _mismatch(store, lines, " (its runs are under way)")
        return ""
    blind = problem.noisy and not problem.takes_rng
    if (different and not known) or (rewritten and blind):
        why = "is noisy without rng" if blind else "left no evaluations to compare"
        raise _mismatch(store, [f"{part} differs" for part in different], f" (it {why})")
    if unsure:
        _check_constraint(problem, store, finished, different)
        asked = [*known[:2], *edge(problem, plan, finished)]
    else:
        asked = known[:1] if runs_are_missing or different else []
    wrong = list(_wrong_values(problem, plan, asked, perform)) if asked else []
    if wrong:
        raise _mismatch(store, [*(f"{part} differs" for part in different), *wrong])
    if any(map(is_code, different)):
        note = f" (although it has the same values at {len(asked)} points)"
        raise _mismatch(store, [f"{part} differs" for part in different], note)
    same = (
        f"has the same values at {len(asked)} points of the store" if asked else "is taken as it is"
    )
    if rewritten:
        return f"the log density uses other values ({', '.join(rewritten)}) but {same}"
    if untold:
        return f"the log density was written for another version of Python; it {same}"
    return ""


def recorded(
    problem: Problem,
    store: RunStore,
    plan: Plan,
    finished: Mapping[int, Run],
    running_ones: bool = True,
) -> list[Recorded]:
    """Evaluations in the store, those to be made again first: the highest and the lowest.

    Of a log density with `rng` the first ones of runs: their generator is known for certain, also
    if the run was resumed with evaluations known beforehand. Runs that are under way are left out
    unless `running_ones` is given.
    """
    found = [one for index, run in finished.items() for one in _of_run(index, run, plan)]
    for index in store.begun():
        if index not in finished and (running_ones or store.state(index).state != "running"):
            seed = plan.run_seed(index)
            found += [
                (place, Recorded(index, one.x, one.value, one.sd, _seeds(seed, place, plan)))
                for place, one in store.journalled(index).items()
                if not one.failure and np.isfinite(one.value)
            ]
            found += [
                (place, Recorded(index, one.x, one.value, one.sd))
                for place, one in enumerate(store.precomputed(index))
                if not one.failure and np.isfinite(one.value)
            ]
    if problem.takes_rng:
        return [one for _, one in sorted(found, key=lambda item: item[0]) if one.seeds]
    by_value = sorted((one for _, one in found), key=lambda one: one.value)
    return [by_value[-1], *by_value[:-1]] if by_value else []


def edge(problem: Problem, plan: Plan, finished: Mapping[int, Run]) -> list[Recorded]:
    """The pair of points, one inside the support and one outside, that are nearest to each other.

    Where only the support changed, its edge moved: the highest and the lowest value do not tell.
    Of a log density with `rng` only the one outside, which does not depend on the generator.
    """
    every = [(i, run, run.evaluations) for i, run in finished.items() if run.evaluations]
    found = [
        _recorded(index, run, plan, int(place))
        for index, run, made in every
        for place in np.flatnonzero(~(made.outside & _marked(made.failed, made.size)))
    ]
    inside = [one for one in found if np.isfinite(one.value)]
    outside = [one for one in found if np.isneginf(one.value)]
    if not inside or not outside:
        return []
    widths = problem.plausible_upper_bounds - problem.plausible_lower_bounds
    within, beyond = (np.array([one.x for one in part]) / widths for part in (inside, outside))
    distance, nearest = cKDTree(within).query(beyond)
    place = int(np.argmin(distance))
    pair = [inside[nearest[place]], outside[place]]
    return pair[1:] if problem.takes_rng else pair


def _under_way(store: RunStore) -> bool:
    return any(state.state == "running" for state in store.states())


def _check_constraint(
    problem: Problem, store: RunStore, finished: Mapping[int, Run], different: Sequence[str]
) -> None:
    """An error unless the constraint holds where the store has evaluations, and only there."""
    for index, run in finished.items():
        made = run.evaluations
        if made is None or (problem.constraint is None and made.rejected is None):
            continue
        for x, rejected in zip(made.x, _marked(made.rejected, made.size), strict=True):
            if _allows(problem, x) == rejected:
                then, now = ("false", "true") if rejected else ("true", "false")
                line = f"run {index}, x = {x.tolist()}: the constraint was {then}, and is {now} now"
                raise _mismatch(store, [*(f"{part} differs" for part in different), line])


def _allows(problem: Problem, x: Array) -> bool:
    try:
        return problem.allows(x)
    except EvaluationError:  # the log density is asked there, as by a run, and fails
        return True


def _marked(which: NDArray[np.bool_] | None, size: int) -> NDArray[np.bool_]:
    return np.zeros(size, dtype=bool) if which is None else which


def _of_run(index: int, run: Run, plan: Plan) -> Iterator[tuple[int, Recorded]]:
    made = run.evaluations
    if made is None:
        return
    for place in np.flatnonzero(np.isfinite(made.values) & ~_marked(made.failed, made.size)):
        yield int(place), _recorded(index, run, plan, int(place))


def _recorded(index: int, run: Run, plan: Plan, place: int) -> Recorded:
    """Evaluation `place` of a finished run."""
    made = run.evaluations
    assert made is not None
    seed = run.seed if run.seed == plan.run_seed(index) else None
    sd = None if made.sds is None else float(made.sds[place])
    x, value = tuple(made.x[place].tolist()), float(made.values[place])
    return Recorded(index, x, value, sd, _seeds(seed, place, plan))


def _seeds(seed: int | None, place: int, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """The seeds that `Recorder` gives to evaluation `place` of a run, at each attempt."""
    attempts = _ATTEMPTS if plan.on_error == "retry" else 1
    return () if seed is None else tuple((seed, 2, place, k) for k in range(attempts))


def _wrong_values(
    problem: Problem, plan: Plan, asked: Sequence[Recorded], perform: Perform
) -> Iterator[str]:
    """A line for every evaluation that comes out differently now."""
    outcome = perform(Task("", asked[0].run, plan, again=tuple(asked)))
    if outcome.status != "asked":
        yield f"it could not be evaluated again: {outcome.message}"
        return
    reasons = Reasons()
    for old, found in zip(asked, outcome.found, strict=True):
        where = f"run {old.run}, x = {list(old.x)}: {_text(old.value, old.sd)} in the store"
        if isinstance(found, str):
            yield f"{where}, now {reasons.line(old.run, found)}"
        elif not any(_same(problem, old, value, sd) for value, sd in found):
            yield f"{where}, {_text(*found[0])} now"


def _same(problem: Problem, old: Recorded, value: float, sd: float | None) -> bool:
    if np.isneginf(old.value) or np.isneginf(value):
        return old.value == value
    if problem.takes_rng:
        sds = (old.sd or 0.0, sd or 0.0)
        return _close(old.value, value, _REPLAYED) and _close(*sds, _REPLAYED)
    if old.sd is not None and sd is not None:
        return abs(value - old.value) <= _NOISY * float(np.hypot(sd, old.sd))
    return _close(old.value, value, _EXACT)


def _close(first: float, second: float, tolerance: float) -> bool:
    return bool(np.isclose(second, first, rtol=tolerance, atol=tolerance))


def _text(value: float, sd: float | None) -> str:
    return f"{value!r}" if sd is None else f"{value!r} ± {sd:.3g}"


def _mismatch(store: RunStore, lines: Sequence[str], note: str = "") -> StoreMismatch:
    return StoreMismatch(
        f"{store.directory} holds evaluations of another log density{note}:\n  "
        + "\n  ".join(lines)
        + "\nUse another directory; or set what is there aside and begin anew with fresh=True "
        "(--fresh); or, if you know that it belongs together, trust_store=True (--trust-store)."
    )
