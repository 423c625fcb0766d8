"""From the pooled ELBO of a stack to the log evidence: two corrections.

**Pooled evaluations** (see `pooling`) give a process f for the log density itself, with mean f̂ and
variance v. On draws x_n of the stack q, with r_n ∝ exp(f̂(x_n)) / q(x_n) that sum to one, it yields
two corrections. What the weights still gained from noise, by Stein's lemma (`LowRankProcess`):

    ELBO of the stack ≈ Σ_j w_j Ī_j + H[q] − selection,   selection = ¼ of Stein's ± ½ of it

A posterior mean under the right prior needs no such correction, one under a vacuous prior all of
it, and adaptive evaluations push the other way. A quarter leaves equal and opposite biases on the
two problems measured (`docs/pooling.md`).

And the distance from the ELBO to the log evidence. E log ∫ exp f exceeds log ∫ exp f̂ by half the
variance of f within the posterior, to second order:

    log Z − ELBO = KL(q ‖ p) ≈ log mean_n exp(f̂ − log q) − mean_n (f̂ − log q)
                               + ½ [ Σ_n r_n v(x_n) − Var(Σ_n r_n f(x_n)) ]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled
from vbstack.stacking.support import Support

CORRECTION_DRAWS = 4096
SELECTION_SHARE = 0.25
UNSURE = 0.1  # of a label between −½ and ½: how far from the boundary of the support it is doubtful


@dataclass(frozen=True)
class Corrections:
    """From a pooled ELBO to the log evidence: selection, KL(q ‖ p), the error of the first and of
    both together; and what cutting the mixture off at the support changes in its ELBO."""

    selection: float
    divergence: float
    selection_sd: float
    sd: float
    cut: float = 0.0


def corrections(
    mixture: Mixture,
    weights: Array,
    pooled: Pooled,
    rng: np.random.Generator,
    support: Support | None = None,
) -> Corrections:
    """Both corrections on common draws; p is known through the process only.

    Importance ratios are cut at √n times their median (Ionides 2008 has the mean, which a single
    draw beyond the evaluations, where the process makes its values up, can raise at will). The
    second-order term is an expectation over what is not known: half of it counts as error, as does
    half of Stein's. With a support A the posterior is q_A = q / q(A) within it, and

        ELBO(q_A) − E_q[f̂ − log q] = E_{q_A}[f̂ − log q] − E_q[f̂ − log q] + log q(A)
        log Z = log E_q[1_A exp(f̂ − log q)]
    """
    link = mixture.links[0]
    x = mixture.sample(weights, CORRECTION_DRAWS * (1 if support is None else 4), rng)
    y = link.forward(x)
    mean, variance = pooled.predict(y)
    log_ratio = mean - mixture.log_density(x, weights) - link.log_jacobian(y)
    relative = log_ratio - np.median(log_ratio)
    ratio = np.exp(np.minimum(relative, 0.5 * np.log(relative.size)))
    cut = edge = 0.0
    if support is not None:
        score = support.score(x)
        inside, unsure = score < 0.0, np.abs(score) < UNSURE
        # Half of what lies where the label is nearly undecided may be wrong.
        edge = 0.5 * float((ratio * unsure).sum() / (ratio * inside).sum())
        ratio = np.where(inside, ratio, 0.0)
        cut = float(relative[inside].mean() - relative.mean() + np.log(inside.mean()))
    known = float(np.log(ratio.mean()) - relative.mean()) - cut
    share = ratio / ratio.sum()
    common, gained = pooled.average(y, share)
    unknown = 0.5 * max(0.0, float(share @ variance) - common)
    monte_carlo = np.std(ratio / ratio.mean() - relative) / np.sqrt(relative.size)
    selection_sd = 0.5 * abs(gained)
    sd = np.sqrt(selection_sd**2 + (0.5 * unknown) ** 2 + monte_carlo**2 + edge**2)
    gained *= SELECTION_SHARE
    return Corrections(gained, known + unknown, selection_sd, float(sd), cut)
