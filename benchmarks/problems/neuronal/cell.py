"""A passive compartmental model of a neuron in NEURON: five parameters in, a somatic voltage out.

Leak conductance and capacitance of the dendrites are those of the soma times a surface factor f
(the membrane of spines), and the conductance also rises with the distance d from the soma:

    g = f g_soma (1 + gradient · d),   c = f c_soma,   c_soma = 1 µF/cm².

NEURON's state is global: one cell per process, so runs need a process each.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrays import Array

STEP = 0.1  # ms
SEGMENT = 40.0  # µm, at most
MIRROR = 1400.0  # ms from each stimulus to the same with opposite sign
# Start (ms), duration (ms) and current (nA) of the stimuli before they are mirrored.
STIMULI = ((200.0, 3.0, 0.5), (503.0, 600.0, 0.01))
ONSET = 200.0  # ms; nothing happens before, and the simulation begins here
SIMULATED = 1200.0  # ms; the response is over by then (1e-7 mV at a membrane time of 20 ms)


@dataclass(frozen=True)
class Cell:
    """A morphology loaded into NEURON, its stimuli and its recorder."""

    h: Any
    soma: Any
    dendrites: tuple[Any, ...]
    distances: Array
    sections: tuple[Any, ...]
    voltage: Any
    stimuli: tuple[Any, ...]
    context: Any

    def response(self, theta: Array) -> Array:
        """Somatic voltage (mV) every STEP ms of SIMULATED ms from ONSET; no mirrored stimuli."""
        resistivity, reversal, conductance, gradient, factor = (float(value) for value in theta)
        siemens = 1e-6 * conductance  # per cm²; the parameter is in µS/cm²
        for section in self.sections:
            section.Ra = resistivity
            for segment in section:
                segment.pas.g, segment.pas.e = siemens, reversal
        leaks = factor * siemens * (1.0 + gradient * self.distances)
        for segment, leak in zip(self.dendrites, leaks, strict=True):
            segment.pas.g, segment.cm = leak, factor
        self.h.dt = STEP
        self.h.finitialize(reversal)
        self.context.psolve(SIMULATED)
        return np.array(self.voltage)[: round(SIMULATED / STEP) + 1]

    def recording(self, theta: Array, times: Array) -> Array:
        """Somatic voltage (mV) at these times (ms), mirrored stimuli included.

        The model is linear, so the answer to the mirrored stimuli is the mirrored answer, and only
        one of the two is simulated. What is left of the first at its end is neglected.
        """
        reversal = float(theta[1])
        deviation = self.response(theta) - reversal
        grid = ONSET + STEP * np.arange(deviation.size)
        first, second = (
            np.interp(times - shift, grid, deviation, left=0.0, right=0.0)
            for shift in (0.0, MIRROR)
        )
        return reversal + first - second


@lru_cache(maxsize=1)
def load_cell(morphology: str | None) -> Cell:
    """The cell of an SWC file, or NEURON's own demonstration cell `pyramid.nrn`."""
    os.environ.setdefault("NEURON_MODULE_OPTIONS", "-nogui")
    try:
        from neuron import h
    except ImportError as error:
        raise ImportError("the neuronal problem needs NEURON: install vbstack[bench]") from error
    h.load_file("stdlib.hoc")
    for section in list(h.allsec()):
        h.delete_section(sec=section)
    soma, dendrites = _from_swc(h, morphology) if morphology else _demo_cell(h)
    sections = tuple(h.allsec())
    for section in sections:
        section.nseg = 1 + 2 * int(section.L / (2 * SEGMENT))
        section.insert("pas")
    h.distance(0, soma(0.5))
    segments = tuple(segment for section in dendrites for segment in section)
    voltage = h.Vector().record(soma(0.5)._ref_v)
    context = h.ParallelContext()
    context.set_maxstep(10)
    return Cell(
        h,
        soma,
        segments,
        np.array([h.distance(segment) for segment in segments]),
        sections,
        voltage,
        tuple(_clamp(h, soma, *stimulus) for stimulus in STIMULI),
        context,
    )


def _clamp(h: Any, soma: Any, start: float, duration: float, current: float) -> Any:
    clamp = h.IClamp(soma(0.5))
    clamp.delay, clamp.dur, clamp.amp = start - ONSET, duration, current
    return clamp


def _demo_cell(h: Any) -> tuple[Any, list[Any]]:
    path = Path(h.neuronhome()) / "demo" / "pyramid.nrn"
    if not path.exists():
        raise FileNotFoundError(f"{path}: this NEURON carries no demonstration cell")
    h.xopen(str(path))
    sections = list(h.allsec())
    return sections[0], sections[1:]


def _from_swc(h: Any, morphology: str) -> tuple[Any, list[Any]]:
    """Soma and dendrites of a reconstruction; an axon keeps the membrane of the soma."""
    h.load_file("import3d.hoc")
    reader = h.Import3d_SWC_read()
    reader.quiet = 1
    reader.input(morphology)
    h.Import3d_GUI(reader, False).instantiate(None)
    sections = list(h.allsec())
    somata = [section for section in sections if section.name().startswith("soma")]
    if not somata:
        raise ValueError(f"{morphology}: the reconstruction has no soma (type 1)")
    others = [s for s in sections if not s.name().startswith(("soma", "axon"))]
    return somata[0], others
