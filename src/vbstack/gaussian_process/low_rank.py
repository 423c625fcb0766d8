"""`LowRankProcess`: a Gaussian process conditioned on the evaluations of many runs, for pooling.

n evaluations y = f(x) + noise, with variances N = diag(ν_i), are taken through a pivoted Cholesky
factor of the kernel matrix, K ≈ G Gᵀ with G (n, m), that stops when no point's prior variance is
short of k(x_i, x_i) by more than a fraction of its noise variance ν_i. In the features
g(x) = L⁻¹ k(pivots, x), L = chol K(pivots, pivots), f is a linear model:

    B = 1 + Gᵀ N⁻¹ G        a = B⁻¹ Gᵀ N⁻¹ (y − m)
    mean(x) = m(x) + g(x)ᵀ a          cov(x, x') = [k(x, x') − g(x)ᵀ g(x')] + g(x)ᵀ B⁻¹ g(x')

B has no eigenvalue below one, so duplicated and crowded points do no harm. The kernel's part that
the features miss keeps its prior variance: fewer pivots can only make the answer more uncertain.
Integrals under Gaussians are those of `integrals`, with z in place of k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from vbstack.arrays import Array
from vbstack.gaussian_process.integrals import expected_mean, kernel_means, kernel_pairs
from vbstack.gaussian_process.likelihood import factorised, log_likelihood
from vbstack.gaussian_process.prior import Prior
from vbstack.gaussian_process.training_data import TrainingData

EXACT = 1e-12  # fraction of the noise variance at which a factor counts as complete
_ROUNDING = 1e-13  # fraction of σ_f² below which a pivot would be rounding error
_ROUNDING_OF_LEFT = 1e-9  # smallest share of a noise variance that can be told from rounding
_PIVOT_POINTS = 4000  # points among which pivots are sought; they are spread over all of them


@dataclass(frozen=True)
class LowRankProcess:
    """A process conditioned on evaluations.

    Attributes
    ----------
    prior : Prior
    pivots : (m, D)
        The points whose kernel functions span the features.
    factor : (m, m)
        L, the lower Cholesky factor of the kernel matrix of the pivots.
    information : (m, m)
        Lower Cholesky factor of B.
    coefficients : (m,)
        a.
    log_likelihood : float
        Log density of the evaluations under the prior, less ½ Σ_i (missed variance / ν_i): a lower
        bound (Titsias 2009), tight when the factor is complete.
    """

    prior: Prior
    pivots: Array
    factor: Array
    information: Array
    coefficients: Array
    log_likelihood: float

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and variance (n,) of f at points (n, D)."""
        features = self._features(self.prior.kernel(points, self.pivots))
        spread = solve_triangular(self.information, features.T, lower=True, check_finite=False)
        missed = np.maximum(0, self.prior.variance - np.square(features).sum(axis=1))
        mean = self.prior.mean(points) + features @ self.coefficients
        return mean, missed + np.square(spread).sum(axis=0)

    def integrate(self, centres: Array, factors: Array) -> tuple[Array, Array]:
        """E_j[f]: mean (K,) and covariance (K, K) for Gaussians N(c_j, F_j F_jᵀ).

        The covariance takes time and memory by the square of K.
        """
        features = self._features(kernel_means(self.prior, centres, factors, self.pivots))
        spread = solve_triangular(self.information, features.T, lower=True, check_finite=False)
        covariance = kernel_pairs(self.prior, centres, factors)
        covariance += spread.T @ spread - features @ features.T
        mean = expected_mean(self.prior, centres, factors) + features @ self.coefficients
        return mean, 0.5 * (covariance + covariance.T)

    def expected(self, centres: Array, factors: Array) -> Array:
        """Mean (K,) of E_j[f]."""
        features = self._features(kernel_means(self.prior, centres, factors, self.pivots))
        return np.asarray(
            expected_mean(self.prior, centres, factors) + features @ self.coefficients
        )

    def average(self, points: Array, shares: Array) -> tuple[float, float, float]:
        """Of Σ_n s_n f(x_n): its mean, its variance, and how far selection has raised it.

        The last is what shares s ∝ exp(f̂) gain from the evaluations' noise e. f̂ is linear in e,
        with noise covariance E = g(x)ᵀ (B⁻¹ − B⁻²) g(x'), and by Stein's lemma

            E[Σ_n s_n (f̂ − E f̂)(x_n)] = Σ_nm E[∂s_n/∂f̂_m] E_nm = Σ_n s_n E_nn − Σ_nm s_n s_m E_nm
        """
        features = self._features(self.prior.kernel(points, self.pivots))
        spread = solve_triangular(self.information, features.T, lower=True, check_finite=False)
        again = solve_triangular(self.information, spread, lower=True, trans=1, check_finite=False)
        noise = np.square(spread).sum(axis=0) - np.square(again).sum(axis=0)
        common = float(np.square(spread @ shares).sum())
        selection = float(shares @ noise) - (common - float(np.square(again @ shares).sum()))
        mean = shares @ (self.prior.mean(points) + features @ self.coefficients)
        return float(mean), common, selection

    def _features(self, kernel: Array) -> Array:
        """L⁻¹ k(pivots, ·), as rows (n, m)."""
        return np.asarray(solve_triangular(self.factor, kernel.T, lower=True, check_finite=False).T)


