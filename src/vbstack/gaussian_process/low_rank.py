"""Gaussian processes with squared-exponential kernels, and Gaussian integrals under them.

A process has a prior, f ~ GP(m, k), with full matrices W (D, D) and P (D, D):

    k(x, x') = σ_f² exp(−½ |W (x − x')|²)         m(x) = m0 − ½ (x − c)ᵀ P (x − c)

A run's kernel has W = diag(1/ℓ) in the run's space. Under the affine map to another space it stays
of this form. In *kernel coordinates* v = W x a Gaussian N(μ, F Fᵀ) has covariance S = WF(WF)ᵀ, and
its integrals are (O'Hagan 1991)

    z_j(x)  = E_j[k(x, ·)]        = σ_f² |1 + S_j|^-½ exp(−½ (v − Wμ_j)ᵀ (1 + S_j)⁻¹ (v − Wμ_j))
    κ_jk    = E_j E_k[k(·, ·)]    = σ_f² |1 + S_j + S_k|^-½ exp(−½ Δᵀ (1 + S_j + S_k)⁻¹ Δ)
    E_j[m]  = m0 − ½ [(μ_j − c)ᵀ P (μ_j − c) + tr P F_j F_jᵀ]

**Conditioning.** n evaluations y = f(x) + noise, with variances N = diag(ν_i), are taken through a
pivoted Cholesky factor of the kernel matrix, K ≈ G Gᵀ with G (n, m), that stops when no point's
prior variance is short of k(x_i, x_i) by more than a fraction of its noise variance ν_i. In the
features g(x) = L⁻¹ k(pivots, x), L = chol K(pivots, pivots), f is a linear model:

    B = 1 + Gᵀ N⁻¹ G        a = B⁻¹ Gᵀ N⁻¹ (y − m)
    mean(x) = m(x) + g(x)ᵀ a          cov(x, x') = [k(x, x') − g(x)ᵀ g(x')] + g(x)ᵀ B⁻¹ g(x')

B has no eigenvalue below one, so duplicated and crowded points do no harm. The kernel's part that
the features miss keeps its prior variance: fewer pivots can only make the answer more uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Transform

Array = NDArray[np.float64]
Index = NDArray[np.int64]

EXACT = 1e-12  # fraction of the noise variance at which a factor counts as complete
_ROUNDING = 1e-13  # fraction of σ_f² below which a pivot would be rounding error
_PIVOT_POINTS = 1500  # points among which pivots are sought; they are spread over all of them
_CHUNK_VALUES = 2_000_000  # values of one temporary array: 16 MB


@dataclass(frozen=True)
class Prior:
    """The prior of a process: kernel variance and whitener W, height m0, centre c, precision P."""

    variance: float
    whitener: Array
    height: float
    centre: Array
    precision: Array

    def mean(self, points: Array) -> Array:
        """m (n,) at points (n, D)."""
        return self.expected_mean(points, np.zeros((len(points), *self.whitener.shape)))

    def expected_mean(self, centres: Array, factors: Array) -> Array:
        """E_j[m] (K,) for Gaussians with these centres (K, D) and factors (K, D, D)."""
        away = centres - self.centre
        bend = np.einsum("kd,de,ke->k", away, self.precision, away)
        bend += np.einsum("de,kdf,kef->k", self.precision, factors, factors)
        return self.height - 0.5 * bend

    def kernel(self, points: Array, others: Array) -> Array:
        """k (n, o) between two sets of points."""
        v, u = points @ self.whitener.T, others @ self.whitener.T
        origin = u.mean(axis=0)
        v, u = v - origin, u - origin
        squares = np.square(v).sum(axis=1)[:, None] + np.square(u).sum(axis=1) - 2 * v @ u.T
        return np.asarray(self.variance * np.exp(-0.5 * np.maximum(squares, 0)))

    def kernel_means(self, centres: Array, factors: Array, points: Array) -> Array:
        """z_j (K, n): expectation of k(x, ·) under each Gaussian, at points x (n, D)."""
        covariance = self._covariance(factors) + np.eye(points.shape[1])
        inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        v, middle = points @ self.whitener.T, centres @ self.whitener.T
        squares = np.zeros((len(centres), len(points)))
        for row in range(points.shape[1]):
            whitened = (
                inverse[:, row] @ v.T - np.einsum("kd,kd->k", inverse[:, row], middle)[:, None]
            )
            squares += np.square(whitened, out=whitened)
        log_height = np.log(np.einsum("kdd->kd", inverse)).sum(axis=1)
        return np.asarray(self.variance * np.exp(log_height[:, None] - 0.5 * squares))

    def kernel_pairs(self, centres: Array, factors: Array) -> Array:
        """κ_jk (K, K): expectation of k under each pair of Gaussians."""
        size, d = centres.shape
        covariance, middle = self._covariance(factors), centres @ self.whitener.T
        result = np.empty((size, size))
        for rows in _chunks(size, size * (d * d + d)):
            sums = covariance[rows, None] + covariance[None] + np.eye(d)
            gaps = middle[rows, None] - middle[None]
            result[rows] = self.variance * np.exp(_log_bell(sums, gaps))
        return result

    def moved(self, map_: Transform) -> Prior:
        """The same prior in link space, y = centre + A u, of a run whose space u it is given in."""
        inverse = np.linalg.inv(map_.matrix)
        return Prior(
            variance=self.variance,
            whitener=self.whitener @ inverse,
            height=self.height - map_.log_volume,
            centre=map_.centre + map_.matrix @ self.centre,
            precision=inverse.T @ self.precision @ inverse,
        )

    def _covariance(self, factors: Array) -> Array:
        """S_j (K, D, D): covariances in kernel coordinates."""
        scaled = self.whitener @ factors
        return np.asarray(scaled @ scaled.transpose(0, 2, 1))


@dataclass(frozen=True)
class Process:
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
    log_evidence : float
        Log density of the evaluations under the prior, less ½ Σ_i (missed variance / ν_i): a lower
        bound (Titsias 2009), tight when the factor is complete.
    """

    prior: Prior
    pivots: Array
    factor: Array
    information: Array
    coefficients: Array
    log_evidence: float

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
        features = self._features(self.prior.kernel_means(centres, factors, self.pivots))
        spread = solve_triangular(self.information, features.T, lower=True, check_finite=False)
        covariance = self.prior.kernel_pairs(centres, factors)
        covariance += spread.T @ spread - features @ features.T
        mean = self.prior.expected_mean(centres, factors) + features @ self.coefficients
        return mean, 0.5 * (covariance + covariance.T)

    def expected(self, centres: Array, factors: Array) -> Array:
        """Mean (K,) of E_j[f]."""
        features = self._features(self.prior.kernel_means(centres, factors, self.pivots))
        return np.asarray(self.prior.expected_mean(centres, factors) + features @ self.coefficients)

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
    prior: Prior,
    inputs: Array,
    values: Array,
    noise_variance: Array,
    *,
    tolerance: float = EXACT,
    max_rank: int | None = None,
) -> Process:
    """The process given evaluations `values` (n,) at `inputs` (n, D), with noise variances (n,).

    `tolerance` is the fraction of a noise variance that may be missed; `max_rank` limits pivots.
    """
    pivots, factor = _pivots(prior, inputs, noise_variance, tolerance, max_rank)
    kernel = prior.kernel(inputs, pivots)
    g = solve_triangular(factor, kernel.T, lower=True, check_finite=False).T
    residual = values - prior.mean(inputs)
    weighted = g / noise_variance[:, None]
    information = np.linalg.cholesky(g.T @ weighted + np.eye(len(pivots)))
    score = solve_triangular(information, weighted.T @ residual, lower=True, check_finite=False)
    missed = np.maximum(0, prior.variance - np.square(g).sum(axis=1)) / noise_variance
    log_evidence = -0.5 * (
        residual @ (residual / noise_variance)
        - score @ score
        + np.log(2 * np.pi * noise_variance).sum()
        + 2 * np.log(np.diag(information)).sum()
        + missed.sum()
    )
    coefficients = solve_triangular(information, score, lower=True, trans=1, check_finite=False)
    return Process(prior, pivots, factor, information, coefficients, float(log_evidence))


