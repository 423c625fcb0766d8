"""The true posterior of the neuronal problem: importance sampling along its ridge.

Conductance and gradient trade off on a long, bent ridge whose thin tail an ensemble of walkers
reaches too seldom; a proposal fitted to its draws then misses it with a fine effective sample size.
So the ridge is followed: at fixed log gradients the likelihood is maximised over the other four
parameters, with a Laplace approximation of them. Interpolated, and with heavier tails, that is the
proposal of an importance sampling that gives evidence, moments and draws. An ensemble MCMC started
from those draws must stay where it is, which is the check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import least_squares
from scipy.special import gammaln, logsumexp

from benchmarks.arrays import Array
from benchmarks.problems.marginal_densities import kernel_density
from benchmarks.problems.neuronal.log_joint_by_modes import LOGS, LogJointByModes
from benchmarks.problems.neuronal.problem import LogJoint
from benchmarks.problems.neuronal.recording import whitener
from benchmarks.problems.reference_posterior import Reference

GRADIENT, OTHERS = 3, np.array([0, 1, 2, 4])
SCALES = np.array([50.0, 0.01, 0.5, 0.5])  # of the others, for the optimiser
NODES, CELLS = 16, 2000
FLATTER, INFLATION, FREEDOM = 0.8, 1.1, 8  # of the proposal
PROPOSALS, N_DRAWS = 5000, 5000
WALKERS, STEPS = 32, 100


@dataclass(frozen=True)
class Ridge:
    """The posterior along its ridge.

    At each of the log gradients `nodes` (n,): log density of the log gradient (n,), and centre
    (n, 4) and Cholesky factor (n, 4, 4) of the others, by Laplace's approximation.
    """

    nodes: Array
    log_densities: Array
    centres: Array
    factors: Array

    @classmethod
    def of(cls, target: LogJointByModes) -> Ridge:
        """Follow the ridge of the target from the middle of the plausible box both ways."""
        box = target.joint.box
        low, high = max(box.lower[GRADIENT], 1e-4), 0.99 * box.upper[GRADIENT]
        nodes = np.linspace(np.log(low), np.log(high), NODES)
        middle = (box.plausible_lower + box.plausible_upper) / 2
        first = int(np.argmin(np.abs(nodes - np.log(middle[GRADIENT]))))
        middle[LOGS] = np.log(middle[LOGS])
        found: dict[int, tuple[float, Array, Array]] = {}
        for path in (range(first, NODES), range(first - 1, -1, -1)):
            for i in path:
                near = found.get(i - 1) or found.get(i + 1)
                start = middle[OTHERS] if near is None else near[1]
                found[i] = _at(target, nodes[i], start)
        parts = zip(*(found[i] for i in range(NODES)), strict=True)
        return cls(nodes, *(np.array(part) for part in parts))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws z (n, 5) and their log densities: a flattened marginal, Student-t conditionals."""
        edges = np.linspace(self.nodes[0], self.nodes[-1], CELLS + 1)
        middles = (edges[:-1] + edges[1:]) / 2
        logs = FLATTER * CubicSpline(self.nodes, self.log_densities)(middles)
        chances = np.exp(logs - logsumexp(logs))
        cell = rng.choice(CELLS, n, p=chances)
        width = edges[1] - edges[0]
        along = edges[cell] + width * rng.random(n)
        factors = INFLATION * CubicSpline(self.nodes, self.factors)(along)
        t = rng.standard_normal((n, 4)) / np.sqrt(rng.chisquare(FREEDOM, n) / FREEDOM)[:, None]
        z = np.empty((n, 5))
        z[:, GRADIENT] = along
        z[:, OTHERS] = CubicSpline(self.nodes, self.centres)(along)
        z[:, OTHERS] += np.einsum("nde,ne->nd", factors, t)
        return z, np.log(chances[cell] / width) + _log_t(t, factors)


