"""The stacking weights and their certificate: `optimise` → `WeightSolution`.

The optimum of a sample problem (see `sample_problem`) flatters itself: it fits its draws. Two facts
bracket the true optimum L* all the same (Mak, Morton & Wood 1999):

    E[max_v L̂_A(v)] ≥ L*              draws A that the weights were fitted to
    E[L̂_C(w)] = L(w) ≤ L*             fresh draws C

so max_v L̂_A − L̂_C(w) bounds the shortfall of w, over-fitting included. Both sides carry the noise
of their draws; most of it is common to all weights, so it is removed with weights v₀ from a pilot
sample, independent of A and C, for which both sides estimate the same L(v₀):

    gap = [ L̂_A(w) + gap_A(w) − L̂_A(v₀) ] − [ L̂_C(w) − L̂_C(v₀) ] + 2 s.e.

With `caution` (see there) L is the ELBO less a charge, which is known without draws: gap and status
are then about that.

The number of draws grows until the gap is below the tolerance. Over-fitting falls like 1/N, so the
next N is predicted from the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vbstack.arrays import Array, Index
from vbstack.checks import checked_word
from vbstack.modes import SolverName, WeightsKind
from vbstack.stacking.caution import Caution
from vbstack.stacking.elbo import FreshElbos, fresh_elbos, perplexity
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.sample_problem import Sample, SampleProblem
from vbstack.stacking.solver import SampleOptimum, maximise

CERTIFIED = "certified"
DRAWS_EXHAUSTED = "not certified to the tolerance: max_draws reached, the gap is what it is"
MEMORY_EXHAUSTED = "not certified to the tolerance: more draws would not fit in memory"
_ALWAYS_ALLOWED = 65_536  # draws in all: a small stack is not held to its few components
_MAX_VALUES = 120_000_000  # densities kept in memory: 480 MB
_NEGLIGIBLE_MASS = 3e-4  # total weight of the components set to zero: it moves the ELBO by 1e-4


@dataclass(frozen=True)
class FreeWeights:
    """Which weights are free: w = basis · v, v on a simplex, from a starting point.

    "all": one v per component; "runs": one per run, which keeps the run's own proportions;
    "naive": a single v, so nothing is left to choose. `shares` (K,), with mean one, say which
    components have more draws than others. `near` says that the start is near the best weights, so
    that it can share in the reference v₀: a pilot sample alone learns its draws.
    """

    kind: WeightsKind
    basis: sparse.csr_array
    start: Array
    naive: Array
    shares: Array
    near: bool = False

    @classmethod
    def of(cls, kind: WeightsKind, mixture: Mixture, elbos: Sequence[float]) -> FreeWeights:
        """One per component, one per run, or none.

        They start at w_mk exp(ELBO_m) (paper, eq. 17), naive weights mixed in. A little uniform
        weight keeps every component alive: one that starts at zero stays there.
        """
        checked_word("weights", kind, WeightsKind)
        scaled = np.exp(np.asarray(elbos) - np.max(elbos))[mixture.owner] * mixture.own_weights
        start = 0.7 * scaled / scaled.sum() + 0.28 * mixture.naive_weights + 0.02 / mixture.size
        rows = np.arange(mixture.size)
        group = {"all": rows, "runs": mixture.owner, "naive": np.zeros_like(rows)}[kind]
        value = {"all": np.ones(mixture.size), "runs": mixture.own_weights}.get(
            kind, mixture.naive_weights
        )
        shape = (mixture.size, int(group.max()) + 1)
        basis = sparse.csr_array((value, (rows, group)), shape=shape)
        naive = np.bincount(group, mixture.naive_weights).astype(float)
        first = np.bincount(group, start).astype(float)
        return cls(kind, basis, first, naive, np.ones(mixture.size))

    @classmethod
    def beside(cls, mixture: Mixture, weights: Array) -> FreeWeights:
        """One per refined component, and one for the stack of the runs' components alone, which had
        the weights (K,); it starts with a fifth of the weight.

        The runs' components stay tied: where refined ones have the mass every one of them is nearly
        redundant, and free weights learn the draws. For 670 components in six dimensions 270,000
        draws left a gap of 0.1 nats.
        """
        added = mixture.size - weights.size
        group = np.r_[np.zeros(weights.size, dtype=np.int64), np.arange(1, added + 1)]
        value = np.r_[weights, np.ones(added)]
        basis = sparse.csr_array((value, (np.arange(mixture.size), group)))
        start = np.r_[0.2, 0.8 * mixture.own_weights[weights.size :]]
        naive = np.r_[1.0, np.zeros(added)]
        shares = 0.5 * np.r_[weights, np.full(added, 1 / added)] * mixture.size
        return cls("all", basis, start, naive, shares, near=True)

    @property
    def tied(self) -> bool:
        """Whether there are fewer free weights than components."""
        return bool(self.basis.shape[1] < self.basis.shape[0])

    def problem(
        self, sample: Sample, reward: Array, caution: Caution | None = None
    ) -> SampleProblem:
        """The problem of these draws, with the charge of `caution` for component weights."""
        basis = self.basis if self.tied else None
        if caution is not None and basis is not None:
            caution = caution.tied(basis)
        return SampleProblem.from_sample(sample, reward, basis).cautious(caution)

    def weights(self, v: Array) -> Array:
        """Component weights (K,) of v."""
        w = self.basis @ v
        return np.asarray(w / w.sum())


def first_draws(components: int, effective: float = 100.0) -> int:
    """Draws per component with which the first round is mostly the last, at a tolerance of 0.02.

    Over-fitting grows with the components that end up with weight. `effective` counts them by the
    perplexity of rough weights: 100 in ten runs of the GMM, 240 of the ring; the powers are a fit
    to what two, six and ten dimensions and up to forty runs needed.
    """
    return max(8, int(54 * (500 / components) ** 0.6 * (effective / 100) ** 0.2))


def without_negligible(v: Array, mass: float) -> Array:
    """v with its smallest entries, of at most this total, set to exactly zero."""
    order = np.argsort(v)
    kept = v.copy()
    kept[order[np.cumsum(v[order]) <= mass * v.sum()]] = 0.0
    return np.asarray(kept / kept.sum())


@dataclass(frozen=True)
class WeightSolution:
    """The weights with the bracket [lower, upper] that holds the best stacked ELBO.

    Attributes
    ----------
    weights : (K,)
        Component weights.
    lower, upper : float
        ELBO of these weights on fresh draws, and that plus the gap.
    gap : float
        upper − lower: no weights of the same kind have an ELBO, less its own charge, that is higher
        by more than this.
    standard_error : float
        Monte Carlo standard error of `lower` (and so of the bracket's place).
    status : str
        "certified" when the gap is within the tolerance, otherwise what stopped the search.
    draws : int
        Draws in the final sample problem.
    iterations : int
        Gradients of sample problems computed in all.
    solver : str
        "certified" or "adam".
    naive : float
        ELBO of naive stacking, every run 1/M, on the draws of the sample problem.
    charge : float
        What the weights were charged for the errors of own log-joints (see `caution`): they are
        those with the highest ELBO less charge. `lower`, `upper` and `naive` are without it.
    """

    weights: Array
    lower: float
    upper: float
    gap: float
    standard_error: float
    status: str
    draws: int
    iterations: int
    solver: SolverName
    naive: float
    charge: float = 0.0


def optimise(
    mixture: Mixture,
    log_joint: Array,
    free: FreeWeights,
    *,
    tolerance: float,
    max_draws: int,
    final_draws: int,
    rng: np.random.Generator,
    caution: Caution | None = None,
) -> WeightSolution:
    """Weights within `tolerance` nats of the best, or the best that `max_draws` allow.

    `log_joint` (K,) are the components' expected log-joints in link space. With `caution` the best
    weights are those with the highest ELBO less charge.
    """
    reward = mixture.rewards(log_joint)
    few = max(2, min(first_draws(mixture.size), max_draws) // 3)
    pilot = Sample.draw(mixture, _counts(few * free.shares), rng)
    rough = maximise(free.problem(pilot, reward, caution), free.start, tolerance, 19)
    v0 = without_negligible(rough.weights, 1e-2)
    if free.near:
        v0 = 0.5 * (rough.weights + free.start)
    iterations = rough.gradients
    # A quarter of the draws where the pilot puts its weight, the rest evenly: heavy components need
    # more draws, and any component may yet earn weight.
    share = 0.25 * mixture.size * (free.basis @ v0) + 0.75 * free.shares
    first = min(first_draws(mixture.size, perplexity(free.weights(v0))), max_draws)
    sample = Sample.draw(mixture, _counts(first * share), rng)
    v = rough.weights
    while True:
        problem = free.problem(sample, reward, caution)
        optimum = maximise(problem, 0.7 * v + 0.3 * free.start, 0.4 * tolerance)
        iterations += optimum.gradients
        v = optimum.weights
        weights = free.weights(without_negligible(v, _NEGLIGIBLE_MASS))
        both = weights, free.weights(v0)
        fresh = fresh_elbos(mixture, log_joint, both, final_draws, rng)
        charge, charge0 = (0.0 if caution is None else caution.charge(w) for w in both)
        gap, flattery = bracket(problem, optimum, v0, fresh, charge - charge0)
        growth = _growth(gap, flattery, tolerance, max_draws, sample)
        if growth <= 0:
            break
        more = np.ceil(growth * sample.counts).astype(np.int64)
        sample = sample.extended(Sample.draw(mixture, more, rng))
    return WeightSolution(
        weights=weights,
        lower=float(fresh.values[0]),
        upper=float(fresh.values[0]) + gap,
        gap=gap,
        standard_error=fresh.standard_error(0),
        status=_status(gap, tolerance, max_draws, sample),
        draws=sample.size,
        iterations=iterations,
        solver="certified",
        naive=problem.cautious(None).value(free.naive),
        charge=charge,
    )


def _counts(wanted: Array) -> Index:
    """Numbers of draws: two at least."""
    return np.maximum(2, np.round(wanted)).astype(np.int64)


def bracket(
    problem: SampleProblem,
    optimum: SampleOptimum,
    v0: Array,
    fresh: FreshElbos,
    charged: float = 0.0,
) -> tuple[float, float]:
    """The gap of the first of `fresh`, and the part of it that more draws would shrink.

    The second of `fresh` are the reference weights v₀, independent of the problem's draws;
    `charged` is what a cautious problem charges the first more than the second.
    """
    noise = problem.influence(optimum.weights) - problem.influence(v0)
    in_sample = optimum.value - problem.value(v0)
    on_fresh = float(fresh.values[0] - fresh.values[1]) - charged
    error = np.hypot(np.linalg.norm(noise), fresh.standard_error(0, 1))
    flattery = max(0.0, in_sample - on_fresh) + 2 * float(error)
    return optimum.gap + flattery, flattery


def _growth(gap: float, flattery: float, tolerance: float, max_draws: int, sample: Sample) -> float:
    """By what share of itself the sample should grow; 0 when this round is the last."""
    if gap <= tolerance:
        return 0.0
    most = min(_room_in_draws(max_draws, sample), _MAX_VALUES / sample.stored_values)
    wanted = float(np.clip(flattery / (0.55 * tolerance), 1.3, 4.0))
    return min(wanted, most) - 1.0 if most >= 1.1 else 0.0


def _room_in_draws(max_draws: int, sample: Sample) -> float:
    """How many times larger the sample may become before it reaches the limit."""
    return max(max_draws * sample.counts.size, _ALWAYS_ALLOWED) / sample.size


def _status(gap: float, tolerance: float, max_draws: int, sample: Sample) -> str:
    if gap <= tolerance:
        return CERTIFIED
    return DRAWS_EXHAUSTED if _room_in_draws(max_draws, sample) < 1.1 else MEMORY_EXHAUSTED