def log_evidence(prior: Prior, inputs: Array, values: Array, noise_variance: Array) -> float:
    """Log density of the evaluations under the prior, by one dense factorisation: for a few hundred
    of them faster than pivots. Noise below the kernel's rounding counts as that."""
    matrix = prior.kernel(inputs, inputs)
    matrix[np.diag_indices(len(inputs))] += np.maximum(noise_variance, 1e-12 * prior.variance)
    factor, info = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if info:
        return -np.inf
    residual = values - prior.mean(inputs)
    score = solve_triangular(factor, residual, lower=True, check_finite=False)
    log_determinant = 2 * np.log(np.diag(factor)).sum()
    return -0.5 * float(score @ score + log_determinant + len(values) * np.log(2 * np.pi))


def priors_of(surrogate: Surrogate) -> tuple[Prior, ...]:
    """One prior per hyperparameter sample, in the run's space."""
    d = surrogate.inputs.shape[1]
    found = []
    for log_lengths, log_output, mean in zip(
        surrogate.log_lengths, surrogate.log_output, surrogate.mean_parameters, strict=True
    ):
        quadratic = surrogate.mean == "negative_quadratic"
        found.append(
            Prior(
                variance=float(np.exp(2 * log_output)),
                whitener=np.diag(np.exp(-log_lengths)),
                height=0.0 if surrogate.mean == "zero" else float(mean[0]),
                centre=mean[1 : d + 1] if quadratic else np.zeros(d),
                precision=np.diag(np.exp(-2 * mean[d + 1 :])) if quadratic else np.zeros((d, d)),
            )
        )
    return tuple(found)


