"""Every reader of a file on mutated files: clear errors, or something that holds together."""

from __future__ import annotations

import json
import math
import random
import resource
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.mutations import mutated
from benchmarks.folders import ROOT
from vbstack import FileError, Problem, RunStore, StackedPosterior, launch, load_runs, stack
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal, read_journal
from vbstack.runs.plan import Plan
from vbstack.runs.run import Run
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.moments import mixture_moments

OLD = ROOT / "tests" / "data" / "0.1.0"
MEMORY = 2**32  # bytes of address space that a process may take: the libraries need a half of it
OUTCOMES = ("clear error", "accepted and valid", "raw exception", "accepted nonsense")


@dataclass(frozen=True)
class Findings:
    """Counts of outcomes by reader, examples of what went wrong, and megabytes above the start."""

    counts: Counter[tuple[str, str]]
    examples: tuple[str, ...]
    megabytes: float


def _gaussian(x: Any) -> float:
    return float(-0.5 * np.sum(np.square(x)))


def problem() -> Problem:
    return Problem(
        log_density=_gaussian, plausible_lower_bounds=[-2, -2], plausible_upper_bounds=[2, 2]
    )


def make_samples(folder: Path) -> dict[str, list[Path]]:
    """Good files of every kind, by the reader: those of 0.1.0 and new ones."""
    store = RunStore(folder / "new")
    options = {"max_fun_evals": 20, "final_components": 3}
    runs = launch(
        problem(),
        2,
        store=store,
        seed=1,
        executor="here",
        engine="native",
        options=options,
        progress=False,
    )
    posterior = folder / "new" / "posterior.npz"
    stack(runs, max_draws=16, final_draws=16, screen=_everything()).save(posterior)
    store.save_failure(7, {"message": "a reason", "traceback": "lines", "x": [1.0, 2.0]})
    store.note(7, 3, -1.0, 2.0)
    make_journal(store.path(7, "journal"), 20)
    old = OLD / "store"
    return {
        "run": [store.path(0, "npz"), old / "run-00000.npz"],
        "posterior": [posterior, old / "posterior.npz", OLD / "own.npz"],
        "journal": [store.path(7, "journal"), old / "run-00002.journal"],
        "store.json": [store.directory / "store.json", old / "store.json"],
        "status.json": [store.path(7, "status.json"), old / "run-00002.status.json"],
        "failed.json": [store.path(7, "failed.json"), old / "run-00003.failed.json"],
    }


def _everything() -> Any:
    from vbstack import Screen

    return Screen(require_converged=False, max_variance=math.inf)


def make_journal(path: Path, size: int) -> None:
    rng = np.random.default_rng(0)
    with Journal(path) as journal:
        for x in rng.standard_normal((size, 3)):
            value = float(-0.5 * x @ x)
            journal.append(Evaluation(tuple(x.tolist()), value, 0.5, float(rng.random())))


def findings(files: int, seed: int, workers: int) -> Findings:
    """What every reader makes of this many mutated files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = {
            reader: [path.read_bytes() for path in paths]
            for reader, paths in make_samples(folder).items()
        }
        blocks = max(workers, files // 2500)
        sizes = [files // blocks + (n < files % blocks) for n in range(blocks)]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            done = list(
                pool.map(partial(_block, samples), sizes, range(seed, seed + blocks), timeout=3600)
            )
    counts: Counter[tuple[str, str]] = Counter()
    for one in done:
        counts.update(one.counts)
    examples = [example for one in done for example in one.examples]
    return Findings(counts, tuple(examples[:20]), max(one.megabytes for one in done))


def _block(samples: dict[str, list[bytes]], size: int, seed: int) -> Findings:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    rng = random.Random(seed)
    counts: Counter[tuple[str, str]] = Counter()
    examples = []
    before = _peak()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        for number in range(size):
            reader = rng.choice(list(samples))
            content = mutated(rng.choice(samples[reader]), rng)
            outcome, detail = outcome_of(reader, content, folder)
            counts[reader, outcome] += 1
            if outcome in OUTCOMES[2:]:
                examples.append(f"{reader}, block {seed}, file {number}: {outcome}: {detail}")
    finally:
        shutil.rmtree(folder)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return Findings(counts, tuple(examples[:20]), (_peak() - before) / 1e6)


def _peak() -> int:
    """Bytes of memory that this process has had at most; `getrusage` counts its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def outcome_of(reader: str, content: bytes, folder: Path) -> tuple[str, str]:
    """How reading this content ends, and a word about it."""
    read, name, check = READERS[reader]
    path = folder / name
    path.write_bytes(content)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = read(path)
        except FileError:
            return "clear error", ""
        except Exception as error:
            return "raw exception", f"{type(error).__name__}: {str(error)[:200]}"
        try:
            check(found)
        except Exception as error:
            return "accepted nonsense", f"{type(error).__name__}: {str(error)[:200]}"
    return "accepted and valid", ""


