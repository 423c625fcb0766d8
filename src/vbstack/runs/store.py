"""`RunStore`: a directory of runs that several launchers, on several machines, may share.

    store.json          the plan (see `plan`)
    run-00003.npz       a finished run
    run-00003.journal   the evaluations of a run that is not finished
    run-00003.lock      held by the process that works on the run; the system frees it when it dies
    run-00003.failed.json   why a run failed, and at which point
    verification.journal    evaluations at draws of the stack

Everything is written whole or appended line by line; nothing in it is executed when read. Only
regular files are opened, never a link. Reading changes nothing; a launch sets damaged runs aside
(`take_damaged_aside`) and removes what killed writers left (`tidy`).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vbstack.checks import shortened
from vbstack.modes import EngineName, OnError, RunStatus, StartsKind
from vbstack.problem import Evaluation, Problem
from vbstack.runs.atomic import create_text, remove_abandoned, sync_directory, write_text
from vbstack.runs.files import FileError, OtherSchema, load_runs, save_runs
from vbstack.runs.fingerprint import Fingerprint
from vbstack.runs.journal import Journal, read_journal
from vbstack.runs.opening import (
    NotARegularFile,
    TooLarge,
    hold,
    open_regular,
    read_regular,
    release,
)
from vbstack.runs.plan import FORMAT, SCHEMA, Plan, Points
from vbstack.runs.printable import LONGEST, printable
from vbstack.runs.run import Run
from vbstack.runs.small_files import check_problem, checked_notes, json_object

_KINDS = ("npz", "journal", "precomputed", "lock", "failed.json", "status.json")
_RUN_FILE = re.compile(r"run-([0-9]{5,9})\.(" + "|".join(map(re.escape, _KINDS)) + ")")


class StoreMismatch(ValueError):
    """The store holds runs of another problem or plan; the message shows the difference."""

    def __init__(self, message: str):
        super().__init__(printable(message, lines=True))


class DamagedFile(UserWarning):
    """A file of a store that could not be used; the next launch makes its run again."""


@dataclass(frozen=True)
class RunState:
    """One run of a store: "finished", "running", "failed", "interrupted", "waiting" or "damaged".

    A damaged run has a file that cannot be read; the message says why. `elbo` is the run's, or that
    of its last iteration; `seconds` it took or has been running for.
    """

    index: int
    state: RunStatus
    evaluations: int
    iteration: int = 0
    elbo: float | None = None
    elbo_sd: float | None = None
    seconds: float | None = None
    host: str = ""
    message: str = ""


class RunStore:
    """A directory of runs."""

    def __init__(self, directory: str | os.PathLike[str]):
        self.directory = Path(directory)
        self.set_aside: list[str] = []  # a line for every damaged run that this object set aside

    def open(
        self,
        problem: Problem,
        *,
        engine: EngineName | None = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        starts: StartsKind | Points | None = None,
        on_error: OnError | None = None,
        model: Fingerprint | None = None,
        batch: bool | None = None,
        batch_if_new: Callable[[], bool] = bool,
    ) -> Plan:
        """Create the store for this problem, or check that it is this problem's; returns the plan.

        What is None stays as it is in a store that exists; a new one gets a random seed and the
        defaults of `Plan`, with pyvbmc as its engine. Further starts and another on_error are in
        the plan that is returned; `record` writes them down. `model` is the fingerprint for a new
        store; one that exists keeps its own. `batch_if_new` is asked for a new store's `batch`.
        """
        asked: dict[str, Any] = {
            "engine": engine,
            "seed": seed,
            "options": options,
            "starts": starts,
            "on_error": on_error,
            "batch": batch,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        random = int.from_bytes(os.urandom(4), "little")
        defaults = {"seed": random, "engine": "pyvbmc", "model": model}
        if batch is None and not self.exists():
            defaults["batch"] = batch_if_new()
        new = Plan(**{**defaults, **given}, problem=problem.description())
        if not self.exists():
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
                create_text(self._plan_path, json.dumps(new.as_json(), indent=1) + "\n")
            except OSError as error:
                raise self.unwritable(error) from error
        found = self.read_plan()
        plan = replace(found, problem=new.problem, **given)
        differences = found.differences(plan)
        if differences:
            raise StoreMismatch(
                f"{self.directory} holds another problem or plan:\n  "
                + "\n  ".join(differences)
                + "\nUse another directory, or the same problem, seed and options."
            )
        if plan.unreadable_options():
            raise StoreMismatch(
                f"{self.directory} was made with options {plan.unreadable_options()} that are "
                "objects, of which it keeps the text only; give the options again"
            )
        return _merged(found, plan)

    def record(self, plan: Plan) -> None:
        """Write down what is new in a plan that `open` returned: on_error and further starts."""
        try:
            with self._locked("store.lock"):
                now = self.read_plan()
                merged = _merged(now, plan)
                if merged.as_json() != now.as_json():
                    write_text(self._plan_path, json.dumps(merged.as_json(), indent=1) + "\n")
        except OSError as error:
            raise self.unwritable(error) from error

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Wait for a lock of the whole store."""
        handle = hold(open_regular(self.directory / name, os.O_RDWR | os.O_CREAT))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            release(handle)

    @property
    def _plan_path(self) -> Path:
        return self.directory / "store.json"

    def exists(self) -> bool:
        """Whether the directory holds a plan already."""
        return self._plan_path.exists()

    def plan(self) -> dict[str, Any]:
        """The content of `store.json`: the problem's description, the seed, the options, …"""
        try:
            plan = json_object(self._plan_path)
        except OSError as error:
            raise FileError(f"{self._plan_path} cannot be read: {error}") from error
        if plan.get("format") != FORMAT:
            raise FileError(f"{self._plan_path} is not a vbstack store")
        if plan.get("schema", SCHEMA) != SCHEMA:
            raise OtherSchema(
                f"{self._plan_path} has schema version {plan['schema']}, this vbstack reads "
                f"{SCHEMA}: use the version of vbstack that wrote it, or a newer one"
            )
        return {"engine": "pyvbmc", **plan}

    def read_plan(self) -> Plan:
        """The plan of this store."""
        content = self.plan()
        try:
            check_problem(content["problem"])
            return Plan.from_json(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FileError(
                f"{self._plan_path} is damaged: {type(error).__name__}: {error}"
            ) from error

    def path(self, index: int, kind: str) -> Path:
        return self.directory / f"run-{index:05d}.{kind}"

    def load(self, index: int) -> Run | None:
        """The finished run, or None; a FileError if its file is damaged, which stays as it is."""
        path = self.path(index, "npz")
        try:
            runs = load_runs(path, follow=False)
        except FileNotFoundError:
            return None
        if len(runs) != 1:
            raise FileError(f"{path} is damaged: it holds {len(runs)} runs, expected one")
        return runs[0]

    def runs(self) -> dict[int, Run]:
        """All finished runs by index; a damaged one is left out, with a warning (`DamagedFile`)."""
        found: dict[int, Run] = {}
        for index in self._indices("npz"):
            try:
                run = self.load(index)
            except OtherSchema:
                raise
            except FileError as error:
                warnings.warn(f"{error}; it is left out", DamagedFile, stacklevel=2)
                continue
            if run is not None:
                found[index] = run
        return found

    def usable_runs(self) -> dict[int, Run]:
        """All finished runs by index, for a launch: damaged ones are set aside."""
        found = {index: self.take_damaged_aside(index) for index in self._indices("npz")}
        return {index: run for index, run in found.items() if run is not None}

    def take_damaged_aside(self, index: int) -> Run | None:
        """The finished run, or None; a damaged file is renamed, with a line in `set_aside`.

        Only its content can make a file a damaged one: an error of the system (no permission, too
        many open files) is raised as it is.
        """
        try:
            return self.load(index)
        except OtherSchema:
            raise
        except FileError as error:
            path = self.path(index, "npz")
            aside = path.with_suffix(f".damaged-{time.time_ns()}")
            path.rename(aside)
            sync_directory(self.directory)
            self.set_aside.append(
                f"{error}; it was renamed {aside.name}, and the run is made again"
            )
            return None

    def tidy(self) -> int:
        """Remove the temporary files that killed writers left; returns how many there were."""
        return remove_abandoned(self.directory)

    def begun(self) -> list[int]:
        """The runs that have a journal, or evaluations known beforehand."""
        return self._indices("journal", "precomputed")

    def _indices(self, *kinds: str) -> list[int]:
        """The runs that have a file of one of these kinds; other names do not count."""
        found = set()
        for name in os.listdir(self.directory) if self.directory.exists() else ():
            match = _RUN_FILE.fullmatch(name)
            if match is not None and match[2] in kinds and f"{int(match[1]):05d}" == match[1]:
                found.add(int(match[1]))
        return sorted(found)

    def save(self, index: int, run: Run) -> None:
        """Keep a finished run; its journal and any record of failure go."""
        save_runs(self.path(index, "npz"), [run], overwrite=True)
        for kind in ("journal", "precomputed", "failed.json", "status.json"):
            self.path(index, kind).unlink(missing_ok=True)

    def save_failure(self, index: int, record: Mapping[str, Any]) -> None:
        """Note why a run failed; long texts are cut."""
        cut = {k: shortened(v, LONGEST) if isinstance(v, str) else v for k, v in record.items()}
        text = json.dumps({"host": _host(), "time": time.time(), **cut}, indent=1)
        write_text(self.path(index, "failed.json"), text + "\n")

    def failure(self, index: int) -> dict[str, Any] | None:
        """Why a run failed, or None; a FileError if the note of it is damaged."""
        path = self.path(index, "failed.json")
        try:
            record = json_object(path)
        except FileNotFoundError:
            return None
        for name in ("message", "host", "traceback"):
            if not isinstance(record.get(name, ""), str):
                raise FileError(f"{path} is damaged: {name} is not a text")
        return record

    def journal(self, index: int) -> Journal:
        """The run's journal, open for writing; close it."""
        return Journal(self.path(index, "journal"))

    def journalled(self, index: int) -> dict[int, Evaluation]:
        """The evaluations of a run that is not finished by their places, damaged ones left out."""
        return read_journal(self.path(index, "journal")).evaluations

    def begin_afresh(self) -> Path | None:
        """Move everything into a folder of its own, so that a new plan can be made here.

        Returns the folder, or None if there was nothing. An error if a run is under way.
        """
        if not self.exists():
            return None
        running = [state.index for state in self.states() if state.state == "running"]
        if running:
            raise StoreMismatch(
                f"runs {running} of {self.directory} are under way: stop them before fresh=True "
                "sets them aside"
            )
        folder = self.directory / f"set-aside-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        try:
            with self._locked("store.lock"):
                folder.mkdir()
                self._plan_path.rename(
                    folder / "store.json"
                )  # first: without it nothing is a store
                for kind in ("run-*", "posterior.npz", "verification.*"):
                    for path in self.directory.glob(kind):
                        path.rename(folder / path.name)
        except OSError as error:
            raise self.unwritable(error) from error
        return folder

    def precomputed(self, index: int) -> list[Evaluation]:
        """Evaluations of an earlier attempt that could not be replayed."""
        content = read_journal(self.path(index, "precomputed"))
        return [content.evaluations[place] for place in sorted(content.evaluations)]

    def give_up_replay(self, index: int) -> list[Evaluation]:
        """Turn the run's journal into evaluations known beforehand, and begin a new one."""
        path = self.path(index, "journal")
        with Journal(self.path(index, "precomputed")) as kept, Journal(path) as journal:
            already = set(kept.evaluations)  # by an attempt that was killed here
            for evaluation in journal.evaluations:
                if evaluation not in already:
                    kept.append(evaluation)
        path.unlink(missing_ok=True)
        return kept.evaluations

    @contextmanager
    def claim(self, index: int) -> Iterator[bool]:
        """True while this process alone works on the run; False when another one does."""
        handle = hold(open_regular(self.path(index, "lock"), os.O_RDWR | os.O_CREAT))
        try:
            yield _locked(handle, fcntl.LOCK_EX)
        finally:
            release(handle)

    def _claimed(self, index: int) -> bool:
        """Whether a process works on the run; asking needs no right to write."""
        try:
            handle = hold(open_regular(self.path(index, "lock"), os.O_RDONLY))
        except FileNotFoundError:
            return False
        try:
            return not _locked(handle, fcntl.LOCK_SH)
        finally:
            release(handle)

    def check_writable(self) -> None:
        """An error that says what to do if nothing can be written here."""
        try:
            with tempfile.TemporaryFile(dir=self.directory) as file:
                file.write(b"vbstack")
        except OSError as error:
            raise self.unwritable(error) from error

    def unwritable(self, error: OSError) -> OSError:
        """The error to show when a file of the store could not be written."""
        if isinstance(error, (NotARegularFile, TooLarge)):
            return error
        return OSError(
            f"the store {self.directory} cannot be written ({error.strerror or error}): free some "
            "space, change its permissions, or use another directory"
        )

    def state(self, index: int) -> RunState:
        """What is known of a run without disturbing it."""
        journal = self.path(index, "journal")
        try:
            run = self.load(index)
        except FileError as error:
            return RunState(index, "damaged", 0, message=str(error))
        if run is not None:
            made = 0 if run.evaluations is None else run.evaluations.paid
            return RunState(
                index, "finished", made, 0, run.elbo, run.elbo_sd, run.seconds,
                printable(run.versions.get("host", "")),
                "" if run.converged else "did not converge",
            )  # fmt: skip
        try:
            count = read_regular(journal).count(b"\n")
        except FileNotFoundError:
            count = 0
        if self._claimed(index):
            return RunState(index, "running", count, **self._notes(index))
        try:
            failure = self.failure(index)
        except FileError as error:
            return RunState(index, "failed", count, message=str(error))
        if failure is not None:
            message, host = printable(failure.get("message", "")), failure.get("host", "")
            return RunState(index, "failed", count, host=printable(host), message=message)
        return RunState(index, "interrupted" if count else "waiting", count)

    def note(self, index: int, iteration: int, elbo: float | None, seconds: float) -> None:
        """Leave a note of a running run's progress for whoever looks."""
        notes = {"iteration": iteration, "elbo": elbo, "seconds": seconds}
        text = json.dumps({**notes, "host": _host()})
        write_text(self.path(index, "status.json"), text, durable=False)

    def _notes(self, index: int) -> dict[str, Any]:
        """The last note of a running run; a damaged one says nothing, the next replaces it."""
        path = self.path(index, "status.json")
        try:
            return checked_notes(path, json_object(path))
        except (FileNotFoundError, FileError):
            return {}

    def states(self) -> list[RunState]:
        """The state of every run that has left a trace."""
        return [self.state(index) for index in self._indices(*_KINDS)]


def _merged(found: Plan, plan: Plan) -> Plan:
    """The plan, with the longer list of given starts, and defaults for what was not recorded."""
    starts = "uniform" if plan.starts is None else plan.starts
    if isinstance(found.starts, tuple) and len(found.starts) > len(starts):
        starts = found.starts
    return replace(plan, starts=starts, on_error=plan.on_error or "fail_run")


def _host() -> str:
    return socket.gethostname()


def _locked(handle: int, kind: int) -> bool:
    """Whether the lock could be had; a moment's patience for somebody who only looks."""
    for _ in range(5):
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False
