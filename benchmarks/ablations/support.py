"""Log densities that are −inf, or fail, in a part of space: `python -m benchmarks support`.

Ten runs of each engine, with the same uniform starts, on Gaussians that are cut off: where a ≥ b,
in two and four dimensions; off a disc; where the function raises, with on_error="floor", in 6 % and
in 30 % of the mass; and on a density that is flat within a disc. Three more shapes were never used
to choose anything: a corner, a hole in the middle, and a slanted half-space in three dimensions.
Per problem: the error of the log evidence beside its stated standard deviation, the share of the
posterior's draws that are truly outside, and the share of evaluations that were. Truths are closed
forms. Seed 1 was not used to choose anything either. A row that is stored in `results/support.json`
is not made again unless `--again` is given; `results/support.md` is the table of all rows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, ncx2, norm
from threadpoolctl import threadpool_limits

from benchmarks.arrays import Array
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack import Problem, fit
from vbstack.modes import EngineName, OnError

RUNS = 10


@dataclass(frozen=True)
class Cut:
    """A density that is cut off: the log density, the support (n, D) → (n,), and the truth."""

    name: str
    log_density: Callable[[Array], float]
    inside: Callable[[Array], NDArray[np.bool_]]
    log_evidence: float
    box: tuple[Array, Array]
    on_error: OnError = "fail_run"

    def problem(self) -> Problem:
        lower, upper = self.box
        return Problem(
            log_density=self.log_density,
            plausible_lower_bounds=lower,
            plausible_upper_bounds=upper,
        )


def below_diagonal(dimension: int) -> Cut:
    """A correlated Gaussian where the first parameter is below the second."""
    mean = np.linspace(0.4, -0.2, dimension)
    covariance = 0.7 * np.eye(dimension) + 0.3
    law = multivariate_normal(mean, covariance)
    step = np.zeros(dimension)
    step[:2] = -1, 1
    share = norm.cdf(step @ mean / np.sqrt(step @ covariance @ step))

    def log_density(x: Array) -> float:
        return float(law.logpdf(x)) if x[0] < x[1] else -np.inf

    box = np.full(dimension, -2.0), np.full(dimension, 2.0)
    name = f"a < b, D = {dimension}"
    return Cut(name, log_density, lambda x: x[:, 0] < x[:, 1], float(np.log(share)), box)


def disc(radius: float = 1.5) -> Cut:
    """A Gaussian around (1, 0) within a disc around zero."""
    law = multivariate_normal([1.0, 0.0], np.eye(2))

    def log_density(x: Array) -> float:
        return float(law.logpdf(x)) if x @ x < radius**2 else -np.inf

    share = ncx2.cdf(radius**2, 2, 1.0)
    box = np.full(2, -2.0), np.full(2, 2.0)
    inside = lambda x: np.square(x).sum(axis=1) < radius**2  # noqa: E731
    return Cut("Gaussian in a disc", log_density, inside, float(np.log(share)), box)


def flat_disc(radius: float = 2.0) -> Cut:
    """One within a disc, nothing outside."""
    inside = lambda x: np.square(x).sum(axis=1) < radius**2  # noqa: E731

    def log_density(x: Array) -> float:
        return 0.0 if x @ x < radius**2 else -np.inf

    box = np.full(2, -2.5), np.full(2, 2.5)
    return Cut("flat disc", log_density, inside, float(np.log(np.pi * radius**2)), box)


def raising(share: float) -> Cut:
    """A standard Gaussian whose function raises in this share of the mass."""
    edge = float(norm.ppf(1 - share))
    law = multivariate_normal(np.zeros(2), np.eye(2))

    def log_density(x: Array) -> float:
        if x[0] > edge:
            raise ValueError("the simulator diverged")
        return float(law.logpdf(x))

    box = np.full(2, -2.0), np.full(2, 2.0)
    return Cut(
        f"raises in {share:.0%} of the mass",
        log_density,
        lambda x: x[:, 0] <= edge,
        float(np.log1p(-share)),
        box,
        "floor",
    )


def corner() -> Cut:
    """A Gaussian where both parameters are positive; held out."""
    law = multivariate_normal([0.5, 0.8], np.diag([1.0, 0.49]))

    def log_density(x: Array) -> float:
        return float(law.logpdf(x)) if x.min() > 0 else -np.inf

    share = norm.cdf(0.5) * norm.cdf(0.8 / 0.7)
    box = np.full(2, -1.5), np.full(2, 3.0)
    inside = lambda x: x.min(axis=1) > 0  # noqa: E731
    return Cut("corner (held out)", log_density, inside, float(np.log(share)), box)


def hole(radius: float = 0.8) -> Cut:
    """A standard Gaussian without its middle; held out."""
    law = multivariate_normal(np.zeros(2), np.eye(2))

    def log_density(x: Array) -> float:
        return float(law.logpdf(x)) if x @ x > radius**2 else -np.inf

    box = np.full(2, -2.5), np.full(2, 2.5)
    inside = lambda x: np.square(x).sum(axis=1) > radius**2  # noqa: E731
    return Cut("hole in the middle (held out)", log_density, inside, -0.5 * radius**2, box)


def slanted(edge: float = 0.6) -> Cut:
    """A Gaussian with three widths where a slanted sum of the parameters is small; held out."""
    sds, slope = np.array([1.0, 0.5, 1.5]), np.array([1.0, -1.0, 0.5])
    law = multivariate_normal(np.zeros(3), np.diag(sds**2))

    def log_density(x: Array) -> float:
        return float(law.logpdf(x)) if slope @ x < edge else -np.inf

    share = norm.cdf(edge / np.sqrt(np.square(slope * sds).sum()))
    box = -3 * sds, 3 * sds
    return Cut(
        "slanted half-space, D = 3 (held out)",
        log_density,
        lambda x: x @ slope < edge,
        float(np.log(share)),
        box,
    )


def cuts() -> list[Cut]:
    chosen_with = below_diagonal(2), below_diagonal(4), disc(), raising(0.06), raising(0.3)
    return [*chosen_with, flat_disc(), corner(), hole(), slanted()]


def row(cut: Cut, engine: EngineName, seed: int) -> str:
    """The row of the table for ten runs of this engine."""
    with tempfile.TemporaryDirectory() as folder:
        posterior = fit(
            cut.problem(),
            RUNS,
            store=folder,
            seed=seed,
            engine=engine,
            starts="uniform",
            on_error=cut.on_error,
            progress=False,
        )
    e = posterior.evidence
    outside = float(np.mean(~cut.inside(posterior.sample(20_000, seed=1))))
    made = [run.evaluations for run in posterior.runs if run.evaluations is not None]
    wasted = sum(int(one.outside.sum()) for one in made) / sum(one.size for one in made)
    count = np.median([one.size for one in made])
    return (
        f"| {cut.name} | {engine} | {len(posterior.runs)} of {RUNS} | {count:.0f} | {wasted:.0%} "
        f"| {e.log_evidence - cut.log_evidence:+.3f} ± {e.sd:.3f} | {outside:.1%} |"
    )


def main(argv: list[str]) -> None:
    parser = options_of("support", __doc__)
    parser.add_argument("--engine", nargs="+", default=["native", "pyvbmc"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--problem", type=int, nargs="+", help="numbers of the problems")
    parser.add_argument("--again", action="store_true", help="also make stored rows again")
    arguments = parser.parse_args(argv)
    path = RESULTS / "support.json"
    rows: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    with threadpool_limits(1):
        for number, cut in enumerate(cuts()):
            for engine in arguments.engine:
                key = f"{cut.name}, {engine}, seed {arguments.seed}"
                asked = arguments.problem is None or number in arguments.problem
                if asked and (arguments.again or key not in rows):
                    rows[key] = row(cut, engine, arguments.seed)
                    print(rows[key], flush=True)
                    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
                    (RESULTS / "support.md").write_text(table(rows))


def table(rows: dict[str, str]) -> str:
    """All stored rows, in the order of the problems."""
    lines = [
        "# Log densities with a support",
        "",
        f"`python -m benchmarks support` on {machine()}.",
        "",
        "| problem | engine | runs stacked | evaluations a run | outside | log evidence − truth "
        "| draws outside |",
        "|---|---|---|---|---|---|---|",
    ]
    ordered = [rows[key] for cut in cuts() for key in rows if key.startswith(f"{cut.name}, ")]
    return "\n".join([*lines, *ordered, ""])
