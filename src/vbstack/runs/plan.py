"""`Plan`: everything that the runs of a store depend on; of the log density, its fingerprint.

Run m of a plan has its own seed and start, drawn from the plan's seed and m alone: it is the same
run on whatever machine, in whatever order, among however many others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc

from vbstack.arrays import Array
from vbstack.checks import checked_whole, checked_word
from vbstack.modes import EngineName, OnError, StartsKind
from vbstack.runs.fingerprint import Fingerprint
from vbstack.runs.plausible import PlausibleBox

Points = tuple[tuple[float, ...], ...]

FORMAT, SCHEMA = "vbstack store", 1
_OBJECT = "text of an object"


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
    starts : "sobol", "uniform", points, or None
        Starting points: Sobol points of the plausible box, which spread over it (the default),
        random ones, or those given, one per run.
        None: not recorded, by version 0.1.0.
    on_error : "fail_run", "retry", "floor" or None
        What happens when the log density fails. Runs without failures do not depend on it, so it
        may be changed from one launch to the next. None: not recorded, by version 0.1.0.
    model : Fingerprint or None
        Of the log density, to tell whether it changed. None: not recorded, by version 0.1.0.
    batch : bool
        Whether runs choose all points of an iteration before one is evaluated, so that they can be
        evaluated side by side (native engine). The plan says it, for then runs do not depend on
        the number of workers.
    """

    problem: Mapping[str, Any]
    seed: int
    engine: EngineName
    options: Mapping[str, Any] = field(default_factory=dict)
    starts: StartsKind | Points | None = "sobol"
    on_error: OnError | None = "fail_run"
    model: Fingerprint | None = field(default=None, repr=False)
    batch: bool = False

    def __post_init__(self) -> None:
        checked_word("engine", self.engine, EngineName)
        if self.on_error is not None:
            checked_word("on_error", self.on_error, OnError)
        if not isinstance(self.options, Mapping):
            raise TypeError(f"options is a {type(self.options).__name__}, not a mapping")
        if "batch" in self.options:
            raise ValueError("batch is not an option of the engine: give batch=… to fit or launch")
        starts = self.starts
        if starts is not None and not isinstance(starts, str):
            starts = as_points(starts, len(self.problem["names"]))
            _check_within_bounds(starts, self.problem)
        elif starts is not None:
            checked_word("starts", starts, StartsKind)
        for name, value in (
            ("problem", dict(self.problem)),
            ("seed", checked_whole("seed", self.seed, 0)),
            ("options", dict(self.options)),
            ("starts", starts),
            ("batch", bool(self.batch)),
        ):
            object.__setattr__(self, name, value)

    @property
    def engine_options(self) -> dict[str, Any]:
        """The options, with what the plan says about batches; pyvbmc has none."""
        batch = {"batch": True} if self.batch and self.engine == "native" else {}
        return {**self.options, **batch}

    def run_seed(self, index: int) -> int:
        return run_seed(self.seed, index)

    def start(self, index: int) -> Array:
        """The start (D,) of run `index`."""
        box = PlausibleBox.of(self.problem)
        if self.starts in ("uniform", None):  # version 0.1.0 recorded none, and they were uniform
            return box.uniform(np.random.default_rng([self.run_seed(index), 0]))
        if self.starts == "sobol":
            power = int(np.ceil(np.log2(max(2, index + 1))))
            sobol = qmc.Sobol(box.low.size, rng=np.random.default_rng(self.seed))
            return box.place(sobol.random_base2(power)[index, None])[0]
        assert isinstance(self.starts, tuple)
        if index >= len(self.starts):
            raise ValueError(
                f"the plan has {len(self.starts)} starting points, none for run {index}: give more "
                "with starts=…"
            )
        return np.array(self.starts[index])

    def as_json(self) -> dict[str, Any]:
        """The content of `store.json`."""
        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "seed": self.seed,
            "problem": dict(self.problem),
            "engine": self.engine,
            "options": _plain(dict(self.options)),
            "starts": _plain(self.starts),
            "on_error": self.on_error,
            "batch": self.batch,
            "model": None if self.model is None else dict(self.model.parts),
        }
        return {name: value for name, value in content.items() if value is not None}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that `as_json` wrote."""
        return cls(
            problem=content["problem"],
            seed=content["seed"],
            engine=content.get("engine", "pyvbmc"),
            options=content["options"],
            starts=content.get("starts"),
            on_error=content.get("on_error"),
            model=Fingerprint(dict(content["model"])) if "model" in content else None,
            batch=content.get("batch", False) is True,
        )

    def differences(self, asked: Plan) -> list[str]:
        """Where the runs of another plan would differ from this one's, a line each.

        Of starting points that are given, only those for the same runs count; those that are not
        recorded are no difference. The log density is compared elsewhere (`model_check`).
        """
        mine, theirs = self.as_json(), asked.as_json()
        for plan in (mine, theirs):
            plan.pop("on_error", None)
            plan.pop("model", None)
        if self.starts is None or asked.starts is None:
            mine["starts"] = theirs["starts"] = None
        elif not isinstance(self.starts, str) and not isinstance(asked.starts, str):
            common = min(len(self.starts), len(asked.starts))
            mine["starts"], theirs["starts"] = mine["starts"][:common], theirs["starts"][:common]
        return list(_differences(mine, theirs))

    def unreadable_options(self) -> list[str]:
        """Options that were objects: a store keeps their text only."""
        return [name for name, value in self.options.items() if _is_text_of_object(value)]


def run_seed(seed: int, index: int) -> int:
    """The seed of run `index` of a plan: 63 bits, whatever the back end or the order."""
    state = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def as_points(starts: ArrayLike, dimension: int) -> Points:
    """Given starting points as numbers that a plan can hold."""
    points = np.asarray(starts, dtype=float)
    if points.ndim != 2 or points.shape[1] != dimension or not np.isfinite(points).all():
        raise ValueError(
            f"starts has shape {points.shape}, expected one point of {dimension} finite numbers "
            "per run"
        )
    return tuple(tuple(row) for row in points.tolist())


def _check_within_bounds(points: Points, problem: Mapping[str, Any]) -> None:
    lower, upper = (np.array(problem[f"{side}_bounds"], dtype=float) for side in ("lower", "upper"))
    for place, point in enumerate(points):
        if not np.all((lower <= point) & (point <= upper)):
            raise ValueError(
                f"starts: point {place}, {list(point)}, is not within the hard bounds "
                f"{lower.tolist()} to {upper.tolist()}"
            )


def _plain(value: Any) -> Any:
    """What JSON makes of a value; objects that it does not know are marked, with their text."""

    def known(item: Any) -> Any:
        if isinstance(item, (np.generic, np.ndarray)):
            return item.tolist()
        return {_OBJECT: repr(item)}

    return json.loads(json.dumps(value, default=known))


def _is_text_of_object(value: Any) -> bool:
    if isinstance(value, dict):
        return _OBJECT in value or any(map(_is_text_of_object, value.values()))
    return isinstance(value, list) and any(map(_is_text_of_object, value))


def _differences(found: Any, asked: Any, where: str = "") -> Iterator[str]:
    if isinstance(asked, dict) and isinstance(found, dict):
        for key in sorted(set(asked) | set(found)):
            yield from _differences(found.get(key), asked.get(key), f"{where}{key}: ")
    elif json.dumps(asked) != json.dumps(found):  # by their text: nan equals nan
        yield f"{where}{found} in the store, {asked} asked for"
