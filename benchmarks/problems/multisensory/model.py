"""Visuo-vestibular causal inference, six parameters (paper, sec. 4.5).

A participant judges whether a movement and a visual field have a common cause: yes when two noisy
measurements differ by less than κ, or by a lapse. At disparity d = s_vest − s_vis and coherence c

    P(common) = λ/2 + (1 − λ) [Φ((d + κ)/s) − Φ((d − κ)/s)],   s² = σ_vis(c)² + σ_vest².

It is even in d, so the counts of answers per level and |d| are sufficient. Only s² enters: the
posterior has an exact ridge. The shipped participant is simulated; `data` reads a real one's CSV
(coherence, s_vest, s_vis, reported_common).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from benchmarks.arrays import Array
from benchmarks.problems.box_prior import Box

NAMES = ("sigma_vis_1", "sigma_vis_2", "sigma_vis_3", "sigma_vest", "lapse", "kappa")
# Degrees, except the lapse rate: hard, plausible, plausible, hard.
BOX = Box.of(*4 * [(0.5, 1.0, 40.0, 80.0)], (0.005, 0.01, 0.2, 0.5), (0.25, 1.0, 45.0, 180.0))

# Of the simulated participant; trials per level and the design are those of a real session.
TRUTH = np.array([4.0, 4.0, 9.0, 5.0, 0.03, 10.0])
TRIALS = (372, 374, 323)
DISPARITIES = np.array([0, 0, -5, 5, -10, 10, -20, 20, -40, 40], dtype=float)
MIDPOINTS = np.arange(-25.0, 26.0, 5.0)


@dataclass(frozen=True)
class Session:
    """Sufficient statistics of a session: per level and |disparity|, the answers of each kind.

    `disparities` (d,); `common` and `separate` (3, d) count the answers.
    """

    disparities: Array
    common: Array
    separate: Array

    @classmethod
    def from_trials(cls, level: Array, s_vest: Array, s_vis: Array, common: Array) -> Session:
        """The counts of trials with these stimuli and answers (1 = common cause)."""
        disparities, index = np.unique(np.abs(s_vest - s_vis), return_inverse=True)
        counts = np.zeros((2, 3, disparities.size))
        np.add.at(counts, (common.astype(int), level.astype(int) - 1, index), 1.0)
        return cls(disparities, counts[1], counts[0])

    def p_common(self, s: Array, lapse: Array, kappa: Array) -> Array:
        """P(common) at each disparity, on a new last axis."""
        s, lapse, kappa = (np.asarray(a)[..., None] for a in (s, lapse, kappa))
        within = ndtr((self.disparities + kappa) / s) - ndtr((self.disparities - kappa) / s)
        return 0.5 * lapse + (1.0 - lapse) * within

    def log_likelihood(self, level: int, s: Array, lapse: Array, kappa: Array) -> Array:
        """Log likelihood of the trials of one level (0, 1, 2)."""
        p = self.p_common(s, lapse, kappa)
        return np.log(p) @ self.common[level] + np.log1p(-p) @ self.separate[level]

    def log_densities(self, x: Array) -> Array:
        """Log joint (n,) at rows (n, 6); −∞ at and beyond the hard bounds."""
        inside = BOX.inside(x)
        values = np.full(len(x), -np.inf)
        x = x[inside]
        s = np.hypot(x[:, :3], x[:, 3:4])
        values[inside] = BOX.log_priors(x).sum(axis=1) + sum(
            self.log_likelihood(level, s[:, level], x[:, 4], x[:, 5]) for level in range(3)
        )
        return values


def simulated() -> Session:
    """The shipped participant: a real session's design, answers drawn from the model."""
    rng = np.random.default_rng(20180713)
    level = np.repeat([1, 2, 3], TRIALS)
    half = rng.choice(DISPARITIES, level.size) / 2
    middle = rng.choice(MIDPOINTS, level.size)
    s = np.hypot(TRUTH[level - 1], TRUTH[3])
    d = 2 * half
    within = ndtr((d + TRUTH[5]) / s) - ndtr((d - TRUTH[5]) / s)
    common = rng.random(level.size) < 0.5 * TRUTH[4] + (1 - TRUTH[4]) * within
    return Session.from_trials(level, middle + half, middle - half, common)


def read_session(path: str | os.PathLike[str]) -> Session:
    """A session from a CSV with the columns coherence, s_vest, s_vis, reported_common."""
    expected = ["coherence", "s_vest", "s_vis", "reported_common"]
    with open(path, encoding="utf-8") as file:
        found = file.readline().strip().split(",")
        if found != expected:
            raise ValueError(f"{path}: the columns are {found}, expected {expected}")
        rows = np.loadtxt(file, delimiter=",", ndmin=2)
    if not (np.isin(rows[:, 0], (1, 2, 3)).all() and np.isin(rows[:, 3], (0, 1)).all()):
        raise ValueError(f"{path}: coherence must be 1, 2 or 3 and reported_common 0 or 1")
    return Session.from_trials(*rows.T)
