"""What pooling the evaluations brings: `python -m benchmarks pooling [--archives DIR]`.

Random subsets of archived noisy runs are stacked with the runs' own values and with pooled ones,
and judged by the truth: bias (estimate − ELBO of the same stack under the exact log density), error
of the log evidence, MMTV, GsKL, and whether the stated error covers the log evidence. At the sizes
given by `--variant-sizes` the rejected variants are measured too. `--archives` names a folder with
`<problem>.npz` or with a run store `<problem>/`. `--pyvbmc N` also stacks N subsets of ten runs
with pyvbmc's own S-VBMC, in an environment that has torch. `--exact` measures noiseless runs
instead; `--cost` time and memory only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, qmc
from threadpoolctl import threadpool_limits

from benchmarks.ablations.pooling_report import report
from benchmarks.ablations.pooling_variants import VARIANTS
from benchmarks.arrays import Array
from benchmarks.baselines.peers import to_variational_posterior
from benchmarks.folders import ARCHIVES
from benchmarks.machine import PeakMemory, machine
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.metrics import metrics, of_mixture
from vbstack import Mixture, Run, RunStore, StackedPosterior, load_runs, pool, screen, stack
from vbstack.stacking.mixture import own_log_joints
from vbstack.stacking.pooling import gather
from vbstack.stacking.weights import FreeWeights, optimise

Row = dict[str, Any]

TRUTH_DRAWS = 256
BOUNDS = 1.96
NOISY = ["gmm_noisy", "ring_noisy", "multisensory"]


@dataclass(frozen=True)
class Task:
    """One subset of a problem's runs, and what to measure on it."""

    problem: str
    archives: str
    subset: tuple[int, ...]
    variants: bool
    pyvbmc: bool


@cache
def usable_runs(problem: str, archives: str) -> tuple[Run, ...]:
    """The runs that pass the screen, from an archive or a store; exact ones gain surrogates."""
    folder = Path(archives)
    if (folder / problem).is_dir():
        runs = list(RunStore(folder / problem).runs().values())
    else:
        runs = load_runs(folder / f"{problem}.npz")
    if PROBLEMS[problem]().noise_sd == 0:
        kept = load_runs(folder / f"{problem}_surrogates.npz")
        runs = list({run.seed: run for run in [*runs, *kept]}.values())
    return tuple(runs[index] for index in screen(runs)[0])


@cache
def true_log_joints(problem: str, archives: str, index: int) -> Array:
    """E_j[log p] (K,) of a run's components under the exact log density, by quasi-Monte Carlo."""
    mixture = Mixture.from_runs([usable_runs(problem, archives)[index]])
    z = norm.ppf(qmc.Sobol(mixture.dimension, rng=np.random.default_rng(0)).random(TRUTH_DRAWS))
    y = mixture.centres[:, None] + np.einsum("kde,ne->knd", mixture.factors, z)
    x = mixture.links[0].inverse(y.reshape(-1, mixture.dimension))
    values = PROBLEMS[problem]().log_densities(x)
    return np.asarray(values.reshape(mixture.size, -1).mean(axis=1))


def measure(task: Task) -> list[Row]:
    """One row per method for one subset of runs."""
    every = usable_runs(task.problem, task.archives)
    runs = [every[index] for index in task.subset]
    truth = np.concatenate(
        [true_log_joints(task.problem, task.archives, index) for index in task.subset]
    )
    with threadpool_limits(1):
        rows = _own(task, runs, truth) + _pooled(task, runs, truth)
        for name, variant in VARIANTS.items() if task.variants else ():
            rows.append(_variant(task, runs, truth, name, variant))
        if task.pyvbmc:
            rows += _pyvbmc(task, runs, truth)
    return rows


def _row(task: Task, method: str, shared: Row, elbo: float, evidence: float, sd: float) -> Row:
    """`elbo` estimates the stack's ELBO, `evidence` ± `sd` the log evidence."""
    error = evidence - PROBLEMS[task.problem]().log_evidence
    return {
        "problem": task.problem,
        "runs": len(task.subset),
        "method": method,
        "bias": elbo - shared["true_elbo"],
        "error": error,
        "covered": bool(abs(error) <= BOUNDS * sd),
        "sd": sd,
        **shared,
    }


