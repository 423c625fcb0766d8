"""What refinement of a stack by the pooled surrogate is worth: `python -m benchmarks refinement`.

Stacks of ten runs with and without components fitted to the pooled surrogate: true ELBO (Monte
Carlo on the exact log density) less the log evidence, seconds of the processor, and the components
added. The runs are the first ten of every archive that converged and kept their surrogates
(pyvbmc's), native runs of the problems of the engine race, made here and kept in
`benchmarks/archives/stores/refinement`, and native runs of the coverage targets where
`python -m benchmarks coverage --keep LABEL` left them: of those the fits with other seeds than 0
are held out. All else was looked at when constants were chosen. Noisy problems are refined only
because `refine=True` asks for it. The default refines exact ones only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.archived_runs import archive, passing, plan_of, run_of
from benchmarks.arrays import Array
from benchmarks.coverage.targets import TARGETS
from benchmarks.folders import ARCHIVES, RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.problems.neuronal.log_joint_by_modes import fast
from benchmarks.scoring.true_elbo import DRAWS, SLOW, SLOW_DRAWS
from vbstack import Run, StackedPosterior, load_runs, save_runs, stack

SIZE = 10
WORSE = 0.002  # nats by which no stack should lose
CHOSEN_SEED = 0  # of the coverage targets' fits; those with other seeds only report
NATIVE = ARCHIVES / "stores" / "refinement"

LogDensities = Callable[[Array], Array]


@dataclass(frozen=True)
class Row:
    """One stack of ten runs, with and without refinement; ELBOs are less the log evidence."""

    problem: str
    runs: str
    dimension: int
    noisy: bool
    plain: float
    refined: float
    difference_error: float
    stated: float
    stated_sd: float
    seconds: float
    more_seconds: float
    components: int
    weight: float


def row(
    name: str, kind: str, runs: list[Run], log_densities: LogDensities, log_evidence: float
) -> Row:
    """The measurement of one stack."""
    stack(runs[:2], refine=False)  # what is made once and for all
    begun = time.process_time()
    plain = stack(runs, refine=False)
    middle = time.process_time()
    refined = stack(runs, refine=True if plain.evidence.noisy else "auto")
    ended = time.process_time()
    draws = SLOW_DRAWS if name in SLOW else DRAWS
    before, error = _elbo(plain, log_densities, draws)
    after, other = (
        (before, 0.0) if refined.refined is None else _elbo(refined, log_densities, draws)
    )
    return Row(
        problem=name,
        runs=kind,
        dimension=plain.dimension,
        noisy=plain.evidence.noisy,
        plain=before - log_evidence,
        refined=after - log_evidence,
        difference_error=float(np.hypot(error, other)) if other else 0.0,
        stated=refined.evidence.elbo - log_evidence,
        stated_sd=refined.evidence.elbo_sd,
        seconds=middle - begun,
        more_seconds=ended - middle - (middle - begun),
        components=0 if refined.refined is None else refined.refined.gaussians.size,
        weight=refined.refined_weight,
    )


def _elbo(posterior: StackedPosterior, log_densities: LogDensities, n: int) -> tuple[float, float]:
    """E_q[log p − log q] by draws, and its standard error."""
    x = posterior.sample(n, seed=1)
    ratios = log_densities(x) - posterior.log_pdf(x)
    return float(ratios.mean()), float(ratios.std() / np.sqrt(n))


def native_runs(name: str) -> list[Run]:
    """Ten native runs of a problem of the engine race: kept ones, or made now."""
    path = archive(name, NATIVE)
    if not path.exists():
        problem = fast(PROBLEMS[name]()).problem()
        plan = plan_of(problem, "native")
        NATIVE.mkdir(parents=True, exist_ok=True)
        save_runs(path, [run_of(problem, plan, index) for index in range(SIZE)])
    return load_runs(path)


def rows(only: list[str], coverage_runs: Path, seeds: list[int]) -> Iterator[Row]:
    """Every stack that can be pooled."""
    for name in sorted(PROBLEMS):
        if only and name not in only:
            continue
        target = fast(PROBLEMS[name]())
        truth = target.log_densities, target.log_evidence
        archived = load_runs(archive(name)) if archive(name).exists() else []
        for kind, runs in (("native", native_runs(name)), ("pyvbmc", archived)):
            usable = [run for run in passing(runs) if run.surrogate is not None][:SIZE]
            if len(usable) > 1:
                yield row(name, kind, usable, *truth)
    for name in sorted(TARGETS):
        for seed in seeds:
            path = coverage_runs / f"{name}-{seed}.npz"
            if not path.exists() or (only and name not in only):
                continue
            usable = passing(load_runs(path))[:SIZE]
            goal = TARGETS[name]().truth
            if len(usable) > 1:
                kind = f"native, fit {seed}"
                yield row(name, kind, usable, goal.log_densities, goal.log_evidence)


def table(found: list[Row]) -> str:
    """The rows, those with which constants were chosen first, and what they say in counts."""
    exact = [one for one in found if not one.noisy]
    used = [one for one in exact if _chosen(one)]
    held = [one for one in exact if not _chosen(one)]
    worse = [one for one in exact if one.refined < one.plain - WORSE]
    halved = [one for one in exact if one.plain < -0.01 and one.refined > 0.5 * one.plain]
    open_before = [one for one in exact if one.plain < -0.01]
    slow = max(exact, key=lambda one: one.more_seconds)
    text = [
        "# Refinement of a stack by the pooled surrogate",
        "",
        f"`python -m benchmarks refinement` on {machine()}. Stacks of {SIZE} runs, or as many as "
        "can be pooled. True ELBO − log evidence by 20,000 draws of each stack on the exact log "
        "density; stated: what the refined stack says of itself.",
        "",
        f"Of {len(open_before)} exact stacks that lacked more than 0.01 nats, {len(halved)} lack "
        f"less than half of it after refinement. {len(worse)} of {len(exact)} exact stacks lost "
        f"more than {WORSE} nats"
        + (f" ({', '.join(f'{one.problem}, {one.runs}' for one in worse)})" if worse else "")
        + f". Most time: {slow.more_seconds:.1f} s more ({slow.problem}, {slow.runs}).",
        "",
    ]
    for title, part in (
        ("Looked at when constants were chosen", used),
        ("Held out", held),
        ("Noisy: only with `refine=True`", [one for one in found if one.noisy]),
    ):
        text += [f"## {title}", "", *_lines(part), ""]
    return "\n".join(text)


def _chosen(one: Row) -> bool:
    return not one.runs.startswith("native, fit") or one.runs.endswith(f" {CHOSEN_SEED}")


def _lines(part: list[Row]) -> list[str]:
    head = (
        "| problem | D | runs of | without | with | s.e. | stated | seconds | more "
        "| components | their weight |"
    )
    return [
        head,
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {one.problem} | {one.dimension} | {one.runs} | {one.plain:+.4f} "
            f"| {one.refined:+.4f} | {one.difference_error:.4f} "
            f"| {one.stated:+.4f} ± {one.stated_sd:.4f} | {one.seconds:.1f} "
            f"| {one.more_seconds:+.1f} | {one.components} | {one.weight:.0%} |"
            for one in part
        ),
    ]


def main(argv: list[str]) -> None:
    parser = options_of("refinement", __doc__)
    parser.add_argument("--problem", action="append", default=[], help="only these; repeatable")
    parser.add_argument("--coverage-runs", type=Path, default=ARCHIVES / "stores" / "present")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of their fits")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args(argv)
    path = arguments.results / "refinement.json"
    kept = [Row(**one) for one in json.loads(path.read_text())] if path.exists() else []
    for one in rows(arguments.problem, arguments.coverage_runs, arguments.seeds):
        print(*_lines([one])[2:], flush=True)
        kept = [k for k in kept if (k.problem, k.runs) != (one.problem, one.runs)] + [one]
        path.write_text(json.dumps([asdict(k) for k in kept], indent=1) + "\n")
        (arguments.results / "refinement.md").write_text(table(kept))
