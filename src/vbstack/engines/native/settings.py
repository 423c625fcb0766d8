"""What a user may set for a run of the native engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vbstack.checks import checked_whole

MANY = 4  # dimensions; beyond, little is known at first, and mass is where no point is worth much


@dataclass(frozen=True)
class Settings:
    """What may be set; `of` gives the defaults that depend on the problem."""

    max_fun_evals: int  # 50 (D + 2), with noise 75 (D + 2)
    fun_evals_per_iter: int  # 5; in three or four dimensions 6, in more 4
    settled_iterations: int  # 4; in more than four dimensions 5, of which 4 must have settled
    tolerance: float  # nats, of the change and of the sd of the ELBO: 0.05, with noise 0.1
    largest_variance: float  # components whose J is larger are left out: 0.05, with noise 1
    # Of the first points, and of the warm-up's steps, in widths of the plausible box. None: drawn
    # by each run from its seed. With noise: all over the box (inf).
    reach: float | None
    looks: bool  # at far points, for modes that the run has not found
    fun_eval_start: int = 10
    max_iter: int = 1000
    final_components: int = 50
    penalty: float = 1.0  # β of the last fit
    whitenings: int = 10  # and other changes of the space, at most

    @classmethod
    def of(cls, options: Mapping[str, Any], dimension: int, noisy: bool = False) -> Settings:
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(
                f"the native engine has no option {unknown}; it has {sorted(known)}. "
                "For options of pyvbmc choose engine='pyvbmc'"
            )
        defaults = {
            "max_fun_evals": (75 if noisy else 50) * (dimension + 2),
            "fun_evals_per_iter": 4 if dimension > MANY else 6 if dimension > 2 else 5,
            "settled_iterations": 5 if dimension > MANY else 4,
            "tolerance": 0.1 if noisy else 0.05,
            "largest_variance": 1.0 if noisy else 0.05,
            "reach": np.inf if noisy else None,
            "looks": not noisy,
        }
        given = {name: value for name, value in options.items() if value is not None}
        settings = cls(**(defaults | given))
        settings.check()
        return settings

    def check(self) -> None:
        for name, least in (
            *(("fun_eval_start", 2), ("fun_evals_per_iter", 1), ("final_components", 1)),
            *(("max_fun_evals", 2), ("max_iter", 1), ("settled_iterations", 1)),
        ):
            if not (name.startswith("max_") and getattr(self, name) == np.inf):  # no limit
                checked_whole(f"option {name}", getattr(self, name), least)
        checked_whole("option whitenings", self.whitenings, 0)
        if not isinstance(self.looks, bool):
            raise ValueError(f"option looks={self.looks!r} must be True or False")
        for name in ("tolerance", "largest_variance", "penalty", "reach"):
            value = getattr(self, name)
            if name == "reach" and value is None:
                continue
            if isinstance(value, (bool, str)) or not np.isreal(value) or not value >= 0:
                raise ValueError(f"option {name}={value!r} must be a number, 0 or more")
