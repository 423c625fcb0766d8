"""`compare()`: the evidence of several models of the same data, side by side.

Runs of different models are independent, so the errors of two log evidences add in quadrature.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats import qmc

from vbstack.analysis.comparison import ComparedModel, Comparison
from vbstack.arrays import Array
from vbstack.assembly import posterior_of
from vbstack.posterior import StackedPosterior
from vbstack.runs.store import RunStore

Source = StackedPosterior | RunStore | str | os.PathLike[str]

_VERBAL = ((1, "not worth more than a bare mention"), (3, "positive"), (5, "strong"))
_POINTS = 2**13  # quasi-random points for the uncertainty of probabilities: 1e-3


def compare(
    models: Mapping[str, Source], *, prior: Mapping[str, float] | None = None, level: float = 0.9
) -> Comparison:
    """The models by log evidence, with differences, probabilities, Bayes factors and warnings.

    The log densities must be of the same data, with normalised priors and likelihoods, else their
    evidences are not comparable; vbstack cannot check that.

    Parameters
    ----------
    models : mapping of name to StackedPosterior, RunStore or path
        A path is a saved posterior or a store. Of a store its `posterior.npz` is used where that
        was made of the runs that are there now, else its runs are stacked.
    prior : mapping of name to weight, optional
        Prior model weights, normalised here; equal by default.
    level : float
        Coverage of the intervals for the probabilities.
    """
    if len(models) < 2:
        raise ValueError(f"comparing needs two or more models, got {list(models)}")
    if not 0 < level < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1")
    weights = _prior(list(models), prior)
    warnings: list[str] = []
    found = {name: _posterior(name, source, warnings) for name, source in models.items()}
    names = sorted(found, key=lambda name: -found[name].evidence.log_evidence)
    posteriors = [found[name] for name in names]
    compared = _compared(names, posteriors, np.array([weights[name] for name in names]), level)
    for model, posterior in zip(compared, posteriors, strict=True):
        warnings += _own_warnings(model, posterior)
    warnings += [text for model in compared[1:] for text in _closeness(compared[0], model)]
    return Comparison(compared, tuple(warnings), level)


def _compared(
    names: Sequence[str], posteriors: Sequence[StackedPosterior], prior: Array, level: float
) -> tuple[ComparedModel, ...]:
    """The records of models given in order of their evidence."""
    evidences = [posterior.evidence for posterior in posteriors]
    values = np.array([e.log_evidence for e in evidences])
    errors = np.array([e.sd for e in evidences])
    log_odds = values + np.log(prior, where=prior > 0, out=np.full(prior.shape, -np.inf))
    probabilities = softmax(log_odds)
    low, high = _probability_intervals(log_odds, errors, level)
    return tuple(
        ComparedModel(
            name=name,
            log_evidence=evidences[i].log_evidence,
            sd=evidences[i].sd,
            method=evidences[i].method,
            difference=float(values[i] - values[0]),
            difference_error=float(np.hypot(errors[i], errors[0])) if i else 0.0,
            verbal=verbal(float(values[0] - values[i])) if i else "",
            prior=float(prior[i]),
            probability=float(probabilities[i]),
            probability_low=float(low[i]),
            probability_high=float(high[i]),
            runs=len(posteriors[i].runs),
        )
        for i, name in enumerate(names)
    )


def verbal(log_bayes_factor: float) -> str:
    """A log Bayes factor in the words of Kass & Raftery."""
    return next((word for limit, word in _VERBAL if log_bayes_factor < limit), "very strong")


def _probability_intervals(log_odds: Array, errors: Array, level: float) -> tuple[Array, Array]:
    """Quantiles of each model's probability when the log evidences have Gaussian errors."""
    points = qmc.Sobol(log_odds.size, rng=np.random.default_rng(0)).random(_POINTS)
    draws = softmax(log_odds + errors * ndtri(np.clip(points, 1e-12, 1 - 1e-12)), axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def _prior(names: Sequence[str], prior: Mapping[str, float] | None) -> dict[str, float]:
    if prior is None:
        return dict.fromkeys(names, 1 / len(names))
    if set(prior) != set(names):
        raise ValueError(f"prior has weights for {sorted(prior)}, the models are {sorted(names)}")
    total = sum(prior.values())
    if not (0 < total < np.inf) or any(not weight >= 0 for weight in prior.values()):
        raise ValueError(f"prior={dict(prior)} must hold weights of zero or more, not all zero")
    return {name: weight / total for name, weight in prior.items()}


def _posterior(name: str, source: Source, warnings: list[str]) -> StackedPosterior:
    """The posterior that a model's source stands for."""
    if isinstance(source, StackedPosterior):
        return source
    if not isinstance(source, (RunStore, str, os.PathLike)):
        raise TypeError(
            f"model {name!r} is a {type(source).__name__}; give a StackedPosterior, a RunStore, or "
            "the path of a store or of a saved posterior"
        )
    path = source.directory if isinstance(source, RunStore) else Path(source)
    if not path.is_dir():
        return StackedPosterior.load(path)
    store = RunStore(path)
    store.plan()  # an error if it is none
    posterior, not_current = posterior_of(store)
    if not_current:
        warnings.append(f"{name}: {not_current}")
    return posterior


def _own_warnings(model: ComparedModel, posterior: StackedPosterior) -> list[str]:
    """What is doubtful about one model's evidence, whatever the others are."""
    texts = []
    if model.runs == 1:
        texts.append(
            f"{model.name} rests on a single run: nothing shows whether it found the whole "
            "posterior; launch more"
        )
    if posterior.solution.gap > max(0.1, model.sd):
        texts.append(
            f"the weights of {model.name} are certified to {posterior.solution.gap:.2f} nats only; "
            "stack again with more max_draws"
        )
    return texts


def _closeness(best: ComparedModel, other: ComparedModel) -> list[str]:
    """A warning when the difference is within two errors."""
    size = -other.difference
    if size >= 2 * other.difference_error:
        return []
    return [
        f"{best.name} and {other.name} differ by {size:.3f} ± {other.difference_error:.3f} nats: "
        "which is better is not settled; more runs, or a verification, may settle it"
    ]
