"""`SVBMC` for scripts written for `pyvbmc.SVBMC` or `svbmc.SVBMC`: change the import, nothing else.

    from vbstack.compat import SVBMC

The names and defaults are theirs (pyvbmc 1.5, svbmc 0.1.2), the work is `stack`'s. New scripts
should call `stack` itself; `SVBMC.posterior` is what it returns.

The weights are `stack`'s: by pooled log-joints where the runs kept what it takes, else cautious
ones (`stack(caution="auto")`). The peers maximise the plain ELBO of the same I_j, which then reads
higher while that of the true log density is lower; `stack(runs, caution=0)` has their objective.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf, sqrt
from typing import Any

import numpy as np

from vbstack.arrays import Array
from vbstack.assembly import stack
from vbstack.modes import WeightsKind
from vbstack.posterior import StackedPosterior
from vbstack.runs.run import Run
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.screening import Screen, screen

_WEIGHTS: dict[str, WeightsKind] = {"all-weights": "all", "posterior-only": "runs", "ns": "naive"}
_SWITCHES = {"show_tips": False, "testing": False, "balance_flag": False}
_OPTIMISER = {"n_samples": 20, "lr": 0.1, "max_steps": 500}
_EVERYTHING = Screen(require_converged=False, max_variance=inf)


class Elbo(float):
    """The stacked ELBO: a number, as in pyvbmc, that is also svbmc's mapping of three estimates."""

    _estimates: dict[str, float]

    def __new__(cls, evidence: Evidence) -> Elbo:
        elbo = super().__new__(cls, evidence.elbo)
        elbo._estimates = {
            "estimated": evidence.raw,
            "debiased_I_median": evidence.capped_components,
            "debiased_E_median": evidence.capped_runs,
        }
        return elbo

    def __getitem__(self, name: str) -> float:
        return self._estimates[name]

    def keys(self) -> list[str]:
        return list(self._estimates)


