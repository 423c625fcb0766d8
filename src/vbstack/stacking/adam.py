"""The paper's Algorithm 1: Adam on softmax logits, with fresh draws at every step.

The reference to beat. Analytic gradient of the textbook estimate (paper, eq. 12), with S draws
x_js of each component j, m_j the mean of log q_w over them:

    L = Σ_j w_j (r_j − m_j)        ∂L/∂w_i = r_i − m_i − Σ_j w_j mean_s p_i(x_js)/q_w(x_js)
"""

from __future__ import annotations

import numpy as np

from vbstack.arrays import Array
from vbstack.stacking.elbo import fresh_elbos
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.sample_problem import Sample
from vbstack.stacking.solver import maximise
from vbstack.stacking.weights import FreeWeights, WeightSolution, bracket, first_draws

LEARNING_RATE, DRAWS, MAX_STEPS, PATIENCE = 0.1, 20, 500, 5  # the paper's and its software's
STOPPED = "adam: no improvement in five steps"
STEPS_EXHAUSTED = "adam: max_steps reached"


def optimise_adam(
    mixture: Mixture,
    log_joint: Array,
    free: FreeWeights,
    *,
    final_draws: int,
    rng: np.random.Generator,
    learning_rate: float = LEARNING_RATE,
    draws: int = DRAWS,
    max_steps: int = MAX_STEPS,
) -> WeightSolution:
    """Weights by the paper's algorithm, with the same bracket as the certified solver's.

    It stops when the noisy ELBO, rounded to five decimals, has not risen for five steps, and keeps
    the step with the luckiest value.
    """
    reward = mixture.rewards(log_joint)
    logits = np.log(free.start)
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    best, best_logits, unlucky, step = -np.inf, logits, 0, 0
    for step in range(1, max_steps + 1):
        v = _softmax(logits)
        sample = Sample.draw(mixture, np.full(mixture.size, draws), rng, quasi=False)
        value, slope = textbook_elbo(sample, reward, free.basis @ v)
        if round(value, 5) > round(best, 5):
            best, best_logits, unlucky = value, logits, 0
        else:
            unlucky += 1
        if unlucky >= PATIENCE:
            break
        slope = free.basis.T @ slope
        slope = v * (slope - v @ slope)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        scale = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        logits = logits + learning_rate * first / (1 - 0.9**step) / scale
    return _bracketed(
        mixture,
        log_joint,
        free,
        _softmax(best_logits),
        final_draws,
        STOPPED if unlucky >= PATIENCE else STEPS_EXHAUSTED,
        step,
        rng,
    )


def _bracketed(
    mixture: Mixture,
    log_joint: Array,
    free: FreeWeights,
    v: Array,
    final_draws: int,
    status: str,
    steps: int,
    rng: np.random.Generator,
) -> WeightSolution:
    """The weights v with their bracket: v itself is the reference, independent of the draws."""
    counts = np.full(mixture.size, first_draws(mixture.size))
    sample = Sample.draw(mixture, counts, rng)
    problem = free.problem(sample, mixture.rewards(log_joint))
    optimum = maximise(problem, v, 1e-3)
    w = free.basis @ v
    fresh = fresh_elbos(mixture, log_joint, [w, w], final_draws, rng)
    gap, _ = bracket(problem, optimum, v, fresh)
    value = float(fresh.values[0])
    return WeightSolution(
        weights=w,
        lower=value,
        upper=value + gap,
        gap=gap,
        standard_error=fresh.standard_error(0),
        status=status,
        draws=int(counts.sum()),
        iterations=steps,
        solver="adam",
        naive=problem.value(free.naive),
    )


def textbook_elbo(sample: Sample, reward: Array, w: Array) -> tuple[float, Array]:
    """The stratified ELBO of `w` on the sample's own draws, and its gradient (K,)."""
    means, ratios = np.zeros(w.size), np.zeros(w.size)
    blocks = zip(sample.columns, sample.densities, sample.log_scales, sample.sources, strict=True)
    for columns, densities, log_scale, sources in blocks:
        q = np.maximum(densities @ w[columns].astype(densities.dtype), 1e-37)
        means += np.bincount(sources, np.log(q) + log_scale, minlength=w.size)
        share = (w / sample.counts)[sources] / q
        ratios[columns] += share.astype(densities.dtype) @ densities
    means /= sample.counts
    return float(w @ (reward - means)), reward - means - ratios


def _softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max())
    return e / e.sum()
