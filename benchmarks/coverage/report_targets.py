"""The targets of the report: no choice in the engine or the rule is made with their help."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from benchmarks.arrays import Array
from benchmarks.coverage.coverage_target import CoverageTarget, cube, several
from benchmarks.coverage.laws import (
    Law,
    along,
    bent,
    chain,
    gaussian,
    mixed,
    segment,
    skewed,
    student_t,
    within,
)


def three1() -> CoverageTarget:
    """One dimension, three modes of three shapes."""
    modes = [
        ("Gaussian", 0.2, gaussian([3.0], 0.5)),
        ("skewed", 0.5, skewed([7.5], 1.5, 4.0)),
        ("Student t", 0.3, student_t([15.0], 0.6, 6.0)),
    ]
    return several("three1", "report", modes, ([0.0], [20.0]), log_evidence=-3.0)


def beads2() -> CoverageTarget:
    """Two dimensions, five modes of 35 to 5 % on a bent string, a fifth of each on the string."""
    centres = np.array([[-6.0, 0.0], [-3.0, -2.0], [0.0, 0.0], [3.0, 2.0], [6.0, 0.0]])
    sds = ([0.6, 0.4], [0.5, 0.5], [0.7, 0.4], [0.4, 0.6], [0.4, 0.4])
    middles = (centres[1:] + centres[:-1]) / 2
    modes = []
    for k, mass in enumerate((0.35, 0.05, 0.20, 0.15, 0.25)):
        ends = middles[max(k - 1, 0) : k + 1]
        string = np.concatenate([segment(centres[k], end, 0.2) for end in ends])
        bead = mixed([gaussian(centres[k], sds[k]), chain(string, 0.2)], [0.8, 0.2])
        modes.append((f"{mass:.0%}", mass, bead))
    return several("beads2", "report", modes, ([-9.0, -6.0], [9.0, 6.0]), log_evidence=2.0)


def shoulder3() -> CoverageTarget:
    """Three dimensions, a narrow mode on the shoulder of a correlated one twice as wide."""
    modes = [
        ("wide", 0.75, gaussian([-1.0, -1.0, 0.0], 1.6, 0.5)),
        ("narrow", 0.25, gaussian([3.5, 2.5, -2.5], 0.8, -0.3)),
    ]
    return several("shoulder3", "report", modes, cube(3, 7.0))


def bounds4() -> CoverageTarget:
    """Four dimensions of different scales within hard bounds, two of three modes at a bound."""
    bounds = np.array([0.0, 0.0, -5.0, 0.0]), np.array([1.0, 100.0, 5.0, 10.0])
    modes = [
        ("at two bounds", 0.40, within([0.04, 25.0, -2.5, 9.8], [0.08, 6, 0.7, 0.9], *bounds)),
        ("at one bound", 0.35, within([0.60, 70.0, 4.8, 3.0], [0.06, 9, 0.5, 0.6], *bounds)),
        ("inside", 0.25, within([0.70, 35.0, 0.0, 6.5], [0.07, 5, 0.8, 0.8], *bounds)),
    ]
    box = np.array([0.01, 1.0, -4.9, 0.1]), np.array([0.99, 99.0, 4.9, 9.9])
    return several("bounds4", "report", modes, box, -100.0, bounds=bounds)


def helix3() -> CoverageTarget:
    """Three dimensions, a thin helix of one and a half turns in five arcs of 30 to 10 %."""

    def curve(t: Array) -> Array:
        return np.column_stack([3 * np.cos(t), 3 * np.sin(t), t])

    edges = np.linspace(-1.5 * np.pi, 1.5 * np.pi, 6)
    arcs = [chain(along(curve, a, b, 0.2), 0.25) for a, b in pairwise(edges)]
    masses = (0.30, 0.25, 0.20, 0.15, 0.10)
    modes = [(f"{p:.0%}", p, arc) for p, arc in zip(masses, arcs, strict=True)]
    return several("helix3", "report", modes, cube(3, 6.0))


def five5() -> CoverageTarget:
    """Five dimensions, five modes of 35 to 5 %, three of them not Gaussian."""
    modes = [
        ("bent", 0.35, bent([-2.0, 1.5, 0.0, -1.5, 1.0], [0.8, 0.6, 0.7, 0.6, 0.8], 0.6)),
        ("skewed", 0.25, skewed([2.0, 2.0, 1.5, 1.5, -1.5], 0.9, [4.0, 0, -3.0, 0, 2.0])),
        ("round", 0.20, gaussian([2.0, -2.0, -1.5, -1.5, 1.5], 0.5)),
        ("correlated", 0.15, gaussian([-2.0, -2.0, 1.5, 1.5, 0.0], 0.7, 0.6)),
        ("Student t", 0.05, student_t([0.0, 2.5, -2.5, 2.5, 2.0], 0.4, 8.0)),
    ]
    return several("five5", "report", modes, cube(5, 5.0), log_evidence=-7.0)


def ring6() -> CoverageTarget:
    """Six dimensions, eight modes of equal mass and width on a tilted circle."""
    u = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0]) / 2
    v = np.array([1.0, -1.0, 1.0, -1.0, 0.0, 0.0]) / 2
    modes: list[tuple[str, float, Law]] = []
    for k in range(8):
        angle = 0.2 + k * np.pi / 4
        centre = 4.5 * (np.cos(angle) * u + np.sin(angle) * v)
        modes.append((f"mode {k + 1}", 0.125, gaussian(centre, 0.5)))
    return several("ring6", "report", modes, cube(6, 5.0))


def tails7() -> CoverageTarget:
    """Seven dimensions, 60, 30 and 10 % of the mass: heavy tails, skewed, Gaussian."""
    one = np.array([1, 1, -1, 1, -1, 1, 1])
    two = np.array([-1, 1, 1, -1, -1, -1, 1])
    three = np.array([1, -1, -1, -1, 1, -1, -1])
    modes = [
        ("Student t", 0.6, student_t(1.8 * one, np.linspace(0.5, 0.8, 7), 8.0)),
        ("skewed", 0.3, skewed(1.8 * two, 0.9, [3.0, 0, 0, -3.0, 0, 0, 3.0])),
        ("Gaussian", 0.1, gaussian(1.8 * three, 0.6, 0.3)),
    ]
    return several("tails7", "report", modes, cube(7, 5.0), log_evidence=12.0)


def pair10() -> CoverageTarget:
    """Ten dimensions, equal masses, each mode twice as wide as the other on half of the axes."""
    sign = np.array([1, -1, 1, 1, -1, -1, 1, -1, 1, -1])
    sds = np.where(np.arange(10) < 5, 0.45, 0.9)
    modes = [
        ("one", 0.5, gaussian(1.3 * sign, sds, 0.2)),
        ("other", 0.5, gaussian(-1.3 * sign, sds[::-1])),
    ]
    return several("pair10", "report", modes, cube(10, 4.5))


def bananas2_noisy() -> CoverageTarget:
    """Two dimensions, two bent modes back to back, noise of standard deviation 2."""
    modes = [
        ("opens upwards", 0.6, bent([-1.0, 3.0], [1.6, 0.6], 1.2)),
        ("opens downwards", 0.4, bent([1.0, -3.0], [1.2, 0.6], -1.2)),
    ]
    return several("bananas2_noisy", "report", modes, cube(2, 9.0), 1.0, noise_sd=2.0)


def arcs2() -> CoverageTarget:
    """Two dimensions, two thin half circles that open towards each other."""

    def curve(x: float, y: float, turn: float) -> Callable[[Array], Array]:
        return lambda t: np.column_stack([x + 3 * np.cos(t + turn), y + 3 * np.sin(t + turn)])

    arcs = [(-1.5, 1.0, 0.5 * np.pi), (2.0, -1.0, -0.5 * np.pi)]
    laws = [chain(along(curve(*arc), 0.0, np.pi, 0.2), 0.25) for arc in arcs]
    modes = [("left", 0.6, laws[0]), ("right", 0.4, laws[1])]
    return several("arcs2", "report", modes, cube(2, 7.0), log_evidence=-1.0)


def quartet3() -> CoverageTarget:
    """Three dimensions, four modes of 40 to 10 %, each of another shape."""
    modes = [
        ("correlated", 0.4, gaussian([2.5, 2.0, -2.0], [0.9, 0.7, 0.8], 0.6)),
        ("Student t", 0.3, student_t([-2.5, 2.5, 2.0], [0.5, 0.7, 0.6], 7.0)),
        ("skewed", 0.2, skewed([-2.0, -2.5, -2.5], 0.8, [3.0, -3.0, 4.0])),
        ("narrow", 0.1, gaussian([2.5, -3.0, 2.5], 0.45)),
    ]
    return several("quartet3", "report", modes, cube(3, 6.0), log_evidence=4.0)


def corner3() -> CoverageTarget:
    """Three dimensions within hard bounds, a mode in a corner, one at a face, one inside."""
    bounds = np.zeros(3), np.array([10.0, 1.0, 50.0])
    modes = [
        ("in a corner", 0.2, within([9.9, 0.02, 1.0], [0.8, 0.08, 4.0], *bounds)),
        ("at a face", 0.3, within([3.0, 0.98, 30.0], [0.7, 0.06, 3.5], *bounds)),
        ("inside", 0.5, within([6.0, 0.45, 35.0], [0.8, 0.09, 4.0], *bounds)),
    ]
    box = np.array([0.1, 0.01, 0.5]), np.array([9.9, 0.99, 49.5])
    return several("corner3", "report", modes, box, -30.0, bounds=bounds)


def uneven4() -> CoverageTarget:
    """Four dimensions, 55, 30 and 15 %, widths that differ by a factor of two on every axis."""
    modes = [
        ("55 %", 0.55, gaussian([2.0, -1.5, 1.5, -2.0], [1.0, 0.6, 1.0, 0.6])),
        ("30 %", 0.30, gaussian([-2.0, -2.0, 2.0, 1.5], [0.5, 1.0, 0.5, 1.0])),
        ("15 %", 0.15, gaussian([0.5, 2.5, -2.0, 2.0], 0.5, 0.4)),
    ]
    return several("uneven4", "report", modes, cube(4, 5.0), log_evidence=6.0)


def tails5() -> CoverageTarget:
    """Five dimensions, 50, 30 and 20 %, two of the modes with heavy tails."""
    modes = [
        ("t, 6", 0.5, student_t([1.5, -2.0, 1.5, 2.0, -1.5], 0.6, 6.0)),
        ("t, 10", 0.3, student_t([-2.0, 2.0, 1.0, -2.0, -1.5], [0.7, 0.5, 0.6, 0.5, 0.7], 10.0)),
        ("Gaussian", 0.2, gaussian([-1.5, -2.0, -2.0, 1.5, 2.0], 0.7)),
    ]
    return several("tails5", "report", modes, cube(5, 5.0), log_evidence=3.0)


def trio8() -> CoverageTarget:
    """Eight dimensions, three modes with 45, 35 and 20 % of the mass."""
    one, two = np.array([1, -1, 1, 1, -1, 1, -1, 1]), np.array([-1, 1, 1, -1, -1, -1, -1, 1])
    three = np.array([1, 1, -1, -1, 1, -1, 1, -1])
    modes = [
        ("45 %", 0.45, gaussian(1.4 * one, np.linspace(0.5, 0.8, 8))),
        ("35 %", 0.35, gaussian(1.4 * two, 0.6, 0.3)),
        ("20 %", 0.20, gaussian(1.4 * three, np.linspace(0.8, 0.5, 8))),
    ]
    return several("trio8", "report", modes, cube(8, 4.5), log_evidence=-15.0)


REPORT = (
    *(three1, beads2, shoulder3, bounds4, helix3, five5, ring6, tails7, pair10),
    *(bananas2_noisy, arcs2, quartet3, corner3, uneven4, tails5, trio8),
)
