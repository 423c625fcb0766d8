"""`vbstack fit` killed at random times and started again, until it is finished.

The log density writes a line when it is called and another when it is done, so that what was paid
twice can be told from what was under way when a process died. The store is trusted: otherwise each
start makes one or two evaluations again, to see that the log density is the same.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vbstack import RunStore, StackedPosterior
from vbstack.runs.journal import read_journal

RUNS, WORKERS = 4, 2
KILLS_A_FIT = 6  # then it is left to finish
WHOM = ("the whole group", "one worker", "the launcher", "the group, at a write")
_PATIENCE = 180.0  # seconds that a fit may take without a kill
_MODEL = """
import os, time
import numpy as np
from vbstack import Problem

LOG = os.open(os.environ["VBSTACK_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def log_density(x):
    point = f"{os.getpid()} {x[0].hex()} {x[1].hex()}"
    os.write(LOG, f"begin {point}\\n".encode())
    time.sleep(0.01)
    value = float(-0.5 * np.sum(np.square(x)))
    os.write(LOG, f"end {point}\\n".encode())
    return value


problem = Problem(
    log_density=log_density, plausible_lower_bounds=[-2, -2], plausible_upper_bounds=[2, 2]
)
"""


@dataclass
class Tally:
    """What the campaign found."""

    kills: Counter[str] = field(default_factory=Counter)
    fits: int = 0
    runs_lost: int = 0
    different: int = 0
    evaluations: int = 0
    in_flight: int = 0  # begun, never done, made again
    done_again: int = 0  # done, perhaps killed before the line in the journal, and made again
    paid_twice: int = 0  # in a journal, and made again
    leftovers: int = 0  # temporary files there when the last fit ended
    never_removed: int = 0  # temporary files that the next launch does not remove either
    unfinished: int = 0
    journals_damaged: int = 0


class _Fit:
    """One store, and the command that fills it."""

    def __init__(self, folder: Path):
        self.store, self.calls = folder / "store", folder / "calls"
        self.model = folder / "model.py"
        self.model.write_text(_MODEL)
        self.journalled: list[tuple[int, set[tuple[str, ...]]]] = []

    def remember(self) -> None:
        """Which points are in journals now, and how many calls had begun before that was read."""
        begun = len(self.lines("begin"))
        content = (read_journal(path) for path in self.store.glob("run-*.journal"))
        points = {tuple(v.hex() for v in e.x) for c in content for e in c.evaluations.values()}
        self.journalled.append((begun, points))

    def paid_twice(self) -> int:
        """Calls at points that were in a journal before."""
        calls = [tuple(line[1:]) for line in self.lines("begin")]
        found = {
            place
            for begun, points in self.journalled
            for place in range(begun, len(calls))
            if calls[place] in points and calls.index(calls[place]) < begun
        }
        return len(found)

    def start(self) -> subprocess.Popen[bytes]:
        """The command in a process group of its own."""
        command = [sys.executable, "-m", "vbstack", "fit", f"{self.model}:problem", "--quiet"]
        command += ["--verify", "no"]  # which asks two points again on purpose
        command.append("--trust-store")  # without it each start asks for one evaluation again
        settings = f"--out {self.store} --runs {RUNS} --seed 3 --workers {WORKERS} --engine native"
        options = "--option max_fun_evals=40 --option final_components=3"
        environment = {**os.environ, "VBSTACK_CALLS": str(self.calls), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [*command, *settings.split(), *options.split()],
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def lines(self, kind: str) -> list[list[str]]:
        text = self.calls.read_text() if self.calls.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.startswith(kind)]

    def finished(self) -> bool:
        return len(RunStore(self.store).runs()) == RUNS and (self.store / "posterior.npz").exists()


def campaign(kills: int, seed: int) -> Tally:
    """Fits that are killed this many times in all, each compared with one that was not."""
    rng, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "never-killed"
        folder.mkdir()
        reference = _Fit(folder)
        reference.start().wait(_PATIENCE)
        number = 0
        while sum(tally.kills.values()) < kills:
            number += 1
            folder = Path(name) / f"killed-{number}"
            folder.mkdir()
            one = _Fit(folder)
            if _killed_until_finished(one, rng, tally, kills):
                _compare(one, reference, tally)
            print(f"{sum(tally.kills.values())} of {kills} kills", file=sys.stderr, flush=True)
    return tally


def _killed_until_finished(one: _Fit, rng: random.Random, tally: Tally, kills: int) -> bool:
    """Whether the fit finished in the end."""
    tally.fits += 1
    mine = 0
    for _ in range(10 * KILLS_A_FIT):
        process = one.start()
        if mine < KILLS_A_FIT and sum(tally.kills.values()) < kills:
            whom = rng.choice(WHOM)
            if _kill(one, process, whom, rng):
                tally.kills[whom] += 1
                mine += 1
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            _end_group(process)
        one.remember()
        # A posterior of fewer runs may be there from before: only a fit that ends by itself counts.
        if process.returncode == 0 and one.finished():
            return True
    tally.unfinished += 1
    return False


def _kill(one: _Fit, process: subprocess.Popen[bytes], whom: str, rng: random.Random) -> bool:
    """Kill somebody at a random time; False if the fit was over before."""
    begun, after = time.monotonic(), rng.uniform(0.3, 6.0)
    at_write = whom == WHOM[3]
    while time.monotonic() - begun < (20.0 if at_write else after):
        if process.poll() is not None:
            return False
        if at_write and time.monotonic() - begun > after / 4 and _writing(one.store):
            break
        time.sleep(0.0002 if at_write else 0.01)
    if whom == "the launcher":
        process.kill()
    elif whom == "one worker":
        workers = {int(line[0]) for line in one.lines("begin")[-2 * WORKERS :]}
        alive = [pid for pid in workers if _in_group(pid, process.pid)]
        if not alive:
            return False
        os.kill(rng.choice(alive), signal.SIGKILL)
    else:
        _end_group(process)
    return True


def _writing(store: Path) -> bool:
    """Whether a file is being written: its temporary name is there."""
    try:
        return any(name.startswith(".") for name in os.listdir(store))
    except FileNotFoundError:
        return False


def _in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _compare(one: _Fit, reference: _Fit, tally: Tally) -> None:
    found, expected = RunStore(one.store).runs(), RunStore(reference.store).runs()
    tally.runs_lost += len(set(expected) - set(found))
    tally.different += sum(
        not _same(found[index], run) for index, run in expected.items() if index in found
    )
    posteriors = [StackedPosterior.load(f.store / "posterior.npz") for f in (one, reference)]
    tally.different += not np.array_equal(posteriors[0].weights, posteriors[1].weights)
    begun = Counter(tuple(line[1:]) for line in one.lines("begin"))
    done = Counter(tuple(line[1:]) for line in one.lines("end"))
    tally.evaluations += len(begun)
    tally.done_again += sum(done.values()) - len(done)
    tally.paid_twice += one.paid_twice()
    tally.in_flight += sum(begun.values()) - sum(done.values())
    tally.leftovers += _temporaries(one.store)
    RunStore(one.store).tidy()
    tally.never_removed += _temporaries(one.store)
    tally.journals_damaged += len(list(one.store.glob("*.damaged-*")))


def _temporaries(store: Path) -> int:
    return sum(path.name.startswith(".") for path in store.iterdir())


def _same(a: Any, b: Any) -> bool:
    names = ("weights", "means", "sds", "log_joint", "log_joint_covariance", "start", "elbo")
    arrays = [(getattr(a, name), getattr(b, name)) for name in names]
    arrays += [(a.evaluations.x, b.evaluations.x), (a.evaluations.values, b.evaluations.values)]
    return all(np.array_equal(*pair) for pair in arrays)
