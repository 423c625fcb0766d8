"""The true posterior of the neuronal problem: ensemble MCMC, then importance sampling.

The chain moves in (resistivity, reversal, log conductance, log gradient, factor), where the ridge
is nearly straight. A mixture of Gaussians fitted to its draws, made wider, is the proposal of the
importance sampling that gives evidence, moments and draws; its effective sample size says how good
it was, and the moments of the chain are a check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import logsumexp

from benchmarks.metrics import kernel_density
from benchmarks.neuronal import LogJoint
from benchmarks.neuronal_modes import modes_of
from benchmarks.neuronal_recording import likelihood_times, whitener
from benchmarks.priors import Array
from benchmarks.reference import Reference

WALKERS, BURN_IN, STEPS = 32, 150, 350
PROPOSALS, COMPONENTS, INFLATION = 10_000, 12, 1.3
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
    """A mixture of equally heavy Gaussians: `means` (K, D), `factors` (K, D, D)."""

    means: Array
    factors: Array

    @classmethod
    def fitted(cls, draws: Array) -> Proposal:
        """One Gaussian for each piece of the draws along their bend, with inflated covariance."""
        whole = np.linalg.cholesky(np.cov(draws, rowvar=False))
        white = np.linalg.solve(whole, draws.T).T
        order = np.argsort(white @ _longest(white))
        groups = np.array_split(order, COMPONENTS)
        means = np.array([draws[g].mean(axis=0) for g in groups])
        covariances = [INFLATION**2 * np.cov(draws[g], rowvar=False) for g in groups]
        return cls(means, np.linalg.cholesky(np.array(covariances)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        k = rng.integers(len(self.means), size=n)
        z = rng.standard_normal((n, self.means.shape[1]))
        return self.means[k] + np.einsum("nde,ne->nd", self.factors[k], z)

    def log_density(self, x: Array) -> Array:
        white = np.linalg.solve(self.factors, (x[:, None] - self.means).transpose(1, 2, 0))
        heights = -np.log(np.einsum("kdd->kd", self.factors)).sum(axis=1)
        terms = heights[:, None] - 0.5 * np.square(white).sum(axis=1)
        constant = 0.5 * self.means.shape[1] * np.log(2 * np.pi) + np.log(len(self.means))
        return logsumexp(terms, axis=0) - constant


def _longest(white: Array) -> Array:
    """The direction along which the draws are most skewed: that of the bent ridge."""
    third = np.einsum("nd,n->d", white, np.square(white).sum(axis=1))
    return third / np.linalg.norm(third)


def reference_of(joint: LogJoint) -> Reference:
    """The true posterior of a recording, with draws; about five minutes."""
    rng = np.random.default_rng(5)
    target = Target(joint)
    z, words = chain(target, rng)
    proposal = Proposal.fitted(z)
    points = proposal.sample(PROPOSALS, rng)
    log_weights = np.array([target(point) for point in points]) - proposal.log_density(points)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    ess = 1 / np.square(weights).sum()
    theta, chained = target.parameters(points), target.parameters(z)
    mean = weights @ theta
    covariance = np.cov(theta, rowvar=False, aweights=weights)
    apart = np.abs(chained.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    kernels = [kernel_density(column, weights) for column in theta.T]
    ladder = (np.arange(N_DRAWS) + rng.random()) / N_DRAWS
    return Reference(
        float(logsumexp(log_weights) - np.log(PROPOSALS)),
        float(np.sqrt(1 / ess - 1 / PROPOSALS)),
        mean,
        covariance,
        np.array([mesh for mesh, _ in kernels])[:, ::4],
        np.array([density for _, density in kernels])[:, ::4],
        rng.permutation(theta[np.searchsorted(np.cumsum(weights), ladder)]),
        f"{words}; then importance sampling with {PROPOSALS} draws of a mixture of {COMPONENTS} "
        f"Gaussians fitted to the chain, effective sample size {ess:.0f}: evidence, moments, "
        f"kernel marginals, draws. The chain's means differ by at most {apart.max():.2f} sd",
    )