def _shared(task: Task, runs: Sequence[Run], weights: Array, true_elbo: float) -> Row:
    """What all estimates of one stack share: its true ELBO and its distances to the truth."""
    reference = PROBLEMS[task.problem]().reference
    assert reference is not None
    found = metrics(of_mixture(Mixture.from_runs(runs), weights, true_elbo), reference)
    return {"true_elbo": true_elbo, "mmtv": found.mmtv, "gskl": found.gskl}


def _of_stack(task: Task, posterior: StackedPosterior, truth: Array) -> Row:
    true_elbo = posterior.evidence.entropy + float(posterior.weights @ truth)
    return _shared(task, posterior.runs, posterior.weights, true_elbo)


def _own(task: Task, runs: list[Run], truth: Array) -> list[Row]:
    posterior = stack(runs, evaluations="own", caution=0.0)  # as the paper has it
    shared, e = _of_stack(task, posterior, truth), posterior.evidence
    estimates = {
        "own values: raw": e.raw,
        "own values: capped by components": e.capped_components,
        "own values: capped by runs": e.capped_runs,
        "own values: pyvbmc 1.5's two-level shrinkage": shrunk(posterior),
    }
    return [_row(task, name, shared, v, v, e.total_sd) for name, v in estimates.items()]


def shrunk(posterior: StackedPosterior) -> float:
    """pyvbmc 1.5's estimate, by its own function, at our weights and entropy."""
    from pyvbmc.svbmc._elbo_shrinkage import _two_level_shrinkage

    mixture = posterior.mixture
    own = mixture.original_log_joint(own_log_joints(posterior.runs))
    value, _ = _two_level_shrinkage(
        [run.log_joint for run in posterior.runs],
        [run.log_joint_covariance for run in posterior.runs],
        [own[mixture.owner == m] for m in range(mixture.n_runs)],
        [run.weights for run in posterior.runs],
        posterior.weights,
        posterior.evidence.entropy,
    )
    return float(value)


def _pooled(task: Task, runs: list[Run], truth: Array) -> list[Row]:
    posterior = stack(runs, evaluations="pooled", refine=False)
    shared, e = _of_stack(task, posterior, truth), posterior.evidence
    shared = {**shared, "divergence": e.divergence, "selection": e.selection}
    plain = posterior.solution.lower
    assert e.pooled is not None
    assert e.pooled_elbo is not None
    assert e.pooled_sd is not None
    return [
        _row(task, "pooled: log evidence", shared, e.pooled_elbo, e.pooled, e.pooled_sd),
        _row(task, "pooled: ELBO", shared, e.pooled_elbo, e.pooled_elbo, e.pooled_sd),
        _row(task, "pooled: ELBO, selection left in", shared, plain, plain, e.pooled_sd),
    ]


def _variant(
    task: Task,
    runs: list[Run],
    truth: Array,
    name: str,
    variant: Callable[[Sequence[Run]], Array],
) -> Row:
    mixture, log_joint = Mixture.from_runs(runs), variant(runs)
    solution = optimise(
        mixture,
        log_joint,
        FreeWeights.of("all", mixture, [run.elbo for run in runs]),
        tolerance=0.02,
        max_draws=512,
        final_draws=128,
        rng=np.random.default_rng(0),
    )
    w = solution.weights
    true_elbo = solution.lower - float(w @ (mixture.original_log_joint(log_joint) - truth))
    shared = _shared(task, runs, w, true_elbo)
    return _row(task, name, shared, solution.lower, solution.lower, np.nan)


def _pyvbmc(task: Task, runs: list[Run], truth: Array) -> list[Row]:
    """pyvbmc.SVBMC with its own weights, entropy and headline."""
    import torch
    from pyvbmc.svbmc import SVBMC

    torch.set_num_threads(1)
    posteriors = [to_variational_posterior(run) for run in runs]
    stacked = SVBMC(posteriors, M_min=1, s_max=np.inf, seed=0, show_tips=False)
    stacked.optimize()
    w = stacked.w.ravel() / stacked.w.sum()
    shared = _shared(task, runs, w, stacked.entropy + float(w @ truth))
    raw, value, sd = stacked.elbo_details["raw"], stacked.elbo, stacked.elbo_sd
    return [
        _row(task, "pyvbmc.SVBMC: raw", shared, raw, raw, sd),
        _row(task, "pyvbmc.SVBMC: its headline (two-level shrinkage)", shared, value, value, sd),
    ]


