"""The variational posterior of a run: a mixture of diagonal Gaussians fitted to the surrogate.

    maximise  Σ_k w_k (I_k − β √J_kk) + H[q],    q = Σ_k w_k N(μ_k, diag σ_k²)

I and J are exact (`quadrature`); the entropy is a fixed-sample average over shifted Sobol points,

    H ≈ −Σ_k w_k mean_s log q(μ_k + σ_k ε_ks),

so the whole is smooth and L-BFGS applies. A long fit would learn its points: q sinks at them and
rises between. So a fit is a row of short ones, each on new points, and the result the average of
the later half. β > 0, in the final fit and in warm-up in many dimensions, keeps components away
from where the surrogate is uncertain (lower confidence bound).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.native.diagonal_mixture import DiagonalMixture, log_components
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.quadrature import covariance, expected_log_joints, variances
from vbstack.numerics.lbfgs import Memory, climb
from vbstack.numerics.quasi_random import centred_normals

_LARGEST_STEP = 8.0  # of a log weight
_SHORT = 3  # iterations of a fit with the same points
_MEMORY = 8  # curvature pairs
_REACH = 2.0  # of one step: scales, or powers of e
_LARGE = 0.01  # nats: a step that gains more is far from learning the points


@dataclass(frozen=True)
class Fitted:
    """A mixture, its ELBO, and the standard deviation that the surrogate gives it."""

    mixture: DiagonalMixture
    elbo: float
    elbo_sd: float


def entropy(
    weights: Array, means: Array, sds: Array, points: Array
) -> tuple[float, Array, Array, Array]:
    """H and its gradients with respect to weights (as if unconstrained), μ and σ.

    The exponentials are most of the work, and in single precision a third of the time; their
    errors of 1e-7 are the same in the value and in all gradients.
    """
    size, draws, d = points.shape
    x = (means[:, None] + sds[:, None] * points).reshape(-1, d)
    logs = log_components(x, means, sds)
    top = logs.max(axis=0)
    logs -= top
    density = np.exp(logs, dtype=np.float32, casting="same_kind").astype(float)
    total = weights @ density
    log_q = (top + np.log(total)).reshape(size, draws)
    mean_log = log_q.mean(axis=1)
    density *= np.repeat(weights / draws, draws) / total  # c_n / q(x_n), up to the scale exp(top)
    d_weights = -mean_log - density.sum(axis=1)
    ratio = np.multiply(density, weights[:, None], out=density)  # c_n r_jn
    precision = 1 / sds**2
    mass = ratio.sum(axis=1)[:, None]
    first = ratio @ x
    second = ratio @ np.square(x) - 2 * means * first + means**2 * mass
    d_means = -(first - means * mass) * precision
    d_sds = -(second * precision - mass) / sds
    # The draws move with their own component: ∇_x log q = Σ_j r_jn (μ_j − x)/σ_j².
    score = ratio.T @ (means * precision) - x * (ratio.T @ precision)
    score = score.reshape(size, draws, d)
    d_means -= score.sum(axis=1)
    d_sds -= (score * points).sum(axis=1)
    return float(-weights @ mean_log), d_weights, d_means, d_sds


def objective(
    process: DenseProcess, mixture: DiagonalMixture, points: Array, penalty: float
) -> tuple[float, Array, Array, Array]:
    """The (penalised) ELBO and its gradients with respect to weights, μ and σ."""
    weights, means, sds = mixture.weights, mixture.means, mixture.sds
    gain, d_means, d_sds = expected_log_joints(process, means, sds)
    if penalty:
        spread, dj_means, dj_sds = variances(process, means, sds)
        root = np.sqrt(spread)
        gain = gain - penalty * root
        d_means = d_means - (0.5 * penalty / root)[:, None] * dj_means
        d_sds = d_sds - (0.5 * penalty / root)[:, None] * dj_sds
    h, dh_weights, dh_means, dh_sds = entropy(weights, means, sds, points)
    return (
        float(weights @ gain) + h,
        gain + dh_weights,
        weights[:, None] * d_means + dh_means,
        weights[:, None] * d_sds + dh_sds,
    )


def fit(
    process: DenseProcess,
    start: DiagonalMixture,
    rng: np.random.Generator,
    *,
    rounds: int,
    penalty: float = 0.0,
    finer: int = 1,
) -> DiagonalMixture:
    """The best mixture near `start`: the average of the later half of short fits.

    All work on steps from the start, in log weights, in means by the start's scales, and in log
    scales, and share what they learn about the curvature. `finer`, a power of two, multiplies the
    points for the entropy.
    """
    lower, upper = _step_bounds(process, start)
    memory: Memory = deque(maxlen=_MEMORY)
    steps, later = np.zeros(lower.size), np.zeros(lower.size)
    for number in range(rounds):
        draws = finer * draws_for(start.size)
        points = centred_normals(start.size, draws, start.dimension, rng)

        def elbo(v: Array, points: Array = points) -> tuple[float, Array]:
            mixture = _stepped(start, v)
            value, d_weights, d_means, d_sds = objective(process, mixture, points, penalty)
            d_logits = mixture.weights * (d_weights - mixture.weights @ d_weights)
            gradient = np.column_stack([d_logits, d_means * start.sds, d_sds * mixture.sds])
            return value, gradient.ravel()

        steps, _ = climb(
            elbo,
            steps,
            lower,
            upper,
            memory,
            steps=_SHORT,
            tolerance=1e-6,
            reach=_REACH,
            large=_LARGE,
        )
        later += steps if number >= rounds // 2 else 0.0
    return _stepped(start, later / (rounds - rounds // 2))


def _stepped(start: DiagonalMixture, v: Array) -> DiagonalMixture:
    """The mixture that is these steps away from the start."""
    d = start.dimension
    steps = v.reshape(start.size, 2 * d + 1)
    logits = np.log(np.maximum(start.weights, 1e-6)) + steps[:, 0]
    weights = np.exp(logits - logits.max())
    return DiagonalMixture(
        weights / weights.sum(),
        start.means + start.sds * steps[:, 1 : d + 1],
        start.sds * np.exp(steps[:, d + 1 :]),
    )


def draws_for(size: int) -> int:
    """Points per component: fewer components need more each."""
    return int(2 ** np.clip(np.ceil(np.log2(512 / size)), 5, 8))


def _step_bounds(process: DenseProcess, start: DiagonalMixture) -> tuple[Array, Array]:
    """Limits to the steps: centres stay among the evaluations, scales below half their range.

    Beyond them the surrogate is its prior mean, and a component there would be made up.
    """
    low, high = process.data.inputs.min(axis=0), process.data.inputs.max(axis=0)
    reach = np.full((start.size, 1), _LARGEST_STEP)
    lower = np.hstack([-reach, (low - start.means) / start.sds, np.log(1e-5 / start.sds)])
    upper = np.hstack(
        [reach, (high - start.means) / start.sds, np.log(0.5 * (high - low) / start.sds)]
    )
    return np.minimum(lower, 0).ravel(), np.maximum(upper, 0).ravel()


def evaluated(
    process: DenseProcess, mixture: DiagonalMixture, rng: np.random.Generator, draws: int = 64
) -> Fitted:
    """The mixture's ELBO on fresh draws, and its standard deviation √(wᵀJw)."""
    points = centred_normals(mixture.size, draws, mixture.dimension, rng)
    value = objective(process, mixture, points, 0.0)[0]
    j = covariance(process, mixture.means, mixture.sds)
    variance = float(mixture.weights @ j @ mixture.weights)
    return Fitted(mixture, value, float(np.sqrt(max(0.0, variance))))
