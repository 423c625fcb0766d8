"""Parameters with one hard bound, and plausible bounds from a prior: `python -m benchmarks bounds`.

First table: densities above zero, and one below an upper bound: products of gamma laws, of
exponentials (largest at the bound), correlated lognormals; D = 1 to 5, with plausible bounds at
their quantiles of 10 and 90 %, the hardest also at 5 and 95 %. Ten runs of the native engine; four
of pyvbmc, up to two parameters. The truth is zero: they are normalised. A log evidence is also
verified, with 100 evaluations at draws of the stack.

Second table: plausible bounds that are central quantiles of the prior, 68 or 90 % of it. Priors of
three parameters (normal, gamma, beta) and a Gaussian likelihood: of each parameter at this quantile
of its prior, as wide as this share of the prior's standard deviation. Four native runs.

A row that is stored in `results/bounds.json` is not made again unless `--again` is given;
`results/bounds.md` has the tables of all rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats
from scipy.integrate import quad
from threadpoolctl import threadpool_limits

from benchmarks.arrays import Array
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import Problem, StackedPosterior, fit
from vbstack.modes import EngineName
from vbstack.verifying import verify

SEED = 7  # never used while the method was made
RUNS: dict[EngineName, int] = {"native": 10, "pyvbmc": 4}
DRAWS = 100_000
SCALES = np.array([1.0, 0.1, 10.0, 3.0, 0.5])
SHAPES = np.array([2.0, 3.0, 5.0, 1.5, 8.0])
SIGMAS = np.array([0.5, 1.0, 0.3, 0.8, 0.6])
PRIORS = (stats.norm(0, 3), stats.gamma(2, scale=5), stats.beta(2, 5))


@dataclass(frozen=True)
class Target:
    """A normalised density with one bound per parameter, and its marginals."""

    name: str
    laws: tuple[Any, ...]
    log_density: Callable[[Array], float]
    edge: float = 0.1  # plausible bounds are the quantiles at this probability and at the rest

    def problem(self) -> Problem:
        support = np.array([law.support() for law in self.laws])
        return Problem(
            self.log_density,
            lower_bounds=support[:, 0],
            upper_bounds=support[:, 1],
            plausible_lower_bounds=[law.ppf(self.edge) for law in self.laws],
            plausible_upper_bounds=[law.ppf(1 - self.edge) for law in self.laws],
        )


def product(name: str, laws: tuple[Any, ...]) -> Target:
    """Independent parameters."""

    def log_density(x: Array) -> float:
        return float(sum(law.logpdf(value) for law, value in zip(laws, x, strict=True)))

    return Target(f"{name}, D = {len(laws)}", laws, log_density)


def lognormal(dimension: int) -> Target:
    """Logarithms with correlations of one half."""
    sigmas, scales = SIGMAS[:dimension], SCALES[:dimension]
    correlations = 0.5 + 0.5 * np.eye(dimension)
    law = stats.multivariate_normal(np.log(scales), sigmas[:, None] * correlations * sigmas)
    marginals = tuple(stats.lognorm(s, scale=c) for s, c in zip(sigmas, scales, strict=True))

    def log_density(x: Array) -> float:
        return float(law.logpdf(np.log(x)) - np.log(x).sum())

    return Target(f"lognormal, D = {dimension}", marginals, log_density)


def targets() -> list[Target]:
    gammas = [stats.gamma(a, scale=s) for a, s in zip(SHAPES, SCALES, strict=True)]
    exponentials = [stats.expon(scale=s) for s in SCALES]
    found = []
    for d in range(1, 6):
        found += [
            product("gamma", tuple(gammas[:d])),
            lognormal(d),
            product("exponential", tuple(exponentials[:d])),
        ]
    below = product("below an upper bound", (stats.weibull_max(2.0, scale=3.0), stats.norm(0, 1)))
    wider = [
        replace(one, name=f"{one.name}, bounds at 5 and 95 %", edge=0.05)
        for one in found
        if one.name in ("exponential, D = 4", "gamma, D = 5", "exponential, D = 5")
    ]
    return [*found, below, *wider]


def half_row(target: Target, engine: EngineName) -> str:
    """The row of the first table for this target and engine."""
    problem = target.problem()
    posterior = fit(problem, RUNS[engine], seed=SEED, engine=engine, progress=False)
    x = posterior.sample(DRAWS, seed=1)
    outside = int((~((x > problem.lower_bounds) & (x < problem.upper_bounds))).any(axis=1).sum())
    means = np.array([law.mean() for law in target.laws])
    sds = np.array([law.std() for law in target.laws])
    away = np.abs((posterior.moments()[0] - means) / sds).max()
    e = posterior.evidence
    checked = verify(posterior, problem, 100, progress=False).evidence
    return (
        f"| {target.name} | {engine} | {len(posterior.runs)} of {RUNS[engine]} "
        f"| {evaluations(posterior):.0f} | {e.elbo:+.3f} | {e.log_evidence:+.3f} ± {e.sd:.3f} "
        f"| {checked.log_evidence:+.3f} ± {checked.log_evidence_sd:.3f} | {away:.3f} | {outside} |"
    )


def evaluations(posterior: StackedPosterior) -> float:
    """The median of the runs' numbers of evaluations."""
    made = [run.evaluations for run in posterior.runs if run.evaluations is not None]
    return float(np.median([one.paid for one in made]))


