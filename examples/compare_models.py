"""Which model? `python -m examples.compare_models [number of runs] [folder]`.

A constant, a line and a parabola through the same twenty measurements, each fitted in a store of
its own and compared by their evidence. The models are linear, so the exact answer is known and
printed beside.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal, norm

from vbstack import Comparison, Problem, compare, fit

NOISE, SCALE = 0.5, 2.0  # of the measurements, and of the prior
X = np.vander(np.linspace(-1, 1, 20), 3, increasing=True)  # 1, x, x²
Y = X[:, :2] @ [0.4, 0.7] + NOISE * np.random.default_rng(0).standard_normal(20)
MODELS = {"constant": 1, "line": 2, "parabola": 3}


def log_joint(theta: np.ndarray, size: int) -> float:
    """Log-likelihood plus log-prior of a polynomial with `size` coefficients, both normalised."""
    likelihood = norm.logpdf(Y, X[:, :size] @ theta, NOISE).sum()
    return float(likelihood + norm.logpdf(theta, 0, SCALE).sum())


def true_log_evidence(size: int) -> float:
    """log p(y), with y ~ N(0, noise² 1 + scale² X Xᵀ)."""
    design = X[:, :size]
    covariance = NOISE**2 * np.eye(len(Y)) + SCALE**2 * design @ design.T
    return float(multivariate_normal(np.zeros(len(Y)), covariance).logpdf(Y))


def problem(size: int) -> Problem:
    return Problem(
        log_density=log_joint,
        plausible_lower_bounds=[-SCALE] * size,
        plausible_upper_bounds=[SCALE] * size,
        args=(size,),
    )


def main(n_runs: int = 2, folder: str = "demo-results", **settings: Any) -> Comparison:
    target = Path(folder)
    target.mkdir(exist_ok=True)
    fitted = {
        name: fit(problem(size), n_runs, store=str(target / name), seed=1, **settings)
        for name, size in MODELS.items()
    }
    comparison = compare(fitted)
    print(comparison)
    exact = {name: round(true_log_evidence(size), 3) for name, size in MODELS.items()}
    print(f"Exact log evidences: {exact}")
    comparison.figure().savefig(target / "models.png", dpi=130)
    print(f"Figure: {target / 'models.png'}")
    return comparison


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 2, *given[1:2])
