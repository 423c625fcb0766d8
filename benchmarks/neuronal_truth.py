"""The true posterior of the neuronal problem: ensemble MCMC, then importance sampling.

The chain moves in (resistivity, reversal, log conductance, log gradient, factor), where the ridge
is nearly straight. A mixture of Student-t densities fitted to its draws, and then to a pilot sample
too, is the proposal of the importance sampling that gives evidence, moments and draws. Its
effective sample size says how good it was, and the moments of the chain are a check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from benchmarks.metrics import kernel_density
from benchmarks.neuronal import LogJoint
from benchmarks.neuronal_modes import modes_of
from benchmarks.neuronal_recording import likelihood_times, whitener
from benchmarks.priors import Array
from benchmarks.reference import Reference

WALKERS, BURN_IN, STEPS = 32, 100, 300
PILOT, PROPOSALS = 2500, 7500
COMPONENTS, INFLATION, FREEDOM = 4, 1.1, 8
N_DRAWS = 6000
LOGS = np.array([2, 3])  # the parameters that move on a log scale


@dataclass(frozen=True)
class Target:
    """The log joint in the chain's coordinates z, Jacobian included; by modes, not by NEURON."""

    joint: LogJoint

    def parameters(self, z: Array) -> Array:
        theta = np.array(z)
        theta[..., LOGS] = np.exp(theta[..., LOGS])
        return theta

    def residual(self, theta: Array) -> Array:
        likelihood, times = self.joint.likelihood, likelihood_times()
        simulated = modes_of(likelihood.morphology).recording(theta, times)
        return likelihood.recording.at(times) - simulated

    def log_joint(self, theta: Array) -> float:
        """The log joint in the original parameters."""
        if not self.joint.box.inside(theta):
            return -np.inf
        noise = whitener(self.joint.likelihood.noise)
        return float(
            self.joint.box.log_priors(theta).sum() + noise.log_density(self.residual(theta))
        )

    def __call__(self, z: Array) -> float:
        return self.log_joint(self.parameters(z)) + float(z[LOGS].sum())

    def start(self) -> tuple[Array, Array]:
        """Mode and Laplace covariance of the likelihood, from the middle of the plausible box."""
        box, factor = self.joint.box, whitener(self.joint.likelihood.noise)
        middle = (box.plausible_lower + box.plausible_upper) / 2
        middle[LOGS] = np.log(middle[LOGS])
        found = least_squares(
            lambda z: factor.whitened(self.residual(self.parameters(z))),
            middle,
            x_scale=[50.0, 0.01, 0.5, 0.5, 0.5],
        )
        return found.x, np.linalg.inv(found.jac.T @ found.jac)


def chain(target: Target, rng: np.random.Generator) -> tuple[Array, str]:
    """Draws (n, 5) of the chain, and its diagnostics in words."""
    import emcee

    mode, covariance = target.start()
    spread = 0.5 * rng.multivariate_normal(np.zeros(5), covariance, WALKERS)
    moves = [(emcee.moves.DEMove(), 0.7), (emcee.moves.DESnookerMove(), 0.3)]
    sampler = emcee.EnsembleSampler(WALKERS, 5, target, moves=moves)
    sampler.random_state = np.random.RandomState(int(rng.integers(2**31))).get_state()
    sampler.run_mcmc(mode + spread, BURN_IN + STEPS)
    time = sampler.get_autocorr_time(discard=BURN_IN, tol=0)
    kept = WALKERS * STEPS
    words = (
        f"emcee, {WALKERS} walkers, {BURN_IN} + {STEPS} steps, longest autocorrelation time "
        f"{time.max():.0f} steps (about {kept / time.max():.0f} independent draws)"
    )
    return sampler.get_chain(discard=BURN_IN, flat=True), words


