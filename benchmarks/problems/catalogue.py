"""Every problem by its name, and problems with other data than the shipped ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form import CLOSED_FORM
from benchmarks.problems.closed_form.curved import banana
from benchmarks.problems.gmm_and_ring import gmm, ring
from benchmarks.problems.multisensory import problem as multisensory
from benchmarks.problems.neuronal import problem as neuronal

PROBLEMS: dict[str, Callable[[], BenchmarkProblem]] = {
    "gmm": gmm,
    "ring": ring,
    "gmm_noisy": lambda: replace(gmm(), name="gmm_noisy", noise_sd=3.0),
    "ring_noisy": lambda: replace(ring(), name="ring_noisy", noise_sd=3.0),
    "multisensory": multisensory.benchmark,
    "neuronal": neuronal.benchmark,
    "banana6": lambda: banana(6),
    "banana10": lambda: banana(10),
    "multisensory_exact": lambda: multisensory.benchmark(noise_sd=0.0),
    **CLOSED_FORM,
}

WITH_DATA = {"multisensory": multisensory.benchmark, "neuronal": neuronal.benchmark}


def benchmark_of(name: str, data: Path | None = None) -> BenchmarkProblem:
    """The problem of this name, with the data shipped or, for those that read any, other data."""
    if data is None:
        return PROBLEMS[name]()
    if name not in WITH_DATA:
        raise ValueError(f"{name} has no data to replace; --data is for {sorted(WITH_DATA)}")
    return WITH_DATA[name](data=data)
