"""`Plan`: everything that the runs of a store depend on, besides the log density itself.

Run m of a plan has its own seed and start, drawn from the plan's seed and m alone: it is the same
run on whatever machine, in whatever order, among however many others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from vbstack.arrays import Array
from vbstack.checks import checked_word
from vbstack.modes import EngineName, OnError, StartsKind

Points = tuple[tuple[float, ...], ...]

FORMAT, SCHEMA = "vbstack store", 1


@dataclass(frozen=True)
class Plan:
    """What the runs of a store have in common.

    Parameters
    ----------
    problem : mapping
        `Problem.description()`: names, bounds and noise.
    seed : int
        Of the whole plan.
    engine : "pyvbmc" or "native"
        What makes a run.
    options : mapping
        The engine's options.
    starts : "uniform", "sobol" or points
        Starting points: random or Sobol points in the plausible box, or those given, one per run.
    on_error : "fail_run", "retry" or "floor"
        What happens when the log density fails. Runs without failures do not depend on it, so it
        may be changed from one launch to the next.
    """

    problem: Mapping[str, Any]
    seed: int
    engine: EngineName
    options: Mapping[str, Any] = field(default_factory=dict)
    starts: StartsKind | Points = "uniform"
    on_error: OnError = "fail_run"

    def __post_init__(self) -> None:
        checked_word("on_error", self.on_error, OnError)
        if isinstance(self.starts, str):
            checked_word("starts", self.starts, StartsKind)

    def run_seed(self, index: int) -> int:
        return run_seed(self.seed, index)

    def start(self, index: int) -> Array:
        """The start (D,) of run `index`."""
        lower = np.array(self.problem["plausible_lower_bounds"], dtype=float)
        upper = np.array(self.problem["plausible_upper_bounds"], dtype=float)
        if self.starts == "uniform":
            return np.random.default_rng([self.run_seed(index), 0]).uniform(lower, upper)
        if self.starts == "sobol":
            power = int(np.ceil(np.log2(max(2, index + 1))))
            sobol = qmc.Sobol(lower.size, rng=np.random.default_rng(self.seed))
            return np.asarray(lower + (upper - lower) * sobol.random_base2(power)[index])
        if index >= len(self.starts):
            raise ValueError(
                f"the plan has {len(self.starts)} starting points, none for run {index}: give more "
                "with starts=…"
            )
        return np.array(self.starts[index])

    def as_json(self) -> dict[str, Any]:
        """The content of `store.json`."""
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "seed": self.seed,
            "problem": dict(self.problem),
            "engine": self.engine,
            "options": _plain(dict(self.options)),
            "starts": self.starts if isinstance(self.starts, str) else _plain(self.starts),
            "on_error": self.on_error,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that `as_json` wrote; version 0.1.0 did not write starts and on_error."""
        starts = content.get("starts", "uniform")
        return cls(
            problem=content["problem"],
            seed=int(content["seed"]),
            engine=content.get("engine", "pyvbmc"),
            options=content["options"],
            starts=starts if starts in get_args(StartsKind) else as_points(starts),
            on_error=content.get("on_error", "fail_run"),
        )

    def differences(self, asked: Plan) -> list[str]:
        """Where the runs of another plan would differ from this one's, a line each.

        Of starting points that are given, only those for the same runs count.
        """
        mine, theirs = self.as_json(), asked.as_json()
        for plan in (mine, theirs):
            del plan["on_error"]
        if not isinstance(self.starts, str) and not isinstance(asked.starts, str):
            common = min(len(self.starts), len(asked.starts))
            mine["starts"], theirs["starts"] = mine["starts"][:common], theirs["starts"][:common]
        return list(_differences(mine, theirs))


def run_seed(seed: int, index: int) -> int:
    """The seed of run `index` of a plan: 63 bits, whatever the back end or the order."""
    state = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def as_points(starts: ArrayLike) -> Points:
    """Given starting points as numbers that a plan can hold."""
    return tuple(tuple(row) for row in np.asarray(starts, dtype=float).tolist())


def _plain(value: Any) -> Any:
    """What JSON makes of a value; objects that it does not know become their text."""
    return json.loads(json.dumps(value, default=repr))


def _differences(found: Any, asked: Any, where: str = "") -> Iterator[str]:
    if isinstance(asked, dict) and isinstance(found, dict):
        for key in sorted(set(asked) | set(found)):
            yield from _differences(found.get(key), asked.get(key), f"{where}{key}: ")
    elif asked != found:
        yield f"{where}{found} in the store, {asked} asked for"
