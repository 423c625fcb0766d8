"""What a user may set for a run of the native engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

MANY = 4  # dimensions; beyond, guesses far from the evaluations are wilder, and iterations shorter


@dataclass(frozen=True)
class Settings:
    """What may be set; None means the default for the number of parameters."""

    max_fun_evals: int | None = None  # 50 (D + 2)
    fun_eval_start: int = 10
    fun_evals_per_iter: int | None = None  # 5; in three or four dimensions 6, in more 4
    max_iter: int = 1000
    final_components: int = 50
    settled_iterations: int | None = None  # 4; in more than four dimensions 5
    tolerance: float = 0.05  # nats: of the change and of the sd of the ELBO
    penalty: float = 1.0  # β of the last fit
    largest_variance: float = 0.05  # components whose J is larger are left out
    whitenings: int = 10

    @classmethod
    def of(cls, options: Mapping[str, Any], dimension: int) -> Settings:
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(
                f"the native engine has no option {unknown}; it has {sorted(known)}. "
                "For options of pyvbmc choose engine='pyvbmc'"
            )
        settings = cls(**options)
        if settings.max_fun_evals is None:
            settings = replace(settings, max_fun_evals=50 * (dimension + 2))
        if settings.fun_evals_per_iter is None:
            batch = 4 if dimension > MANY else 6 if dimension > 2 else 5
            settings = replace(settings, fun_evals_per_iter=batch)
        if settings.settled_iterations is None:
            settings = replace(settings, settled_iterations=5 if dimension > MANY else 4)
        settings.check()
        return settings

    def check(self) -> None:
        for name, least in (
            *(("fun_eval_start", 2), ("fun_evals_per_iter", 1), ("final_components", 1)),
            *(("max_fun_evals", 2), ("max_iter", 1), ("settled_iterations", 1)),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"option {name}={getattr(self, name)}: at least {least} is needed")

    @property
    def budget(self) -> int:
        assert self.max_fun_evals is not None  # `of` filled it in
        return self.max_fun_evals

    @property
    def batch(self) -> int:
        """Evaluations in an iteration."""
        assert self.fun_evals_per_iter is not None  # `of` filled it in
        return self.fun_evals_per_iter

    @property
    def window(self) -> int:
        """Iterations, most of which must have changed little."""
        assert self.settled_iterations is not None  # `of` filled it in
        return self.settled_iterations
