"""Priors as SciPy distributions: names, bounds and plausible bounds follow from them.

    python -m examples.priors

Counts of a detector with a source before it and without. Both rates have a lower bound only. The
smaller model has no source; `fixed` makes it, and `compare` weighs the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from vbstack import Comparison, Problem, compare, fit

WITH_SOURCE, WITHOUT = np.array([6, 9, 4, 7]), np.array([3, 5, 2, 4, 3])


def log_likelihood(theta: np.ndarray) -> float:
    """Poisson counts: of source and background together, and of the background alone."""
    source, background = theta
    together = stats.poisson(source + background).logpmf(WITH_SOURCE).sum()
    return float(together + stats.poisson(background).logpmf(WITHOUT).sum())


problem = Problem(
    log_likelihood,
    prior={"source": stats.expon(scale=5), "background": stats.gamma(2, scale=2)},
)
without = problem.fixed(source=0.0)


def main(n_runs: int = 4, **settings: Any) -> Comparison:
    posteriors = {
        "source": fit(problem, n_runs, seed=1, **settings),
        "no source": fit(without, n_runs, seed=1, **settings),
    }
    print(posteriors["source"].summary())
    print(f"Smallest of 10,000 draws: {posteriors['source'].sample(10_000, seed=0).min():.3g}")
    comparison = compare(posteriors)
    print(comparison.table())
    return comparison


if __name__ == "__main__":
    main()
