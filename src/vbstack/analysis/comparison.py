"""`Comparison`: the answer of `compare()`, as records, text, JSON and a figure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from vbstack.modes import EvidenceMethod

SCALE = "Kass & Raftery (1995), J. Am. Stat. Assoc. 90:773"


@dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison; differences are to the best model, in nats.

    Attributes
    ----------
    log_evidence, sd : float
        The log evidence, and its standard deviation.
    method : str
        What it rests on: "verified", "pooled" or "own".
    difference, difference_error : float
        Log evidence less that of the best model, and its error.
    verbal : str
        The Bayes factor of the best model against this one, in words.
    prior, probability, probability_low, probability_high : float
        Prior and posterior model probability, and the interval that the errors leave.
    runs : int
        Number of runs stacked.
    """

    name: str
    log_evidence: float
    sd: float
    method: EvidenceMethod
    difference: float
    difference_error: float
    verbal: str
    prior: float
    probability: float
    probability_low: float
    probability_high: float
    runs: int

    @property
    def bayes_factor(self) -> float:
        """Of the best model against this one; infinite beyond the largest number."""
        with np.errstate(over="ignore"):
            return float(np.exp(-self.difference))


@dataclass(frozen=True)
class Comparison:
    """Models by log evidence, best first; `str()` is a table.

    Attributes
    ----------
    models : tuple of ComparedModel
    warnings : tuple of str
        What makes the ranking uncertain.
    level : float
        Coverage of the probability intervals.
    scale : str
        Where the words for Bayes factors come from.
    """

    models: tuple[ComparedModel, ...]
    warnings: tuple[str, ...]
    level: float
    scale: str = SCALE

    def log_bayes_factor(self, a: str, b: str) -> tuple[float, float]:
        """Log evidence of `a` less that of `b`, and its error."""
        first, second = self._model(a), self._model(b)
        difference = first.log_evidence - second.log_evidence
        return difference, float(np.hypot(first.sd, second.sd))

    def _model(self, name: str) -> ComparedModel:
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(f"no model is called {name!r}; there are {[m.name for m in self.models]}")

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The comparison as text, with its warnings."""
        width = max(5, *(len(model.name) for model in self.models))
        interval = f"{100 * self.level:g} % interval"
        lines = [
            f"{'model':<{width}} {'log evidence':>12} {'± sd':>9} {'difference':>11} "
            f"{'± sd':>9} {'probability':>12} {interval:>18} {'Bayes factor':>12}"
            f"  for {self.models[0].name}"
        ]
        for m in self.models:
            between = f"{m.probability_low:.3f} to {m.probability_high:.3f}"
            lines.append(
                f"{m.name:<{width}} {m.log_evidence:>12.3f} {m.sd:>9.3f} {m.difference:>11.3f} "
                f"{m.difference_error:>9.3f} {m.probability:>12.4f} {between:>18} "
                f"{m.bayes_factor:>12.3g}  {m.verbal}"
            )
        lines.append(f"Words for Bayes factors: {self.scale}.")
        return "\n".join(lines + [f"Warning: {warning}" for warning in self.warnings])

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(asdict(self), indent=1)

    def figure(self, fig: Any = None) -> Any:
        """A matplotlib Figure: differences in log evidence, and model probabilities."""
        # The figures' module imports this one.
        return import_module("vbstack.output.comparison_plot").comparison_plot(self, fig)
