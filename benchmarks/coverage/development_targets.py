"""The targets with which the engine and the rule for enough runs may be developed."""

from __future__ import annotations

import numpy as np

from benchmarks.arrays import Array
from benchmarks.coverage.coverage_target import CoverageTarget, cube, several
from benchmarks.coverage.laws import (
    along,
    bent,
    chain,
    gaussian,
    mixed,
    segment,
    side_by_side,
    skewed,
    student_t,
    within,
)


def pair1() -> CoverageTarget:
    """One dimension, widths that differ by a factor of two."""
    modes = [("narrow", 0.4, gaussian([-3.0], 0.5)), ("wide", 0.6, gaussian([2.5], 1.0))]
    return several("pair1", "development", modes, cube(1, 6.0))


def unequal3() -> CoverageTarget:
    """Three dimensions, four modes with 50, 30, 15 and 5 % of the mass."""
    modes = [
        ("50 %", 0.50, gaussian([-1.8, -1.8, -1.5], [0.8, 0.6, 0.7])),
        ("30 %", 0.30, gaussian([1.8, 1.5, -1.5], [0.5, 0.7, 0.5])),
        ("15 %", 0.15, gaussian([1.5, -1.8, 1.8], [0.5, 0.4, 0.6])),
        ("5 %", 0.05, gaussian([-1.8, 1.8, 1.8], [0.4, 0.45, 0.4])),
    ]
    return several("unequal3", "development", modes, cube(3, 4.0))


def pair8() -> CoverageTarget:
    """Eight dimensions, equal masses, one mode a quarter wider than the other."""
    modes = [
        ("narrow", 0.5, gaussian(np.full(8, -1.5), 0.5)),
        ("wide", 0.5, gaussian(np.full(8, 1.5), 0.625)),
    ]
    return several("pair8", "development", modes, cube(8, 4.0))


def beside5() -> CoverageTarget:
    """Five dimensions, a narrow mode beside one that is twice as wide on every axis."""
    modes = [
        ("wide", 0.65, gaussian(np.full(5, -0.8), 1.2)),
        ("narrow", 0.35, gaussian(np.full(5, 1.5), 0.6)),
    ]
    return several("beside5", "development", modes, cube(5, 5.0), log_evidence=-20.0)


def bound2() -> CoverageTarget:
    """Two dimensions, one of the modes cut off by a hard bound."""
    bounds = np.zeros(2), np.full(2, 12.0)
    modes = [
        ("at the bound", 0.35, within([0.2, 7.0], [0.5, 1.0], *bounds)),
        ("inside", 0.65, within([6.0, 3.0], [1.0, 0.8], *bounds)),
    ]
    box = np.full(2, 0.1), np.full(2, 10.0)
    return several("bound2", "development", modes, box, 3.0, bounds=bounds)


def ridge4() -> CoverageTarget:
    """Four dimensions, two modes joined by a thin ridge that has a quarter of the mass."""
    a, b = np.array([-2.0, -1.5, 1.0, 0.0]), np.array([2.0, 1.5, -1.0, 0.5])
    middle = (a + b) / 2
    peaks = gaussian(a, 0.6), gaussian(b, [0.8, 0.5, 0.6, 0.5])
    halves = [chain(segment(end, middle, 0.3), 0.3) for end in (a, b)]
    names, masses = ("one end", "other end"), (0.55, 0.45)
    ends = [mixed(each, [0.75, 0.25]) for each in zip(peaks, halves, strict=True)]
    modes = list(zip(names, masses, ends, strict=True))
    return several("ridge4", "development", modes, cube(4, 4.5))


def ring2() -> CoverageTarget:
    """Two dimensions, six modes on a circle, 25 to 8 % of the mass, every other twice as wide."""
    masses = (0.25, 0.22, 0.18, 0.15, 0.12, 0.08)
    modes = []
    for k, mass in enumerate(masses):
        angle = 0.3 + k * np.pi / 3
        centre = [5 * np.cos(angle), 5 * np.sin(angle)]
        modes.append((f"{mass:.0%}", mass, gaussian(centre, 0.9 if k % 2 else 0.45)))
    return several("ring2", "development", modes, cube(2, 8.0), log_evidence=5.0)