def condition(
    prior: Prior, data: TrainingData, *, tolerance: float = EXACT, max_rank: int | None = None
) -> LowRankProcess:
    """The process given these evaluations.

    `tolerance` is the fraction of a noise variance that may be missed; `max_rank` limits pivots.
    The log likelihood is Woodbury's form of `likelihood.log_likelihood`, less what is missed.
    """
    noise = data.noise_variance
    pivots, factor = _pivots(prior, data, tolerance, max_rank)
    kernel = prior.kernel(data.inputs, pivots)
    g = solve_triangular(factor, kernel.T, lower=True, check_finite=False).T
    residual = data.values - prior.mean(data.inputs)
    weighted = g / noise[:, None]
    information = np.linalg.cholesky(g.T @ weighted + np.eye(len(pivots)))
    score = solve_triangular(information, weighted.T @ residual, lower=True, check_finite=False)
    missed = np.maximum(0, prior.variance - np.square(g).sum(axis=1)) / noise
    bound = -0.5 * (
        residual @ (residual / noise)
        - score @ score
        + np.log(2 * np.pi * noise).sum()
        + 2 * np.log(np.diag(information)).sum()
        + missed.sum()
    )
    coefficients = solve_triangular(information, score, lower=True, trans=1, check_finite=False)
    return LowRankProcess(prior, pivots, factor, information, coefficients, float(bound))


def leave_one_out(process: LowRankProcess, data: TrainingData) -> Array:
    """Standardised errors (n,) of values, each predicted without itself.

    `data` are some of the evaluations that the process was conditioned on. With h_i =
    g_iᵀ B⁻¹ g_i and k_i = 1 − h_i / ν_i the error of the prediction is (y_i − f̂_i) / k_i, its
    variance ν_i / k_i.
    """
    mean, _ = process.predict(data.inputs)
    features = process._features(process.prior.kernel(data.inputs, process.pivots))
    known = solve_triangular(process.information, features.T, lower=True, check_finite=False)
    left = np.maximum(1 - np.square(known).sum(axis=0) / data.noise_variance, _ROUNDING_OF_LEFT)
    return np.asarray((data.values - mean) / np.sqrt(left * data.noise_variance))


def dense_log_likelihood(prior: Prior, data: TrainingData) -> float:
    """Log density of the evaluations under the prior, by one dense factorisation: for a few hundred
    of them faster than pivots. Noise below the kernel's rounding counts as that."""
    noise = np.maximum(data.noise_variance, 1e-12 * prior.variance)
    factor = factorised(prior.kernel(data.inputs, data.inputs).T, noise)
    if factor is None:
        return -np.inf
    residual = data.values - prior.mean(data.inputs)
    return log_likelihood(factor, residual, lapack.dpotrs(factor, residual, lower=1)[0])


def _pivots(
    prior: Prior, data: TrainingData, tolerance: float, max_rank: int | None
) -> tuple[Array, Array]:
    """The pivots (m, D) of a greedy Cholesky factorisation, and its factor (m, m).

    Each pivot is the point whose missed variance is largest in units of what it may miss, t_i: the
    largest on the diagonal of what is left of K_ij / √(t_i t_j), whose blocked factorisation is
    LAPACK's.
    """
    inputs, noise_variance = data.inputs, data.noise_variance
    some = np.unique(np.linspace(0, len(inputs) - 1, _PIVOT_POINTS).astype(np.int64))
    some = some if len(some) < len(inputs) else np.arange(len(inputs))
    scale = np.sqrt(np.maximum(tolerance * noise_variance[some], _ROUNDING * prior.variance))
    kernel = prior.kernel(inputs[some], inputs[some])
    kernel /= scale[:, None] * scale
    factor, order, rank, _ = lapack.dpstrf(kernel, tol=1.0, lower=1)
    rank = max(1, min(rank, len(some) if max_rank is None else max_rank))  # however loud the noise
    chosen = order[:rank] - 1
    return inputs[some[chosen]], np.tril(factor[:rank, :rank]) * scale[chosen, None]