@dataclass(frozen=True)
class Proposal:
    """A mixture of equally heavy Student-t densities: `means` (K, D), `factors` (K, D, D)."""

    means: Array
    factors: Array

    @classmethod
    def fitted(cls, draws: Array) -> Proposal:
        """One component for each piece of the draws along their bend, somewhat wider."""
        whole = np.linalg.cholesky(np.cov(draws, rowvar=False))
        white = np.linalg.solve(whole, (draws - draws.mean(axis=0)).T).T
        order = np.argsort(white @ _longest(white))
        groups = np.array_split(order, COMPONENTS)
        means = np.array([draws[g].mean(axis=0) for g in groups])
        covariances = [INFLATION**2 * np.cov(draws[g], rowvar=False) for g in groups]
        return cls(means, np.linalg.cholesky(np.array(covariances)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        k = rng.integers(len(self.means), size=n)
        z = rng.standard_normal((n, self.means.shape[1]))
        z /= np.sqrt(rng.chisquare(FREEDOM, n) / FREEDOM)[:, None]
        return self.means[k] + np.einsum("nde,ne->nd", self.factors[k], z)

    def log_density(self, x: Array) -> Array:
        parts = zip(self.means, self.factors, strict=True)
        logs = [multivariate_t(m, f @ f.T, FREEDOM).logpdf(x) for m, f in parts]
        return logsumexp(logs, axis=0) - np.log(len(logs))


def _longest(white: Array) -> Array:
    """The direction along which the draws are most skewed: that of the bent ridge."""
    third = np.einsum("nd,n->d", white, np.square(white).sum(axis=1))
    return third / np.linalg.norm(third)


@dataclass(frozen=True)
class Weighted:
    """Draws of a proposal (n, D), their log importance weights, and the weights normalised."""

    points: Array
    log_weights: Array
    weights: Array

    @classmethod
    def of(cls, target: Target, proposal: Proposal, n: int, rng: np.random.Generator) -> Weighted:
        points = proposal.sample(n, rng)
        logs = np.array([target(point) for point in points]) - proposal.log_density(points)
        weights = np.exp(logs - logs.max())
        return cls(points, logs, weights / weights.sum())

    @property
    def size(self) -> float:
        """Effective sample size."""
        return float(1 / np.square(self.weights).sum())

    def resampled(self, n: int, rng: np.random.Generator) -> Array:
        """n draws by systematic resampling, in random order."""
        ladder = (np.arange(n) + rng.random()) / n
        places = np.searchsorted(np.cumsum(self.weights), ladder)
        return rng.permutation(self.points[np.minimum(places, len(self.points) - 1)])


def reference_of(joint: LogJoint) -> Reference:
    """The true posterior of a recording, with draws; about five minutes."""
    rng = np.random.default_rng(5)
    target = Target(joint)
    z, words = chain(target, rng)
    pilot = Weighted.of(target, Proposal.fitted(z), PILOT, rng)
    both = np.concatenate([z, pilot.resampled(len(z), rng)])
    sample = Weighted.of(target, Proposal.fitted(both), PROPOSALS, rng)
    theta, chained = target.parameters(sample.points), target.parameters(z)
    mean = sample.weights @ theta
    covariance = np.cov(theta, rowvar=False, aweights=sample.weights)
    apart = np.abs(chained.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    kernels = [kernel_density(column, sample.weights) for column in theta.T]
    return Reference(
        float(logsumexp(sample.log_weights) - np.log(PROPOSALS)),
        float(np.sqrt(1 / sample.size - 1 / PROPOSALS)),
        mean,
        covariance,
        np.array([mesh for mesh, _ in kernels])[:, ::4],
        np.array([density for _, density in kernels])[:, ::4],
        target.parameters(sample.resampled(N_DRAWS, rng)),
        f"{words}; then importance sampling: a pilot of {PILOT} draws (effective sample size "
        f"{pilot.size:.0f}), and {PROPOSALS} (effective sample size {sample.size:.0f}) from which "
        "evidence, moments, kernel marginals and draws come. The chain's means differ by at most "
        f"{apart.max():.2f} sd",
    )