def integrate_own(surrogate: Surrogate, means: Array, sds: Array) -> tuple[Array, Array]:
    """A run's I_sk (Ns, K) and J_sjk (Ns, K, K) once more, from its surrogate and components."""
    factors = sds[:, :, None] * np.eye(means.shape[1])
    results = []
    for prior, noise in zip(priors_of(surrogate), surrogate.noise_variance, strict=True):
        noise = np.broadcast_to(noise, surrogate.values.shape)
        process = condition(prior, surrogate.inputs, surrogate.values, noise)
        results.append(process.integrate(means, factors))
    return np.array([mean for mean, _ in results]), np.array([c for _, c in results])


def _pivots(
    prior: Prior, inputs: Array, noise_variance: Array, tolerance: float, max_rank: int | None
) -> tuple[Array, Array]:
    """The pivots (m, D) of a greedy Cholesky factorisation, and its factor (m, m)."""
    some = np.unique(np.linspace(0, len(inputs) - 1, _PIVOT_POINTS).astype(np.int64))
    some = some if len(some) < len(inputs) else np.arange(len(inputs))
    v = inputs[some] @ prior.whitener.T
    enough = np.maximum(tolerance * noise_variance[some], _ROUNDING * prior.variance)
    rank = len(some) if max_rank is None else min(max_rank, len(some))
    g, missed = np.empty((len(some), rank)), np.full(len(some), prior.variance)
    chosen: list[int] = []
    while len(chosen) < rank:
        best = int(np.argmax(missed / enough))
        if chosen and missed[best] <= enough[best]:  # one pivot at least, however loud the noise
            break
        column = prior.variance * np.exp(-0.5 * np.square(v - v[best]).sum(axis=1))
        column -= g[:, : len(chosen)] @ g[best, : len(chosen)]
        column /= np.sqrt(missed[best])
        g[:, len(chosen)] = column
        missed = np.maximum(0, missed - column**2)
        missed[best] = 0.0
        chosen.append(best)
    return inputs[some[chosen]], np.tril(g[chosen, : len(chosen)])


def _log_bell(covariance: Array, gap: Array) -> Array:
    """−½ (log |C| + gᵀ C⁻¹ g) for arrays C (..., D, D) and g (..., D), by elimination.

    Plain loops over D: for millions of small matrices ten times faster than LAPACK's.
    """
    d = gap.shape[-1]
    c = [[covariance[..., i, j].copy() for j in range(i + 1)] for i in range(d)]
    g = [gap[..., i].copy() for i in range(d)]
    total = np.zeros(gap.shape[:-1])
    for i in range(d):
        total += np.log(c[i][i]) + g[i] ** 2 / c[i][i]
        for j in range(i + 1, d):
            share = c[j][i] / c[i][i]
            g[j] -= share * g[i]
            for k in range(i + 1, j + 1):
                c[j][k] -= share * c[k][i]
    return -0.5 * total


def _chunks(rows: int, width: int) -> list[slice]:
    """Slices of rows such that rows × width stays below the size of one temporary array."""
    step = max(1, _CHUNK_VALUES // max(1, width))
    return [slice(start, start + step) for start in range(0, rows, step)]
