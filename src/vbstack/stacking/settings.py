"""`StackSettings`: everything that a stack depends on, besides its runs. Checked when made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vbstack.checks import checked_not_negative, checked_whole, checked_word
from vbstack.modes import EvaluationsUsed, Refine, SolverName, WeightsKind
from vbstack.stacking.caution import STANDARD_ERRORS
from vbstack.stacking.screening import Screen


@dataclass(frozen=True)
class StackSettings:
    """The settings of `stack`, which describes them; the same runs and settings give the same
    posterior."""

    weights: WeightsKind = "all"
    evaluations: EvaluationsUsed = "auto"
    tolerance: float = 0.02
    max_draws: int = 512
    final_draws: int = 128
    solver: SolverName = "certified"
    screen: Screen = field(default_factory=Screen)
    seed: int = 0
    caution: float | Literal["auto"] = "auto"
    refine: Refine = "auto"

    def __post_init__(self) -> None:
        checked_word("weights", self.weights, WeightsKind)
        checked_word("evaluations", self.evaluations, EvaluationsUsed)
        checked_word("solver", self.solver, SolverName)
        if self.refine != "auto" and not isinstance(self.refine, bool):
            raise ValueError(f"refine={self.refine!r} must be 'auto', True or False")
        free = self.weights == "all" and self.solver == "certified" and self.evaluations != "own"
        if self.refine is True and not free:
            raise ValueError(
                f"refine=True needs weights='all', solver='certified' and pooled evaluations, not "
                f"{self.weights!r}, {self.solver!r} and {self.evaluations!r}: use refine='auto'"
            )
        if not self.tolerance > 0:
            raise ValueError(f"tolerance={self.tolerance!r} must be positive (nats)")
        if not isinstance(self.screen, Screen):
            raise TypeError(f"screen is a {type(self.screen).__name__}, not a vbstack.Screen")
        for name, value in (
            ("tolerance", float(self.tolerance)),
            ("max_draws", checked_whole("max_draws", self.max_draws, 8)),
            ("final_draws", checked_whole("final_draws", self.final_draws, 8)),
            ("seed", checked_whole("seed", self.seed, 0)),
        ):
            object.__setattr__(self, name, value)
        if self.caution != "auto":
            given = checked_not_negative("caution", self.caution, 'or "auto"')
            object.__setattr__(self, "caution", given)
            if given and self.solver == "adam":
                raise ValueError(
                    f"caution={given!r} needs solver='certified': the paper's Algorithm 1 "
                    "maximises the plain ELBO"
                )

    @property
    def standard_errors(self) -> float:
        """The caution in numbers, for weights by own log-joints.

        There is none for naive weights, which are not chosen, and for the paper's solver.
        """
        if self.solver == "adam" or self.weights == "naive":
            return 0.0
        return STANDARD_ERRORS if self.caution == "auto" else self.caution
