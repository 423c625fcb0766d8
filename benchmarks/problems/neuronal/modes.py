"""The same passive cell without time stepping: normal modes of NEURON's own discretisation.

With capacitances C and conductances G of the segments, NEURON's implicit Euler steps of size h
solve (C/h + G) v⁺ = (C/h) v + I. In the eigenvectors of C^-½ G C^-½ every mode i decays by
ρ_i = 1/(1 + λ_i h) per step, so the soma's answer to a unit current from step 0 on is after k steps

    S(k) = Σ_i b_i²/λ_i (1 − ρ_i^k),   b_i = U_si C_s^-½,

and a recording is a sum of such answers. It equals `Cell.recording` to rounding, in a
fifteenth of the time; the long computation of the reference uses it, runs use NEURON.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from benchmarks.problems.neuronal.cell import MIRROR, STEP, STIMULI, load_cell

GROUPS = 12
DEAD = -40.0  # exponent below which a mode adds less than rounding


@dataclass(frozen=True)
class Modes:
    """What the modes need of a cell: per segment area (µm²), distance (µm) and kind, and the axial
    conductances (n, n) in µS for a resistivity of 1 Ω cm."""

    areas: Array
    distances: Array
    dendritic: Array
    axial: Array
    soma: int

    def recording(self, theta: Array, times: Array) -> Array:
        """Somatic voltage (mV) at these times (ms), mirrored stimuli included."""
        resistivity, reversal, conductance, gradient, factor = (float(value) for value in theta)
        scale = np.where(self.dendritic, factor, 1.0)
        slope = np.where(self.dendritic, gradient, 0.0)
        leaks = 1e-8 * conductance * scale * (1 + slope * self.distances) * self.areas  # µS
        root = np.sqrt(1e-5 * scale * self.areas)  # of the capacitances in nF
        matrix = (np.diag(leaks) + self.axial / resistivity) / np.outer(root, root)
        rates, vectors = np.linalg.eigh(matrix)
        strength = np.square(vectors[self.soma] / root[self.soma]) / rates
        decay = -np.log1p(rates * STEP)
        lags, index, signs = _lags(times.tobytes(), times.size)
        answer = strength.sum() - _decaying(lags, decay, strength)
        return reversal + signs @ answer[index]


def _decaying(lags: Array, decay: Array, strength: Array) -> Array:
    """Σ_i s_i exp(k d_i) (n,) at sorted lags k: modes in groups, each up to the lag at which
    its slowest mode has died away."""
    total = np.zeros(lags.size)
    for modes in np.array_split(np.arange(decay.size), GROUPS):
        alive = int(np.searchsorted(lags, DEAD / decay[modes].max()))
        total[:alive] += np.exp(np.outer(lags[:alive], decay[modes])) @ strength[modes]
    return total


@lru_cache(maxsize=2)
def _lags(packed: bytes, n: int) -> tuple[Array, Any, Array]:
    """Steps since each change of the current: the distinct ones, their places, the currents."""
    times = np.frombuffer(packed, dtype=float, count=n)
    changes = [
        (start + shift + end, sign * (1 if end == 0 else -1) * current)
        for shift, sign in ((0.0, 1.0), (MIRROR, -1.0))
        for start, duration, current in STIMULI
        for end in (0.0, duration)
    ]
    steps = np.array([np.maximum(np.rint((times - at) / STEP), 0.0) for at, _ in changes])
    lags, index = np.unique(steps, return_inverse=True)
    return lags, index.reshape(steps.shape), np.array([current for _, current in changes])


@lru_cache(maxsize=1)
def modes_of(morphology: str | None) -> Modes:
    """The modes' matrices of a cell, read off NEURON; points without membrane are eliminated."""
    cell = load_cell(morphology)
    nodes: dict[Any, int] = {}
    links: list[tuple[int, int, float]] = []

    def node(section: Any, x: float) -> int:
        # Inner points have membrane; a section's end 1 has none, its end 0 is its parent's point.
        if x == 0.0 and section.parentseg() is not None:
            parent = section.parentseg()
            return node(parent.sec, parent.x)
        inner = min(int(x * section.nseg), section.nseg - 1)
        key = (section.name(), "end" if x == 1.0 else "start" if x == 0.0 else inner)
        return nodes.setdefault(key, len(nodes))

    segments = [segment for section in cell.sections for segment in section]
    numbers = np.array([node(segment.sec, segment.x) for segment in segments])
    for section in cell.sections:
        previous = node(section, 0.0)
        for x in [*(segment.x for segment in section), 1.0]:
            links.append((previous, node(section, x), section(x).ri() / section.Ra))
            previous = node(section, x)
    laplacian = np.zeros((len(nodes), len(nodes)))
    for a, b, resistance in links:
        laplacian[[a, b], [a, b]] += 1 / resistance
        laplacian[[a, b], [b, a]] -= 1 / resistance
    return _eliminated(cell, segments, numbers, laplacian)


def _eliminated(cell: Any, segments: list[Any], numbers: Array, laplacian: Array) -> Modes:
    bare = np.setdiff1d(np.arange(len(laplacian)), numbers)
    inner = laplacian[np.ix_(numbers, numbers)]
    cross = laplacian[np.ix_(numbers, bare)]
    axial = inner - cross @ np.linalg.solve(laplacian[np.ix_(bare, bare)], cross.T)
    dendritic = {(s.sec.name(), s.x) for s in cell.dendrites}
    cell.h.distance(0, cell.soma(0.5))
    return Modes(
        np.array([segment.area() for segment in segments]),
        np.array([cell.h.distance(segment) for segment in segments]),
        np.array([(s.sec.name(), s.x) in dendritic for s in segments]),
        axial,
        next(i for i, s in enumerate(segments) if s.sec == cell.soma and abs(s.x - 0.5) < 1e-9),
    )