def _at(target: LogJointByModes, along: float, start: Array) -> tuple[float, Array, Array]:
    """Laplace's approximation of the others at this log gradient, and the log density there."""
    noise = whitener(target.joint.likelihood.noise)

    def point(others: Array) -> Array:
        return np.insert(others, GRADIENT, along)

    found = least_squares(
        lambda others: noise.whitened(target.residual(target.parameters(point(others)))),
        start,
        x_scale=SCALES,
    )
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    half_log_det = 0.5 * np.linalg.slogdet(covariance)[1]
    return target(point(found.x)) + half_log_det, found.x, np.linalg.cholesky(covariance)


def _log_t(t: Array, factors: Array) -> Array:
    """Log density of draws t of a standard Student-t, scaled by factors (n, 4, 4)."""
    d = t.shape[1]
    constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log(FREEDOM * np.pi)
    volumes = np.log(np.abs(np.einsum("ndd->nd", factors))).sum(axis=1)
    tails = (FREEDOM + d) / 2 * np.log1p(np.square(t).sum(axis=1) / FREEDOM)
    return np.asarray(constant - volumes - tails)


@dataclass(frozen=True)
class Weighted:
    """Draws (n, D), their log importance weights, and the weights normalised."""

    points: Array
    log_weights: Array
    weights: Array

    @classmethod
    def of(cls, log_target: Array, points: Array, log_proposal: Array) -> Weighted:
        logs = log_target - log_proposal
        weights = np.exp(logs - logs.max())
        return cls(points, logs, weights / weights.sum())

    @property
    def size(self) -> float:
        """Effective sample size."""
        return float(1 / np.square(self.weights).sum())

    @property
    def log_evidence(self) -> float:
        return float(logsumexp(self.log_weights) - np.log(self.log_weights.size))

    def resampled(self, n: int, rng: np.random.Generator) -> Array:
        """n draws by systematic resampling, in random order."""
        ladder = (np.arange(n) + rng.random()) / n
        places = np.searchsorted(np.cumsum(self.weights), ladder)
        return rng.permutation(self.points[np.minimum(places, len(self.points) - 1)])


def moved(target: LogJointByModes, starts: Array, rng: np.random.Generator) -> Array:
    """Where an ensemble MCMC is in the second half of its steps from these starts (n, 5)."""
    import emcee

    moves = [(emcee.moves.DEMove(), 0.7), (emcee.moves.DESnookerMove(), 0.3)]
    sampler = emcee.EnsembleSampler(len(starts), 5, target, moves=moves)
    sampler.random_state = np.random.RandomState(int(rng.integers(2**31))).get_state()
    sampler.run_mcmc(starts, STEPS)
    return sampler.get_chain(discard=STEPS // 2, flat=True)


def reference_of(joint: LogJoint) -> Reference:
    """The true posterior of a recording, with draws; about two minutes."""
    rng = np.random.default_rng(5)
    target = LogJointByModes(joint)
    points, log_proposal = Ridge.of(target).sample(PROPOSALS, rng)
    sample = Weighted.of(np.array([target(z) for z in points]), points, log_proposal)
    theta = target.parameters(points)
    mean = sample.weights @ theta
    covariance = np.cov(theta, rowvar=False, aweights=sample.weights)
    chain = target.parameters(moved(target, sample.resampled(WALKERS, rng), rng))
    apart = np.abs(chain.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    kernels = [kernel_density(column, sample.weights) for column in theta.T]
    return Reference(
        sample.log_evidence,
        float(np.sqrt(1 / sample.size - 1 / PROPOSALS)),
        mean,
        covariance,
        np.array([mesh for mesh, _ in kernels])[:, ::4],
        np.array([density for _, density in kernels])[:, ::4],
        target.parameters(sample.resampled(N_DRAWS, rng)),
        f"importance sampling along the ridge, {PROPOSALS} draws, effective sample size "
        f"{sample.size:.0f}: evidence, moments, kernel marginals and draws; the means of {WALKERS} "
        f"emcee walkers from there after {STEPS} steps differ by {apart.max():.2f} sd at most",
    )
