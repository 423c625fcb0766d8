"""What the closed forms are built with: their true posterior, and their box."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.arrays import Array
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.reference_posterior import Reference

Sampler = Callable[[int, np.random.Generator], Array]

GRID = 3001


def known(
    mean: Array, covariance: Array, grids: Array, densities: Array, draw: Sampler
) -> Reference:
    draws = draw(8000, np.random.default_rng(1))
    return Reference(0.0, 0.0, mean, covariance, grids, densities, draws, "closed form")


def unbounded(
    name: str,
    log_densities: Callable[[Array], Array],
    sample: Sampler,
    reference: Reference,
    box: Array,
) -> BenchmarkProblem:
    names = tuple(f"x{d + 1}" for d in range(box.size))
    return BenchmarkProblem(name, names, log_densities, sample, 0.0, -box, box, reference=reference)


def in_unit_cube(
    name: str, log_densities: Callable[[Array], Array], sample: Sampler, reference: Reference
) -> BenchmarkProblem:
    d = reference.mean.size
    return BenchmarkProblem(
        name,
        tuple(f"x{index + 1}" for index in range(d)),
        log_densities,
        sample,
        0.0,
        np.full(d, 0.1),
        np.full(d, 0.9),
        lower_bounds=np.zeros(d),
        upper_bounds=np.ones(d),
        reference=reference,
    )