class SVBMC:
    """A stack with pyvbmc's interface. It starts as a naive stack; `optimize` finds the weights.

    Parameters
    ----------
    vp_list : list of VariationalPosterior
        Posteriors of finished VBMC runs.
    s_max : float
        Runs in which a component's expected log-joint has this standard deviation are left out.
    M_min : int or float
        Fewer runs left than this number, or (up to 1) this share of the runs given, are an error.
    seed : int, Generator, … or None
        Of all draws; without one NumPy's global state decides, as in pyvbmc.
    noisy : bool, optional
        Overrides what the runs say about the noise of their log density.
    show_tips, testing : bool
        Accepted; there are no tips, and no test mode.

    Attributes
    ----------
    posterior : StackedPosterior
        The stack, with everything that vbstack offers.
    """

    posterior: StackedPosterior

    def __init__(
        self,
        vp_list: Sequence[Any],
        s_max: float = sqrt(5),
        M_min: float = 2 / 3,
        seed: Any = None,
        *,
        show_tips: bool = False,
        noisy: bool | None = None,
        testing: bool = False,
    ):
        _warn_of_ignored({"show_tips": show_tips, "testing": testing}, _SWITCHES)
        given = list(vp_list)
        runs = [Run.from_pyvbmc(vp) for vp in given]
        if noisy is not None:
            runs = [replace(run, noise_level=2 if noisy else 0) for run in runs]
        rules = Screen(max_variance=s_max**2, min_runs=_least_runs(M_min, len(given)))
        kept, _ = screen(runs, rules)
        self._vp_list: list[Any] | None = [given[index] for index in kept]
        self._start(stack([runs[i] for i in kept], weights="naive", screen=_EVERYTHING), seed)

    def _start(self, posterior: StackedPosterior, seed: Any) -> None:
        if seed is None:  # the global state, so that np.random.seed fixes a script as it did
            seed = np.random.randint(2**31)  # noqa: NPY002
        self.rng = np.random.default_rng(seed)
        self.posterior = posterior

    def optimize(
        self,
        n_samples: int = 20,
        lr: float = 0.1,
        max_steps: int = 500,
        version: str = "all-weights",
        n_samples_final: int = 128,
    ) -> None:
        """Find the weights: of all components, of whole runs ("posterior-only"), or none ("ns").

        `n_samples`, `lr` and `max_steps` steered a stochastic optimiser and are ignored.
        """
        _warn_of_ignored({"n_samples": n_samples, "lr": lr, "max_steps": max_steps}, _OPTIMISER)
        if version not in _WEIGHTS:
            raise ValueError(f"version={version!r} is not known; choose one of {list(_WEIGHTS)}")
        self.posterior = stack(
            self.posterior.runs,
            weights=_WEIGHTS[version],
            final_draws=max(8, n_samples_final),
            screen=_EVERYTHING,
            seed=int(self.rng.integers(2**32)),
            refine=False,  # `w` has the weights of the posteriors' components
        )

    @property
    def vp_list(self) -> list[Any]:
        """The posteriors that were kept, in the order given."""
        if self._vp_list is None:
            raise AttributeError(
                "a stack that was loaded has no pyvbmc objects; its runs are in posterior.runs"
            )
        return self._vp_list

    @property
    def D(self) -> int:
        return self.posterior.dimension

    @property
    def M(self) -> int:
        """Number of runs kept."""
        return len(self.posterior.runs)

    @property
    def K(self) -> list[int]:
        """Number of components of each run."""
        return [run.n_components for run in self.posterior.runs]

    @property
    def w(self) -> Array:
        """Weights of all components (1, ΣK)."""
        return self.posterior.weights[None]

    @property
    def individual_elbos(self) -> list[float]:
        return [run.elbo for run in self.posterior.runs]

    @property
    def I_corrected(self) -> Array:
        """Expected log-joint of every component in the original space (1, ΣK)."""
        return self.posterior.mixture.original_log_joint(own_log_joints(self.posterior.runs))[None]

    @property
    def noisy(self) -> bool:
        return self.posterior.evidence.noisy

    @property
    def noise_status_source(self) -> tuple[str, ...]:
        """Per run "recorded", or "inferred" from its ELBO's standard deviation."""
        levels = [run.noise_level for run in self.posterior.runs]
        return tuple("inferred" if level is None else "recorded" for level in levels)

    @property
    def elbo(self) -> Elbo:
        """The stacked ELBO, a float; `elbo["estimated"]` and svbmc's other keys work too."""
        return Elbo(self.posterior.evidence)

    @property
    def elbo_sd(self) -> float:
        return self.posterior.evidence.elbo_sd

    @property
    def entropy(self) -> float:
        return self.posterior.evidence.entropy

    @property
    def elbo_details(self) -> dict[str, Any]:
        """pyvbmc's report of the estimates; the two-level shrinkage is not offered."""
        e = self.posterior.evidence
        return {
            "raw": e.raw,
            "capped_I_median": e.capped_components,
            "capped_E_median": e.capped_runs,
            "naive": e.naive,
            "shrunk_two_level": None,
            "shrinkage_noise_share": None,
            "headline_method": _headline_method(e),
            "cap_amount": max(0.0, e.raw - e.elbo),
            "entropy_sd": e.entropy_sd,
            "gp_sd": e.gp_sd,
            "raw_sd": e.total_sd,
            "noisy": e.noisy,
            "noise_status_source": self.noise_status_source,
        }

    def sample(self, n_samples: int, balance_flag: bool = False) -> Array:
        """n_samples independent draws (n, D) in the original space."""
        _warn_of_ignored({"balance_flag": balance_flag}, _SWITCHES)
        return self.posterior.sample(n_samples, self.rng)

    def plot(
        self,
        n_samples: int = 10_000,
        color: str = "black",
        figsize: tuple[float, float] | None = None,
        smooth: float | None = None,
        **corner_kwargs: Any,
    ) -> Any:
        """A corner plot as a matplotlib Figure; `plt.show()` shows it."""
        import corner
        from matplotlib import pyplot as plt

        fig = plt.figure(figsize=figsize or (2.5 * self.D, 2.5 * self.D))
        settings = {"labels": list(self.posterior.names), "show_titles": True, **corner_kwargs}
        corner.corner(self.sample(n_samples), color=color, smooth=smooth, fig=fig, **settings)
        return fig

    def save(self, file: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the stack to a file of arrays and JSON; without a suffix it becomes `.npz`."""
        self.posterior.save(file, overwrite=overwrite)

    @classmethod
    def load(cls, file: str | os.PathLike[str], seed: Any = None) -> SVBMC:
        """The stack that `save` wrote; no pickle is read, so pyvbmc's own files are refused."""
        loaded = cls.__new__(cls)
        loaded._vp_list = None
        path = os.fspath(file)
        path = path if os.path.splitext(path)[1] else f"{path}.npz"
        loaded._start(StackedPosterior.load(path), seed)
        return loaded


def _least_runs(M_min: float, given: int) -> int:
    """The number of runs that M_min stands for: a share up to 1, else a number."""
    if not M_min > 0:
        raise ValueError(f"M_min={M_min!r} must be positive: a share of the runs or a number")
    if M_min <= 1:
        return ceil(given * M_min - 1e-9)
    if M_min > given:
        warnings.warn(f"M_min={M_min} of {given} runs: all are required", stacklevel=3)
    return min(round(M_min), given)


def _warn_of_ignored(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """One warning for all options that were set and mean nothing here."""
    ignored = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]
    if ignored:
        warnings.warn(
            f"ignored: {', '.join(ignored)}. vbstack finds the weights by a concave solver with a "
            "certificate, draws independent samples and has no tips or test mode",
            stacklevel=3,
        )


def _headline_method(e: Evidence) -> str:
    """Which estimate `elbo` is, by pyvbmc's names where it has one."""
    if e.method != "own":
        return f"{e.method}_elbo"
    return "capped_I_median" if e.noisy else "raw"
