"""The true posterior of a multisensory session, by quadrature.

Given σ_vest, λ and κ the three visual noises are independent, so the evidence is an integral over
three outer parameters of a product of three one-dimensional ones,

    Z = ∫ π(v) π(λ) π(κ) Π_c A_c(v, λ, κ),   A_c = ∫ π(σ_c) L_c(√(σ_c² + v²), λ, κ) dσ_c,

with v = σ_vest. Every integral is a composite Gauss–Legendre rule; its panels break where the prior
does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import xlogy

from benchmarks.arrays import Array
from benchmarks.problems.multisensory.model import BOX, Session
from benchmarks.problems.reference_posterior import Reference

NOISE_BREAKS = (0.5, 1, 2, 3.5, 5, 6.5, 8, 10, 12, 15, 20, 28, 40, 80)
LAPSE_BREAKS = (0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.09, 0.13, 0.2, 0.5)
KAPPA_BREAKS = (0.25, 1, 4, 7, *np.arange(8.0, 13.5, 0.75), 15, 18, 25, 45, 180)
N_DRAWS = 8000
GRID = 1000


@dataclass(frozen=True)
class Rule:
    """A composite Gauss–Legendre rule; `weights` include the prior density, `widths` do not.

    The widths tile the range in the order of the nodes: node i has the cell edges[i], edges[i + 1].
    """

    nodes: Array
    widths: Array
    edges: Array
    weights: Array

    @classmethod
    def over(cls, breaks: tuple[float, ...], order: int, parameter: int) -> Rule:
        """`order` nodes in each panel, for the prior of this parameter."""
        t, w = np.polynomial.legendre.leggauss(order)
        ends = np.asarray(breaks, dtype=float)
        half = np.diff(ends)[:, None] / 2
        nodes = (ends[:-1, None] + half * (1 + t)).ravel()
        widths = (half * w).ravel()
        edges = np.append(ends[0], ends[0] + np.cumsum(widths))
        return cls(nodes, widths, edges, widths * np.exp(BOX.part(parameter).log_priors(nodes)))


@dataclass(frozen=True)
class Integral:
    """The posterior on the nodes of the outer rules, and the inner ones summed up.

    `mass` (v, λ, κ) is the posterior probability of each outer node, `inner` (3, n) that of each
    node of a visual noise; `moments` (2, 3, v, λ, κ) are E[σ_c] and E[σ_c²] at each outer node.
    """

    noise: Rule
    lapse: Rule
    kappa: Rule
    log_evidence: float
    mass: Array
    inner: Array
    moments: Array


def integrate(session: Session, order: int = 5) -> Integral:
    """The posterior of a session with `order` nodes per panel."""
    noise = Rule.over(NOISE_BREAKS, order, 3)
    lapse = Rule.over(LAPSE_BREAKS, order, 4)
    kappa = Rule.over(KAPPA_BREAKS, order, 5)
    outer = (noise.nodes.size, lapse.nodes.size, kappa.nodes.size)
    mass, moments = np.zeros(outer), np.zeros((2, 3, *outer))
    inner = np.zeros((3, noise.nodes.size))
    powers = np.array([np.ones_like(noise.nodes), noise.nodes, noise.nodes**2])
    saturated = _saturated(session)
    s = np.hypot(noise.nodes[:, None, None], noise.nodes[:, None])  # (v, σ, 1)
    for k, (node, weight) in enumerate(zip(kappa.nodes, kappa.weights, strict=True)):
        # f (3, v, σ, λ): the integrand of A_c with its weights; a (3 powers, c, v, λ): its sums.
        f = np.array([session.log_likelihood(c, s, lapse.nodes, node) for c in range(3)])
        f = np.exp(f - saturated[:, None, None, None]) * noise.weights[:, None]
        a = np.einsum("pi,cvil->pcvl", powers, f)
        weights = weight * noise.weights[:, None] * lapse.weights
        mass[:, :, k] = weights * a[0].prod(axis=0)
        moments[:, :, :, :, k] = a[1:] / np.maximum(a[0], np.finfo(float).tiny)
        for c in range(3):
            others = weights * np.delete(a[0], c, axis=0).prod(axis=0)
            inner[c] += np.einsum("vl,vil->i", others, f[c])
    total = mass.sum()
    log_evidence = float(np.log(total) + saturated.sum())
    return Integral(noise, lapse, kappa, log_evidence, mass / total, inner / total, moments)


def _saturated(session: Session) -> Array:
    """Log likelihood (3,) of a model that fits every proportion: no likelihood exceeds it."""
    n = session.common + session.separate
    terms = xlogy(session.common, session.common / np.maximum(n, 1)) + xlogy(
        session.separate, session.separate / np.maximum(n, 1)
    )
    return terms.sum(axis=1)


def moments_of(integral: Integral) -> tuple[Array, Array]:
    """Posterior mean (6,) and covariance (6, 6)."""
    v, lapse, kappa = integral.noise.nodes, integral.lapse.nodes, integral.kappa.nodes
    axes = np.meshgrid(v, lapse, kappa, indexing="ij")
    means = np.array([*integral.moments[0], *axes])
    mean = np.einsum("avlk,vlk->a", means, integral.mass)
    second = np.einsum("avlk,bvlk,vlk->ab", means, means, integral.mass, optimize=True)
    for c in range(3):  # σ_c varies around its conditional mean
        second[c, c] = np.sum(integral.mass * integral.moments[1, c])
    return mean, second - np.outer(mean, mean)


def marginals_of(integral: Integral) -> tuple[Array, Array]:
    """Grids and marginal densities (6, GRID), interpolated between the nodes."""
    noise, lapse, kappa = integral.noise, integral.lapse, integral.kappa
    rules = [noise, noise, noise, noise, lapse, kappa]
    masses = [*integral.inner, *(integral.mass.sum(axis=ax) for ax in ((1, 2), (0, 2), (0, 1)))]
    grids, densities = np.empty((6, GRID)), np.empty((6, GRID))
    for d, (rule, mass) in enumerate(zip(rules, masses, strict=True)):
        density = mass / rule.widths
        seen = np.flatnonzero(density > 1e-9 * density.max())
        grids[d] = np.linspace(rule.edges[seen[0]], rule.edges[seen[-1] + 1], GRID)
        x = np.concatenate([[rule.edges[0]], rule.nodes, [rule.edges[-1]]])
        densities[d] = PchipInterpolator(x, np.concatenate([[0.0], density, [0.0]]))(grids[d])
        densities[d] /= np.trapezoid(densities[d], grids[d])
    return grids, densities


def draws_of(session: Session, integral: Integral, n: int, rng: np.random.Generator) -> Array:
    """n draws (n, 6): cells of the rules by their mass, then importance resampling within them.

    A draw uniform in a cell has the density of its node, so its importance weight is the ratio of
    the joint at the draw to that at the node. Systematic resampling out of 8 n.
    """
    nodes, draws = _in_cells(session, integral, 8 * n, rng)
    weights = np.exp(session.log_densities(draws) - session.log_densities(nodes))
    ladder = np.cumsum(weights / weights.sum())
    return draws[np.searchsorted(ladder, (np.arange(n) + rng.random()) / n)]


def _in_cells(
    session: Session, integral: Integral, n: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Nodes (n, 6) drawn by their posterior mass, and a uniform draw (n, 6) in the cell of each."""
    noise, mass = integral.noise, integral.mass
    v, lapse, kappa = np.unravel_index(rng.choice(mass.size, n, p=mass.ravel()), mass.shape)
    columns = []
    for c in range(3):
        s = np.hypot(noise.nodes, noise.nodes[v, None])
        at = integral.lapse.nodes[lapse, None], integral.kappa.nodes[kappa, None]
        logits = session.log_likelihood(c, s, *at) + np.log(noise.weights)
        columns.append(np.argmax(logits + rng.gumbel(size=logits.shape), axis=1))
    rules = (*4 * [noise], integral.lapse, integral.kappa)
    indices = (*columns, v, lapse, kappa)
    pairs = list(zip(rules, indices, strict=True))
    nodes = np.column_stack([rule.nodes[i] for rule, i in pairs])
    draws = [rule.edges[i] + rule.widths[i] * rng.random(n) for rule, i in pairs]
    return nodes, np.column_stack(draws)


def reference_of(session: Session, order: int = 5) -> Reference:
    """The true posterior with draws; the error is the difference to a rule one order lower."""
    integral = integrate(session, order)
    coarser = integrate(session, order - 1)
    draws = draws_of(session, integral, N_DRAWS, np.random.default_rng(6))
    error = abs(integral.log_evidence - coarser.log_evidence)
    return Reference(
        integral.log_evidence,
        error,
        *moments_of(integral),
        *marginals_of(integral),
        draws,
        f"composite Gauss–Legendre quadrature, {order} nodes per panel; the error is the "
        f"difference to {order - 1} nodes; draws by resampling within the cells of the rule",
    )