def quantile_row(central: float, share: float, place: float) -> str:
    """The row of the second table: plausible bounds that hold this central part of the prior."""
    centres = np.array([law.ppf(place) for law in PRIORS])
    widths = np.array([share * law.std() for law in PRIORS])

    def log_likelihood(x: Array) -> float:
        return float(-0.5 * np.square((x - centres) / widths).sum())

    ends = 0.5 - central / 2, 0.5 + central / 2
    box = [[law.ppf(end) for law in PRIORS] for end in ends]
    problem = Problem(
        log_likelihood,
        prior=list(PRIORS),
        plausible_lower_bounds=box[0],
        plausible_upper_bounds=box[1],
    )
    posterior = fit(problem, 4, seed=SEED, engine="native", progress=False)
    e = posterior.evidence
    truth = sum(log_integral(*one) for one in zip(PRIORS, centres, widths, strict=True))
    return (
        f"| {share:g} | {place:.0%} | {central:.0%} | {len(posterior.runs)} of 4 "
        f"| {evaluations(posterior):.0f} | {e.log_evidence - truth:+.3f} ± {e.sd:.3f} |"
    )


def log_integral(law: Any, centre: float, width: float) -> float:
    """log ∫ prior × likelihood of one parameter."""
    low, high = law.support()
    edges = np.unique(np.clip(centre + width * np.arange(-12, 13), low, high))
    edges = np.unique([*edges, *law.ppf([1e-12, 0.01, 0.1, 0.5, 0.9, 0.99, 1 - 1e-12])])

    def integrand(x: float) -> float:
        return float(np.exp(law.logpdf(x) - 0.5 * ((x - centre) / width) ** 2))

    parts = [quad(integrand, a, b)[0] for a, b in pairwise(edges)]
    return float(np.log(sum(parts)))


def wanted(engines: list[EngineName]) -> Iterator[tuple[str, Callable[[], str]]]:
    """The name of every row, and what makes it."""
    for target in targets():
        for engine in engines:
            if engine == "native" or len(target.laws) <= 2:
                yield f"half: {target.name}, {engine}", partial(half_row, target, engine)
    for share in (100.0, 1.0, 0.3, 0.05):
        for place in (0.5, 0.9) if share < 100 else (0.5,):
            for central in (0.68, 0.9):
                settings = central, share, place
                yield f"quantiles: {settings}", partial(quantile_row, *settings)


def main(argv: list[str]) -> None:
    parser = options_of("bounds", __doc__)
    parser.add_argument("--engine", nargs="+", default=["native", "pyvbmc"])
    parser.add_argument("--again", action="store_true", help="also make stored rows again")
    arguments = parser.parse_args(argv)
    path = RESULTS / "bounds.json"
    rows: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    with threadpool_limits(1):
        for key, made in wanted(arguments.engine):
            if arguments.again or key not in rows:
                rows[key] = made()
                print(rows[key], flush=True)
                path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
                (RESULTS / "bounds.md").write_text(tables(rows))


def tables(rows: dict[str, str]) -> str:
    """Both tables, with their rows in order."""
    order = [key for key, _ in wanted(["native", "pyvbmc"]) if key in rows]
    half = [rows[key] for key in order if key.startswith("half")]
    quantiles = [rows[key] for key in order if key.startswith("quantiles")]
    lines = [
        "# Bounds",
        "",
        f"`python -m benchmarks bounds` on {machine()}, seed {SEED}.",
        "",
        "## Parameters with one hard bound",
        "",
        f"Errors in nats. The last columns are the largest error of a mean in true standard "
        f"deviations, and how many of {DRAWS:,} draws are outside the bounds.",
        "",
        "| target | engine | runs stacked | evaluations a run | ELBO | log evidence | verified "
        "| mean | outside |",
        "|---|---|---|---|---|---|---|---|---|",
        *half,
        "",
        "## Plausible bounds from the prior",
        "",
        "| likelihood's width / prior's | at the quantile | plausible bounds hold | runs stacked "
        "| evaluations a run | log evidence − truth |",
        "|---|---|---|---|---|---|",
        *quantiles,
        "",
    ]
    return "\n".join(lines)