def _check_mixture(runs: tuple[Run, ...], mixture: Mixture, weights: Any) -> None:
    assert np.all(weights >= 0), "negative weights"
    assert abs(weights.sum() - 1) < 1e-5, "weights do not sum to one"
    mean, covariance = mixture_moments(mixture, weights)
    assert np.isfinite(mean).all(), "mean"
    assert np.isfinite(covariance).all(), "covariance"
    assert np.all(np.diag(covariance) >= 0), "variance"
    heaviest = mixture.original_centres[[int(np.argmax(weights))]]
    assert np.isfinite(mixture.log_density(heaviest, weights)).all(), "density"
    for run in runs:
        assert isinstance(run.elbo, float), "elbo"
        assert all(isinstance(name, str) for name in run.names), "names"
        assert run.seed is None or isinstance(run.seed, int), "seed"


def _check_runs(runs: list[Run]) -> None:
    for run in runs:
        _check_mixture((run,), Mixture.from_runs([run]), run.weights)


def _check_posterior(posterior: StackedPosterior) -> None:
    _check_mixture(posterior.runs, posterior.mixture, posterior.weights)
    assert math.isfinite(posterior.evidence.log_evidence), "evidence"
    assert posterior.summary().isprintable() or "\x1b" not in posterior.summary(), "escapes"


def _check_journal(evaluations: list[Evaluation]) -> None:
    assert len({len(one.x) for one in evaluations}) <= 1, "lengths"
    for one in evaluations:
        assert all(map(math.isfinite, one.x)), "point"
        assert math.isfinite(one.value) or one.value == -math.inf, "value"
        assert one.sd is None or 0 < one.sd < math.inf, "sd"


def _check_plan(plan: Plan) -> None:
    start = plan.start(0)
    assert np.isfinite(start).all(), "start"
    assert len(start) == len(plan.problem["names"]), "names"
    json.dumps(plan.as_json())


def _check_failure(record: Any) -> None:
    assert isinstance(record, dict), "record"
    assert isinstance(record.get("message", ""), str), "message"


def _check_notes(notes: dict[str, Any]) -> None:
    for name, form in (("iteration", "d"), ("elbo", ".3f"), ("seconds", ".0f")):
        format(notes.get(name) or 0, form)  # as the table of `vbstack status` does


READERS: dict[str, tuple[Callable[[Path], Any], str, Callable[[Any], None]]] = {
    "run": (load_runs, "run-00000.npz", _check_runs),
    "posterior": (StackedPosterior.load, "posterior.npz", _check_posterior),
    "journal": (
        lambda path: list(read_journal(path).evaluations.values()),
        "run-00000.journal",
        _check_journal,
    ),
    "store.json": (lambda path: RunStore(path.parent).read_plan(), "store.json", _check_plan),
    "status.json": (
        lambda path: RunStore(path.parent)._notes(0),
        "run-00000.status.json",
        _check_notes,
    ),
    "failed.json": (
        lambda path: RunStore(path.parent).failure(0),
        "run-00000.failed.json",
        _check_failure,
    ),
}


def flipped_bits(flips: int, seed: int) -> tuple[int, int, int]:
    """One flipped bit a time in a journal: noticed ones, ones without effect, silent changes."""
    rng = random.Random(seed)
    noticed = harmless = silent = 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "journal"
        make_journal(path, 20)
        whole, before = path.read_bytes(), read_journal(path).evaluations
        for _ in range(flips):
            content = bytearray(whole)
            content[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
            found = read_journal(path)
            if not found.evaluations.items() <= before.items():
                silent += 1
            elif found.damaged or found.torn:
                noticed += 1
            else:
                harmless += 1
    return noticed, harmless, silent
