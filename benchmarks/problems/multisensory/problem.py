"""The multisensory problem with its true answers (paper, sec. 4.5); see `model`.

`python -m benchmarks references multisensory` makes the stored reference again.
"""

from __future__ import annotations

import os

from benchmarks.folders import REFERENCES
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.multisensory.model import BOX, NAMES, read_session, simulated
from benchmarks.problems.multisensory.truth import reference_of
from benchmarks.problems.reference_posterior import Reference


def benchmark(
    noise_sd: float = 3.0, data: str | os.PathLike[str] | None = None
) -> BenchmarkProblem:
    """The problem with its true answers: stored for the shipped participant, else by quadrature."""
    session = simulated() if data is None else read_session(data)
    if data is None:
        reference = Reference.load(REFERENCES / "multisensory.npz")
    else:
        reference = reference_of(session)
    return BenchmarkProblem(
        "multisensory",
        NAMES,
        session.log_densities,
        reference.sample,
        reference.log_evidence,
        BOX.plausible_lower,
        BOX.plausible_upper,
        noise_sd,
        BOX.lower,
        BOX.upper,
        reference,
    )
