"""A current-clamp recording and where the likelihood looks at it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.arrays import Array
from benchmarks.folders import REFERENCES
from benchmarks.problems.neuronal.cell import MIRROR, STIMULI, load_cell
from benchmarks.problems.neuronal.noise import Noise, Whitener

SHIPPED = REFERENCES / "neuronal_recording.csv"
END = 2900.0  # ms
QUIET_AFTER = 297.0  # ms
# The shipped recording: NEURON's demonstration cell with these parameters and this noise.
TRUTH = np.array([150.0, 0.0, 40.0, 0.004, 1.8])
TRUE_NOISE = Noise(0.02, 15.0, 80.0)
SHIPPED_SPACING = 0.5  # ms


@dataclass(frozen=True)
class Recording:
    """Somatic voltage (mV) at equally spaced times (ms) from 0 to END, baseline subtracted."""

    times: Array
    voltage: Array

    def noise(self, parts: list[tuple[float, float]]) -> Noise:
        """The noise, from these parts of the recording (ms)."""
        spacing = float(self.times[1] - self.times[0])
        pieces = [self.voltage[(self.times >= begin) & (self.times < end)] for begin, end in parts]
        return Noise.estimate(pieces, spacing)

    def at(self, times: Array) -> Array:
        return np.interp(times, self.times, self.voltage)


def stimulus_changes() -> list[float]:
    """When the current changes (ms), in order."""
    first = [time for start, duration, _ in STIMULI for time in (start, start + duration)]
    return [*first, *(time + MIRROR for time in first)]


def quiet_parts() -> list[tuple[float, float]]:
    """Before the first stimulus, and from QUIET_AFTER the last of a series to the next."""
    first, last = STIMULI[0][0], sum(STIMULI[-1][:2])
    return [
        (0.0, first),
        (last + QUIET_AFTER, first + MIRROR),
        (last + MIRROR + QUIET_AFTER, END),
    ]


def likelihood_times() -> Array:
    """Every 0.5 ms for 60 ms after each change of the stimulus, and every 5 ms throughout."""
    fine = [change + np.arange(0.0, 60.0, 0.5) for change in stimulus_changes()]
    return np.unique(np.concatenate([np.arange(0.0, END, 5.0), *fine]))


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """A recording from a CSV with the columns t_ms, v_mV."""
    with open(path, encoding="utf-8") as file:
        found = file.readline().strip().split(",")
        if found != ["t_ms", "v_mV"]:
            raise ValueError(f"{path}: the columns are {found}, expected ['t_ms', 'v_mV']")
        times, voltage = np.loadtxt(file, delimiter=",", ndmin=2).T
    steps = np.diff(times)
    if np.ptp(steps) > 1e-6 or steps[0] > 0.5 or times[0] > 0 or times[-1] < END - 5.0:
        raise ValueError(
            f"{path}: times must be equally spaced by at most 0.5 ms from 0 to {END:g} ms; they go "
            f"from {times[0]:g} to {times[-1]:g} by {steps.min():g} to {steps.max():g}"
        )
    return Recording(times, voltage)


def write_shipped(path: Path = SHIPPED) -> Recording:
    """Simulate the shipped recording and write it, baseline subtracted as in an experiment."""
    times = np.arange(0.0, END, SHIPPED_SPACING)
    rng = np.random.default_rng(19920604)
    voltage = load_cell(None).recording(TRUTH, times) + TRUE_NOISE.sample(times, rng)
    voltage -= voltage[times < STIMULI[0][0]].mean()
    rows = "".join(f"{t:.1f},{v:.6f}\n" for t, v in zip(times, voltage, strict=True))
    path.write_text("t_ms,v_mV\n" + rows, encoding="utf-8")
    return Recording(times, voltage)


@dataclass(frozen=True)
class Likelihood:
    """Log likelihood of the five parameters given a recording and a morphology."""

    recording: Recording
    morphology: str | None
    noise: Noise

    @classmethod
    def of(cls, recording: Recording, morphology: str | None) -> Likelihood:
        """With noise from the quiet parts; of a real cell, which may not come to rest between the
        stimuli, from what is before the first."""
        parts = quiet_parts() if morphology is None else quiet_parts()[:1]
        return cls(recording, morphology, recording.noise(parts))

    def __call__(self, theta: Array) -> float:
        times = likelihood_times()
        simulated = load_cell(self.morphology).recording(theta, times)
        return whitener(self.noise).log_density(self.recording.at(times) - simulated)


@lru_cache(maxsize=2)
def whitener(noise: Noise) -> Whitener:
    """The factored covariance at the likelihood's times; once per process, 12 MB."""
    return Whitener.of(noise, likelihood_times())