def spiral2() -> CoverageTarget:
    """Two dimensions, a thin spiral of one and three quarter turns in four arcs of equal mass."""

    def curve(t: Array) -> Array:
        radius = 1 + 5 * t / (3.5 * np.pi)
        return np.column_stack([radius * np.cos(t), radius * np.sin(t)])

    points = along(curve, 0.0, 3.5 * np.pi, 0.16)
    arcs = [chain(part, 0.2) for part in np.array_split(points[: len(points) // 4 * 4], 4)]
    modes = [(f"arc {k + 1}", 0.25, arc) for k, arc in enumerate(arcs)]
    return several("spiral2", "development", modes, cube(2, 8.0))


def shapes3() -> CoverageTarget:
    """Three dimensions, three modes that are not Gaussian: bent, heavy-tailed, skewed."""
    modes = [
        ("bent", 0.40, bent([-2.5, -1.5, -2.0], [0.8, 0.6, 0.6], 0.8)),
        ("Student t", 0.35, student_t([2.8, -2.0, 1.5], 0.5, 5.0)),
        ("skewed", 0.25, skewed([-1.0, 3.0, 2.0], [1.0, 0.9, 0.7], [5.0, -4.0, 3.0])),
    ]
    return several("shapes3", "development", modes, cube(3, 5.5), log_evidence=8.0)


def eight4() -> CoverageTarget:
    """Four dimensions, eight modes of equal mass and width: every other corner of a cube."""
    signs = np.array([[a, b, c, a * b * c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    centres = 2.0 * signs + np.array([0.3, -0.2, 0.1, 0.4])
    modes = [(f"corner {k + 1}", 0.125, gaussian(c, 0.5)) for k, c in enumerate(centres)]
    return several("eight4", "development", modes, cube(4, 5.0))


def trio10() -> CoverageTarget:
    """Ten dimensions, three modes with 50, 30 and 20 % of the mass."""
    one = np.array([1, 1, 1, 1, 1, -1, -1, -1, -1, -1])
    two = np.array([-1, -1, -1, 1, 1, 1, 1, -1, -1, 1])
    three = np.array([1, -1, 1, -1, -1, 1, -1, 1, 1, 1])
    modes = [
        ("50 %", 0.5, gaussian(1.2 * one, 0.7)),
        ("30 %", 0.3, gaussian(1.2 * two, np.linspace(0.45, 0.9, 10))),
        ("20 %", 0.2, gaussian(1.2 * three, 0.5)),
    ]
    return several("trio10", "development", modes, cube(10, 4.0), log_evidence=-40.0)


def tails6() -> CoverageTarget:
    """Six dimensions, heavy tails and a skewed mode with a third of the mass."""
    one, two = np.array([1, -1, 1, 1, -1, -1]), np.array([-1, -1, -1, 1, 1, 1])
    modes = [
        ("Student t", 0.65, student_t(1.6 * one, np.linspace(0.8, 0.5, 6), 6.0)),
        ("skewed", 0.35, skewed(1.9 * two, 0.8, [0, 3.0, -3.0, 0, 2.0, 0])),
    ]
    return several("tails6", "development", modes, cube(6, 5.0))


def banana3() -> CoverageTarget:
    """Three dimensions, one mode, strongly bent."""
    law = bent([0.5, -1.0, 0.3], [1.2, 0.5, 0.7], 1.5)
    return several("banana3", "development", [("all", 1.0, law)], cube(3, 5.0))


def cross2() -> CoverageTarget:
    """Two dimensions, two crossed bars with one middle."""
    law = mixed([gaussian([0.5, -0.5], 1.5, 0.97), gaussian([0.5, -0.5], 1.0, -0.95)], [0.6, 0.4])
    return several("cross2", "development", [("all", 1.0, law)], cube(2, 6.0))


def student5() -> CoverageTarget:
    """Five dimensions, one mode with heavy tails."""
    law = student_t(np.full(5, 0.4), [0.5, 0.6, 0.7, 0.8, 0.9], 5.0)
    return several("student5", "development", [("all", 1.0, law)], cube(5, 5.0))


def bent6() -> CoverageTarget:
    """Six dimensions, one mode, bent."""
    law = bent(np.full(6, -0.3), [1.0, 0.6, 0.8, 0.6, 0.7, 0.9], 0.8)
    return several("bent6", "development", [("all", 1.0, law)], cube(6, 4.0))


def twice4() -> CoverageTarget:
    """Four dimensions, two pairs of parameters, each strongly bent."""
    law = side_by_side((2, bent([0.3, 0], [1.0, 0.5], 1.6)), (2, bent([0, -0.2], 0.8, -1.2)))
    return several("twice4", "development", [("all", 1.0, law)], cube(4, 4.5))


def leaning7() -> CoverageTarget:
    """Seven dimensions, one mode, correlated and bent."""
    law = bent(np.full(7, 0.2), np.linspace(0.8, 1.1, 7), 0.6, 0.4)
    return several("leaning7", "development", [("all", 1.0, law)], cube(7, 4.5))


def banana9() -> CoverageTarget:
    """Nine dimensions, a banana beside a correlated Gaussian."""
    law = side_by_side(
        (2, bent([0.2, -0.2], [1.0, 0.5], 1.8)), (7, gaussian(np.zeros(7), 0.9, 0.6))
    )
    return several("banana9", "development", [("all", 1.0, law)], cube(9, 3.5))


def narrow8() -> CoverageTarget:
    """Eight dimensions, one correlated Gaussian that is narrow within its box."""
    law = gaussian(np.linspace(-1, 1, 8), np.linspace(0.2, 0.5, 8), 0.7)
    return several("narrow8", "development", [("all", 1.0, law)], cube(8, 4.0))


def pair3_noisy() -> CoverageTarget:
    """Three dimensions, two modes, noise of standard deviation 1.5."""
    modes = [
        ("65 %", 0.65, gaussian([-2.0, -1.5, 1.5], 0.8)),
        ("35 %", 0.35, gaussian([2.0, 1.5, -1.5], [0.6, 0.9, 0.7])),
    ]
    return several("pair3_noisy", "development", modes, cube(3, 5.0), noise_sd=1.5)


def four2_noisy() -> CoverageTarget:
    """Two dimensions, four modes with 40, 30, 20 and 10 % of the mass, noise of sd 3."""
    modes = [
        ("40 %", 0.4, gaussian([-4.0, -3.0], [1.2, 0.9], 0.4)),
        ("30 %", 0.3, gaussian([4.0, -4.0], 1.0)),
        ("20 %", 0.2, gaussian([3.5, 4.0], [0.8, 1.2], -0.4)),
        ("10 %", 0.1, gaussian([-3.0, 4.5], 0.8)),
    ]
    return several("four2_noisy", "development", modes, cube(2, 8.0), -5.0, noise_sd=3.0)


DEVELOPMENT = (
    *(pair1, unequal3, pair8, beside5, bound2, ridge4, ring2, spiral2, shapes3, eight4, trio10),
    *(tails6, banana3, cross2, student5, bent6, twice4, leaning7, banana9, narrow8),
    *(pair3_noisy, four2_noisy),
)
