"""`Policy`: the numbers that steer a run of the native engine, each with its reason.

A heuristic is one block of fields. Its first field switches it: False, 0 or inf is without it.
Any field can be set by the option of its name. `python -m benchmarks ablation` leaves out one
heuristic at a time and measures what that costs (docs/engine-ablation.md).

What stays in the modules: how low values are seen (`training`), how far a run may go (`space`), and
constants of numerical methods (steps and tolerances of optimisers, sizes of quadratures).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vbstack.checks import checked_whole

MANY = 4  # dimensions; beyond, little is known at first, and mass is where no point is worth much


@dataclass(frozen=True)
class Policy:
    """How a run behaves; `of` gives the values that depend on dimension and noise."""

    # Budget: pyvbmc's, 50 (D + 2), with noise 75 (D + 2).
    max_fun_evals: int
    # Evaluations between two fits: fewer in many dimensions, where each fit learns more from one.
    fun_evals_per_iter: int
    # A run has settled when 80 % of so many iterations, the last one too, changed the ELBO by less
    # than the tolerance, and its sd and the mean (in sds) by less than three times that.
    settled_iterations: int
    tolerance: float  # nats: what a stack of ten hardly notices
    settled_share: float = 0.8
    fun_eval_start: int = 10  # as pyvbmc: the start and nine points
    max_iter: int = 1000
    # All points of an iteration are chosen before any is evaluated, each as if the surrogate's
    # prediction had been found at those before: side by side they take the time of one. That costs
    # up to a fifth more evaluations (`python -m benchmarks batches`), so not where they are made
    # one after the other. `Plan.batch` sets it.
    batch: bool = False

    # Reach: of the first points and of the warm-up's steps, in widths of the plausible box. None:
    # each run draws one of `reaches` from its seed, so that the runs of a stack differ: some stay
    # in the basin of their start, some begin all over the box.
    reach: float | None = None
    reaches: tuple[float, ...] = (0.15, 0.3, np.inf)

    # Warm-up ends when the best value gained less than a nat in three iterations.
    warm_up_gain: float = 1.0
    warm_up_window: int = 3
    # In many dimensions the surrogate promises much where it knows nothing, and leads a run there:
    # its fits also begin with a round bowl, and those of the mixture have the penalty.
    wary: bool = False

    # Looks for other modes at points of the whole box: so many without a find before a run ends.
    # With eight to twelve, four runs look at thirty places or more.
    looks: int = 0
    calm_looks: int = 1  # of them in each calm iteration, in place of other evaluations
    surprise: float = 3.0  # nats above the prediction, from which on a look leads to a climb
    look_reserve: int = 3  # times what settling takes: to climb, to fit a new mode, and to settle
    climb_share: float = 0.3  # weight of the new mode's components before they are fitted

    # Points that test the mixture: `first_tests` in every iteration, and `calm_tests` more for
    # each calm one. Up to four dimensions they are exploratory, in more draws of the mixture.
    first_tests: int = 1
    calm_tests: int = 2
    temperature: float = 3.0  # with noise: by which the surrogate is flattened that draws are from,
    wider: float = 2.0  # around a mixture so much wider; see `python -m benchmarks noisy-bias`
    candidates: int = 512  # with 128 a run takes 7 % more evaluations
    local_search: int = 3  # rounds of perturbations around the best candidate

    # The surrogate: twice in five iterations its fit also begins as if the posterior were Gaussian.
    # Only so the surrogate of a Gaussian becomes exact.
    gaussian_guess: bool = True

    # The mixture while exploring.
    restart: float = 5.0  # nats per dimension below the best value: start again at the best points
    reliable: float = 1.0  # sd of an ELBO that is more data than guess
    growth_limit: float = 2 / 3  # components for each evaluation
    growth_gain: float = 0.005  # nats that more components must bring
    most_components: int = 50  # more slow a run down, and the final fit can add some
    lacking: float = 5e-4  # share of the mass, by a component that is worth adding

    # The space.
    whitenings: int = 10  # and other changes of the space, at most: they could undo each other
    space_pause: int = 4  # iterations between two attempts
    likelihood_gain: float = 2.0  # nats that a changed space must gain
    best_gaussian: bool = True  # whiten by it where it is worth more than the mixture
    own_axes: bool = False  # back to the parameters' axes, along which a bend is simplest

    # The final fit, and its validation.
    final_components: int = 80  # at most: a thin ring gains 0.12 nats by more than 50
    penalty: float = 1.0  # β; without it the ELBOs of `twice4` are off by 0.07 nats, not 0.005
    largest_variance: float = 0.05  # components whose J is larger are left out
    finer: int = 1  # times as many points for the entropy; in many dimensions a fit learns them
    validations: int = 4  # attempts, the last of which must pass:
    validation_nats: float = 0.5  # no validation evaluation is further from its prediction than
    validation_sds: float = 3.0  # so many nats and standard deviations together
    misfit: float = 12.0  # by which J is enlarged: no log density is a draw of the prior

    @classmethod
    def of(cls, options: Mapping[str, Any], dimension: int, noisy: bool = False) -> Policy:
        """The policy for a dimension and noise, with what the options set."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(
                f"the native engine has no option {unknown}; it has {sorted(known)}. "
                "For options of pyvbmc choose engine='pyvbmc'"
            )
        many = dimension > MANY
        defaults = {
            "max_fun_evals": (75 if noisy else 50) * (dimension + 2),
            "fun_evals_per_iter": 4 if many else 6 if dimension > 2 else 5,
            "settled_iterations": 5 if many else 4,
            "tolerance": 0.1 if noisy else 0.05,
            "reach": np.inf if noisy else None,
            "wary": many,
            "looks": 0 if noisy else 12 if dimension > 2 else 8,
            "calm_looks": 1 if many else 2,
            "first_tests": 0 if many else 1,
            "own_axes": many,
            "largest_variance": 1.0 if noisy else 0.05,
            "finer": 8 if many else 1,
            "misfit": 4.0 if noisy else 12.0,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return cls(**{name: _checked(name, value) for name, value in (defaults | given).items()})

    def at_the_top(self, best: Sequence[float]) -> bool:
        """Whether a warm-up or a climb is over, from the best value after each iteration."""
        window = self.warm_up_window
        return len(best) > window and best[-1] - best[-1 - window] < self.warm_up_gain


_AT_LEAST_ONE = ("fun_evals_per_iter", "final_components", "settled_iterations", "candidates")
_COUNTS = (
    *("looks", "calm_looks", "look_reserve", "first_tests", "calm_tests", "local_search"),
    *("whitenings", "space_pause", "validations", "warm_up_window"),
)


def _checked(name: str, value: Any) -> Any:
    """The value of an option, whole numbers as int; an error where no run can have it."""
    if name in ("max_fun_evals", "max_iter") and value == np.inf:
        return value  # no limit
    least = {"fun_eval_start": 2, "max_fun_evals": 2, "max_iter": 1, "most_components": 1}
    if name in least or name in _AT_LEAST_ONE or name in _COUNTS:
        return checked_whole(f"option {name}", value, least.get(name, int(name in _AT_LEAST_ONE)))
    if name in ("batch", "wary", "gaussian_guess", "best_gaussian", "own_axes"):
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"option {name}={value!r} must be True or False")
        return bool(value)
    if name == "finer" and value not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"option finer={value!r} must be a power of two up to 32")
    if name == "reaches" and not (np.size(value) and np.ndim(value) == 1):
        raise ValueError(f"option reaches={value!r} must be one or more numbers")
    for each in value if name == "reaches" else () if value is None else (value,):
        number = not isinstance(each, (bool, str)) and np.isreal(each)
        if not (number and (each > 0 if name in ("reach", "reaches") else each >= 0)):
            least_text = "above 0" if name in ("reach", "reaches") else "0 or more"
            raise ValueError(f"option {name}={value!r} must be a number, {least_text}")
    return tuple(value) if name == "reaches" else value
