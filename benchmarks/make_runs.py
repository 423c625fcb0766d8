"""Make the archived VBMC runs: `python -m benchmarks.make_runs [--problem gmm] [--workers 2]`.

Every run is written as soon as it is done, so an interrupted command continues where it stopped;
when all runs of a problem are there, they are gathered into `benchmarks/archives/<problem>.npz`.
Run m has the seed `seed_of(m)`, a uniform random start in the plausible box, pyvbmc's default
options, and one thread.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.problems import PROBLEMS
from vbstack import Evaluations, Run, load_runs, save_runs
from vbstack.worker import run_seed

ARCHIVES = Path(__file__).parent / "archives"
COUNTS = {"gmm": 40, "ring": 41, "gmm_noisy": 10, "banana6": 10, "banana10": 10}
OPTIONS = {"display": "off", "show_tips": False, "performance_calibration": "off"}


def archive(problem: str) -> Path:
    return ARCHIVES / f"{problem}.npz"


def seed_of(index: int) -> int:
    """The seed of run `index`, the same on every machine."""
    return run_seed(2025, index)


def one_run(problem: str, index: int) -> Run:
    """One VBMC run; its log density is evaluated at 70 to 300 points."""
    from pyvbmc import VBMC

    target = PROBLEMS[problem]()
    seed = seed_of(index)
    lower, upper = target.plausible_lower_bounds, target.plausible_upper_bounds
    start = np.random.default_rng([seed, 0]).uniform(lower, upper)
    noise = np.random.default_rng([seed, 1])
    options = {**OPTIONS, "specify_target_noise": target.noise_sd > 0}

    def log_density(x: np.ndarray) -> float | tuple[float, float]:
        value = target.log_density(x)
        if target.noise_sd == 0:
            return value
        return value + target.noise_sd * noise.standard_normal(), target.noise_sd

    begun = time.perf_counter()
    with threadpool_limits(1):
        vbmc = VBMC(log_density, start, None, None, lower, upper, options=options, seed=seed)
        vp, results = vbmc.optimize()
    log = vbmc.function_logger
    used = slice(0, log.Xn + 1)
    return Run.from_pyvbmc(
        vp,
        vbmc.get_gp(results["best_iter"]),
        Evaluations(
            log.X_orig[used], log.y_orig[used, 0], log.S[used, 0] if target.noise_sd else None
        ),
        names=target.names,
        start=start,
        seed=seed,
        seconds=time.perf_counter() - begun,
    )


def _keep(problem: str, index: int) -> str:
    path = ARCHIVES / "parts" / f"{problem}-{index:03d}.npz"
    if path.exists():
        return f"{problem} {index}: there already"
    run = one_run(problem, index)
    save_runs(path, [run], compact=True)
    return f"{problem} {index}: ELBO {run.elbo:.3f}, {run.seconds:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=sorted(COUNTS), action="append")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    problems = arguments.problem or list(COUNTS)
    (ARCHIVES / "parts").mkdir(parents=True, exist_ok=True)
    jobs = [(p, m) for p in problems if not archive(p).exists() for m in range(COUNTS[p])]
    with ProcessPoolExecutor(arguments.workers) as pool:
        for line in pool.map(_keep, *zip(*jobs, strict=True)) if jobs else ():
            print(line, flush=True)
    for problem in problems:
        parts = sorted((ARCHIVES / "parts").glob(f"{problem}-*.npz"))
        if not archive(problem).exists() and len(parts) == COUNTS[problem]:
            save_runs(archive(problem), [run for part in parts for run in load_runs(part)])
            print(f"wrote {archive(problem)}")


if __name__ == "__main__":
    main()
