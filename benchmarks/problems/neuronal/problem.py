"""The neuronal problem: a passive model of a pyramidal cell, five parameters (paper, sec. 4.5).

The shipped recording is synthetic, on NEURON's own demonstration cell; `data` names a folder with
a real `morphology.swc` and `recording.csv`. `python -m benchmarks references neuronal` makes the
stored reference again. Needs the extra `bench`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.arrays import Array
from benchmarks.folders import REFERENCES
from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.box_prior import Box
from benchmarks.problems.neuronal.recording import SHIPPED, Likelihood, read_recording
from benchmarks.problems.reference_posterior import Reference

NAMES = ("resistivity", "reversal", "conductance", "gradient", "factor")
# Ω cm, mV, µS/cm², 1/µm, 1: hard, plausible, plausible, hard.
BOX = Box.of(
    (20.0, 100.0, 200.0, 500.0),
    (-0.1, -0.02, 0.02, 0.1),
    (1.0, 10.0, 80.0, 200.0),
    (0.0, 0.001, 0.02, 0.1),
    (0.5, 1.2, 2.5, 6.0),
)
# Another cell may need more: the real one at hand has thin dendrites and wants a factor near ten.
WIDE_BOX = Box.of(
    (5.0, 20.0, 200.0, 500.0),
    (-0.2, -0.05, 0.05, 0.2),
    (0.5, 5.0, 80.0, 200.0),
    (0.0, 0.001, 0.05, 0.3),
    (0.5, 2.0, 15.0, 30.0),
)


@dataclass(frozen=True)
class LogJoint:
    """Log likelihood plus log prior at rows (n, 5); −∞ at and beyond the hard bounds."""

    likelihood: Likelihood
    box: Box

    def __call__(self, x: Array) -> Array:
        values = np.full(len(x), -np.inf)
        for row in np.flatnonzero(self.box.inside(x)):
            values[row] = self.box.log_priors(x[row]).sum() + self.likelihood(x[row])
        return values


def log_joint(data: str | os.PathLike[str] | None = None) -> LogJoint:
    """The log joint of the shipped recording, or of a folder with a morphology and a recording."""
    if data is None:
        return LogJoint(Likelihood.of(read_recording(SHIPPED), None), BOX)
    folder = Path(data)
    recording = read_recording(folder / "recording.csv")
    morphology = str((folder / "morphology.swc").resolve())
    return LogJoint(Likelihood.of(recording, morphology), WIDE_BOX)


def benchmark(
    noise_sd: float = 0.0, data: str | os.PathLike[str] | None = None
) -> BenchmarkProblem:
    """The problem with its true answers, if they are stored: for other data, in the same folder."""
    path = REFERENCES / "neuronal.npz" if data is None else Path(data) / "reference.npz"
    reference = Reference.load(path) if path.exists() else None
    joint = log_joint(data)
    return BenchmarkProblem(
        "neuronal",
        NAMES,
        joint,
        _unknown if reference is None else reference.sample,
        np.nan if reference is None else reference.log_evidence,
        joint.box.plausible_lower,
        joint.box.plausible_upper,
        noise_sd,
        joint.box.lower,
        joint.box.upper,
        reference,
    )


def _unknown(n: int, rng: np.random.Generator) -> Array:
    raise LookupError("no reference draws: python -m benchmarks references neuronal makes them")
