"""`LaunchSettings`: what `launch` was asked for, checked before anything is written or paid."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vbstack.checks import checked_seconds, checked_whole
from vbstack.engines.allowed import check_plausible_box
from vbstack.engines.registry import check_options, resolved
from vbstack.launching.back_ends import check_executor, worker_count
from vbstack.modes import BatchChoice, EngineChoice, EngineName, OnError, StartsKind
from vbstack.problem import Problem, checked_problem
from vbstack.runs.fingerprint import Fingerprint
from vbstack.runs.plan import Plan, as_points
from vbstack.runs.run import Run
from vbstack.runs.store import RunStore

Announce = Callable[[Mapping[int, Run]], str]


@dataclass(frozen=True)
class LaunchSettings:
    """The parameters of `launch`, which describes them. Without a store a temporary one is made."""

    problem: Problem
    n_runs: int
    store: RunStore | str | os.PathLike[str] | None = None
    executor: Any = None
    n_workers: int | None = None
    seed: int | None = None
    starts: StartsKind | ArrayLike | None = None
    engine: EngineChoice = "auto"
    timeout: float | None = None
    run_timeout: float | None = None
    on_error: OnError | None = None
    options: Mapping[str, Any] | None = None
    progress: bool = True
    announce: Announce | None = None
    fresh: bool = False
    trust_store: bool = False
    batch: BatchChoice = "auto"
    evaluation_timeout: float | None = None

    def __post_init__(self) -> None:
        checked_problem(self.problem)
        check_executor(self.executor)
        if self.announce is not None and not callable(self.announce):
            raise TypeError(f"announce is a {type(self.announce).__name__}, not a function")
        for name, value in (
            ("n_runs", checked_whole("n_runs", self.n_runs, 1)),
            ("timeout", checked_seconds("timeout", self.timeout)),
            ("run_timeout", checked_seconds("run_timeout", self.run_timeout)),
            (
                "evaluation_timeout",
                checked_seconds("evaluation_timeout", self.evaluation_timeout),
            ),
        ):
            object.__setattr__(self, name, value)
        if self.n_workers is not None:
            object.__setattr__(self, "n_workers", checked_whole("n_workers", self.n_workers, 1))
        if self.batch not in (True, False, "auto"):
            raise ValueError(f"batch={self.batch!r} must be True, False or 'auto'")
        starts: Any = self.starts
        if starts is not None and not isinstance(starts, str):
            expected = (self.n_runs, self.problem.dimension)
            if np.shape(starts) != expected:
                raise ValueError(f"starts has shape {np.shape(starts)}, expected {expected}")
            object.__setattr__(self, "starts", as_points(starts, self.problem.dimension))
        engine = self._engine(self.given_store())
        options = {} if self.options is None else self.options
        Plan(  # checks the rest
            self.problem.description(),
            0 if self.seed is None else self.seed,
            engine,
            options,
            "sobol" if self.starts is None else self.starts,  # type: ignore[arg-type]
            "fail_run" if self.on_error is None else self.on_error,
        )
        check_options(engine, options, self.problem)
        check_plausible_box(self.problem)

    def given_store(self) -> RunStore | None:
        """The store, if one was given."""
        given = self.store is None or isinstance(self.store, RunStore)
        return self.store if given else RunStore(self.store)  # type: ignore[return-value,arg-type]

    def plan(self, store: RunStore, model: Fingerprint) -> Plan:
        """The plan of the store, which is made if it is new; `model` is for a new one."""
        plan = store.open(
            self.problem,
            engine=self._engine(store),
            seed=self.seed,
            options=self.options,
            starts=self.starts,  # type: ignore[arg-type]
            on_error=self.on_error,
            model=model,
            batch=None if self.batch == "auto" else bool(self.batch),
            batch_if_new=self._batch_if_new,
        )
        plan.start(self.n_runs - 1)  # an error if there are fewer starting points than runs
        return plan

    def _batch_if_new(self) -> bool:
        """Whether runs of a new store propose batches: where there is somebody to evaluate them
        side by side, or in one call."""
        if self.problem.vectorized:
            return True
        workers = worker_count(self.executor, self.n_workers)
        return workers is not None and workers > self.n_runs

    def _engine(self, store: RunStore | None) -> EngineName:
        return engine_for(self.problem, None if self.fresh else store, self.engine)


def engine_for(problem: Problem, store: RunStore | None, name: EngineChoice) -> EngineName:
    """The engine that `name` means; "auto" is that of the store, if it is there already."""
    if name == "auto" and store is not None and store.exists():
        return store.read_plan().engine
    return resolved(name, problem)
