"""Black-box variational inference with a mixture of Gaussians, the paper's baseline (sec. 4.2).

The mixture has K components with diagonal covariances. Gradients of the ELBO come from the score
function (Ranganath, Gerrish & Blei 2014), since a black box has no gradient of its own:

    ∇ ELBO = E_q[ ∇ log q(x) (f(x) − b) ],   f = log p − log q,

with a running mean of f as the control variate b. Adam climbs. The best of a grid over draws per
step and learning rates is taken by its estimated ELBO: the mean of f over the last tenth of its
evaluations, noise included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.arrays import Array
from benchmarks.scoring.metrics import Approximation, of_mixture
from vbstack import Link, Mixture

DRAWS = (1, 10, 100)
RATES = (0.01, 0.001)
START_SPREAD, START_VARIANCE = 0.1, 0.01
BASELINE_MEMORY = 0.9
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Parameters:
    """Logits (K,), means (K, D) and log standard deviations (K, D), or a gradient in them."""

    logits: Array
    means: Array
    log_sds: Array

    def packed(self) -> Array:
        return np.concatenate([self.logits, self.means.ravel(), self.log_sds.ravel()])

    @classmethod
    def unpacked(cls, flat: Array, k: int) -> Parameters:
        logits, means, log_sds = np.split(flat, [k, k + (flat.size - k) // 2])
        return cls(logits, means.reshape(k, -1), log_sds.reshape(k, -1))

    @property
    def weights(self) -> Array:
        shifted = np.exp(self.logits - self.logits.max())
        return np.asarray(shifted / shifted.sum())

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        k = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(n))
        z = rng.standard_normal((n, self.means.shape[1]))
        return self.means[k] + np.exp(self.log_sds[k]) * z


@dataclass(frozen=True)
class Fit:
    """What one optimisation found, its estimated ELBO, and with which settings."""

    parameters: Parameters
    elbo: float
    evaluations: int
    draws: int
    rate: float


def score(parameters: Parameters, x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """log q (n,) at x (n, D), and the map c ↦ Σ_n c_n ∇ log q(x_n) as a packed gradient."""
    inverse = np.exp(-parameters.log_sds)
    z = (x[:, None] - parameters.means) * inverse
    heights = -parameters.log_sds.sum(axis=1) - 0.5 * x.shape[1] * _LOG_2PI
    weights = parameters.weights
    logs = np.log(weights) + heights - 0.5 * np.square(z).sum(axis=2)
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total  # r_k(x) = w_k N_k(x) / q(x)

    def combined(c: Array) -> Array:
        r = c[:, None] * shares
        mass = r.sum(axis=0)
        means = np.einsum("nk,nkd->kd", r, z) * inverse
        log_sds = np.einsum("nk,nkd->kd", r, np.square(z)) - mass[:, None]
        return Parameters(mass - c.sum() * weights, means, log_sds).packed()

    return (top + np.log(total))[:, 0], combined


def climb(
    target: Callable[[Array], Array],
    dimension: int,
    k: int,
    budget: int,
    draws: int,
    rate: float,
    rng: np.random.Generator,
) -> Fit:
    """One optimisation with `budget` evaluations of `target`, rows (n, D) ↦ (n,)."""
    start = START_SPREAD * rng.standard_normal((k, dimension))
    log_sds = np.full((k, dimension), 0.5 * np.log(START_VARIANCE))
    flat = Parameters(np.zeros(k), start, log_sds).packed()
    first, second = np.zeros_like(flat), np.zeros_like(flat)
    baseline, values = None, []
    for step in range(1, budget // draws + 1):
        parameters = Parameters.unpacked(flat, k)
        x = parameters.sample(draws, rng)
        log_q, combined = score(parameters, x)
        f = target(x) - log_q
        values.append(f)
        baseline = f.mean() if baseline is None else baseline
        gradient = combined((f - baseline) / draws)
        baseline = BASELINE_MEMORY * baseline + (1 - BASELINE_MEMORY) * f.mean()
        first = BETA1 * first + (1 - BETA1) * gradient
        second = BETA2 * second + (1 - BETA2) * np.square(gradient)
        corrected = np.sqrt(second / (1 - BETA2**step)) + EPSILON
        flat = flat + rate * first / (1 - BETA1**step) / corrected
    tail = np.concatenate(values)[-max(1, budget // 10) :]
    return Fit(Parameters.unpacked(flat, k), float(tail.mean()), budget, draws, rate)


def best_fit(
    target: Callable[[Array], Array], dimension: int, k: int, budget: int, seed: int
) -> Fit:
    """The fit of the grid with the highest estimated ELBO; each has the whole budget."""
    seeds = np.random.SeedSequence(seed).spawn(len(DRAWS) * len(RATES))
    grid = [(draws, rate) for draws in DRAWS for rate in RATES]
    fits = [
        climb(target, dimension, k, budget, *point, np.random.default_rng(s))
        for point, s in zip(grid, seeds, strict=True)
    ]
    return max(fits, key=lambda fit: fit.elbo)


def budget_of(dimension: int, noisy: bool) -> int:
    """The paper's: what forty VBMC runs may use."""
    return (3000 if noisy else 2000) * (dimension + 2)


def approximation_of(fit: Fit, link: Link, centre: Array, width: Array) -> Approximation:
    """The fit in the original space, when it was made in u with link space y = centre + width u."""
    p = fit.parameters
    mixture = Mixture(
        links=(link,),
        link_of=np.zeros(p.logits.size, dtype=int),
        owner=np.zeros(p.logits.size, dtype=int),
        centres=centre + width * p.means,
        factors=np.exp(p.log_sds)[:, :, None] * np.eye(centre.size) * width[:, None],
        own_weights=p.weights,
        n_runs=1,
    )
    return of_mixture(mixture, p.weights, fit.elbo)