def tasks(arguments: argparse.Namespace, problem: str) -> list[Task]:
    """The subsets of every size; one of exact runs holds at least one that kept its surrogate."""
    runs = usable_runs(problem, arguments.archives)
    with_surrogate = [i for i, run in enumerate(runs) if run.surrogate is not None]
    rng = np.random.default_rng(0)
    found = []
    for size in (size for size in arguments.sizes if size <= len(runs)):
        for repeat in range(arguments.subsets if size < len(runs) else 1):
            subset = rng.choice(len(runs), size, replace=False)
            if not set(subset) & set(with_surrogate):
                subset[0] = rng.choice(with_surrogate)
            # The variants need every run's surrogate.
            variants = size in arguments.variant_sizes and set(subset) <= set(with_surrogate)
            peers = size == 10 and repeat < arguments.pyvbmc
            indices = tuple(int(index) for index in subset)
            found.append(Task(problem, arguments.archives, indices, variants, peers))
    return found


def luck(problem: str, archives: str) -> Row:
    """Mean noise of the archive's evaluations within two nats of the top: no method can see it."""
    target, runs = PROBLEMS[problem](), usable_runs(problem, archives)
    data, link = gather(runs), runs[0].transform.link
    exact = target.log_densities(link.inverse(data.inputs)) + link.log_jacobian(data.inputs)
    near = exact > exact.max() - 2
    noise = data.values[near] - exact[near]
    return {
        "problem": problem,
        "runs": len(runs),
        "evaluations": data.size,
        "mean_noise": float(noise.mean()),
        "mean_noise_se": float(target.noise_sd / np.sqrt(noise.size)),
    }


def cost(problem: str, archives: str, size: int) -> Row:
    """Time and memory of `pool` alone; with fewer runs than `size` they are used again."""
    runs = usable_runs(problem, archives)
    chosen = [runs[index % len(runs)] for index in range(size)]
    pool(runs[:2])
    with threadpool_limits(1), PeakMemory() as memory:
        begun = time.process_time()
        pooled = pool(chosen)
        seconds = time.process_time() - begun
    return {
        "problem": problem,
        "runs": size,
        "distinct_runs": min(size, len(runs)),
        "evaluations": pooled.evaluations,
        "rank": len(pooled.processes[0].pivots),
        "cpu_seconds": seconds,
        "megabytes": memory.megabytes,
    }


def main(argv: list[str]) -> None:
    parser = options_of("pooling", __doc__)
    parser.add_argument("--problem", nargs="+", default=None)
    parser.add_argument("--archives", default=str(ARCHIVES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[5, 10, 20])
    parser.add_argument("--variant-sizes", nargs="*", type=int, default=[10])
    parser.add_argument("--subsets", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pyvbmc", type=int, default=0)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--name", default=None, help="of the files in results/")
    parser.add_argument("--cost", action="store_true", help="measure time and memory only")
    arguments = parser.parse_args(argv)
    problems = arguments.problem or (["gmm"] if arguments.exact else NOISY)
    if arguments.exact:
        arguments.variant_sizes = []
    costs = [cost(p, arguments.archives, size) for p in problems for size in (5, 10, 20, 40)]
    if arguments.cost:
        print(json.dumps(costs, indent=1))
        return
    rows: list[Row] = []
    todo = [task for problem in problems for task in tasks(arguments, problem)]
    with ProcessPoolExecutor(arguments.workers) as executor:
        for count, found in enumerate(executor.map(measure, todo), start=1):
            rows += found
            print(f"{count} of {len(todo)} subsets", flush=True)
    lucks = [luck(problem, arguments.archives) for problem in problems]
    name = arguments.name or ("pooling_exact" if arguments.exact else "pooling")
    print(report(name, rows, lucks, costs, machine()))
