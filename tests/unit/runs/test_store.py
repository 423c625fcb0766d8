"""Journals, the recorder's replay, and the store, without any VBMC run."""

import multiprocessing
import os
from dataclasses import replace

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import EvaluationError, Evaluations, FileError, Problem, RunStore, StoreMismatch
from vbstack.engines.recorder import Recorder, ReplayMismatch
from vbstack.problem import Evaluation
from vbstack.runs import files
from vbstack.runs.journal import Journal
from vbstack.runs.store import DamagedFile


def problem(log_density=lambda x: float(-np.sum(x**2)), **details):
    box = {"plausible_lower_bounds": [-1.0], "plausible_upper_bounds": [1.0]}
    return Problem(log_density=log_density, **{**box, **details})


def test_a_journal_comes_back_exactly_and_cuts_a_torn_line(tmp_path):
    path = tmp_path / "run.journal"
    journal = Journal(path)
    entries = [
        Evaluation((0.1 + 0.2, 1e-300), -1 / 3, 0.1, 0.5),
        Evaluation((np.pi, -0.0), 2.0, 0.7, 1.0),
    ]
    for entry in entries:
        journal.append(entry)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"x": [1.0, 2.0], "val')
    again = Journal(path)
    assert again.evaluations == entries
    assert again.dropped.startswith('{"x"')
    again.append(entries[0])
    again.close()
    assert Journal(path).evaluations == [*entries, entries[0]]


def test_replay_answers_from_the_journal_and_pays_nothing_twice(tmp_path):
    calls = []

    def density(x, rng):
        calls.append(x.tolist())
        return float(-(x[0] ** 2) + rng.standard_normal())

    points = [np.array([v]) for v in (0.1, 0.2, 0.3)]
    target = problem(density)
    first = Recorder(target, 7, Journal(tmp_path / "j"))
    values = [first(x) for x in points[:2]]
    second = Recorder(target, 7, Journal(tmp_path / "j"))
    values_again = [second(x) for x in points]
    assert values_again[:2] == values
    assert second.replayed == 2
    assert calls == [[0.1], [0.2], [0.3]]
    whole = Recorder(target, 7, Journal())
    assert [whole(x).value for x in points] == [one.value for one in values_again]


def test_another_point_than_the_journal_holds_is_a_mismatch(tmp_path):
    Recorder(problem(), 1, Journal(tmp_path / "j"))(np.array([0.5]))
    with pytest.raises(ReplayMismatch, match=r"is at \[0.5\], the run asks for \[0.25\]"):
        Recorder(problem(), 1, Journal(tmp_path / "j"))(np.array([0.25]))


def failing(bad):
    """Fails at every point whose place in the order is in `bad`."""
    calls = iter(range(10**6))

    def density(x):
        if next(calls) in bad:
            raise RuntimeError("simulator crashed")
        return -1.0

    return density


def test_failures_end_the_run_are_retried_or_floored():
    x = np.array([0.5])
    with pytest.raises(EvaluationError, match="simulator crashed"):
        Recorder(problem(failing({0})), 1, Journal())(x)
    assert Recorder(problem(failing({0, 1})), 1, Journal(), "retry")(x).value == -1.0
    with pytest.raises(EvaluationError, match="simulator crashed"):
        Recorder(problem(failing({0, 1, 2})), 1, Journal(), "retry")(x)
    floor = Recorder(problem(failing({3})), 1, Journal(), "floor")
    values = [floor(x).value for _ in range(12)]
    assert values[3] == -np.inf
    assert floor.floored[0].failure == "log_density raised RuntimeError: simulator crashed"
    many = Recorder(problem(failing(set(range(0, 40, 3)))), 1, Journal(), "floor")
    with pytest.raises(EvaluationError, match="10 of 30 evaluations failed, more than 20%"):
        [many(np.array([0.01 * n])) for n in range(40)]
    with pytest.raises(ValueError, match="on_error='ignore'"):
        Recorder(problem(), 1, Journal(), "ignore")  # type: ignore[arg-type]


def test_a_store_keeps_its_seed_and_refuses_another_problem(tmp_path):
    store = RunStore(tmp_path / "s")
    plan = store.open(problem())
    assert RunStore(tmp_path / "s").open(problem()) == plan
    assert RunStore(tmp_path / "s").open(problem(), seed=plan.seed) == plan
    assert store.read_plan() == plan
    other = problem(names=("rate",), noisy=True)
    with pytest.raises(StoreMismatch) as error:
        store.open(other)
    assert "names: ['x1'] in the store, ['rate'] asked for" in str(error.value)
    assert "noisy: False in the store, True asked for" in str(error.value)
    with pytest.raises(StoreMismatch, match="seed"):
        store.open(problem(), seed=plan.seed + 1)
    with pytest.raises(StoreMismatch, match="max_fun_evals"):
        store.open(problem(), options={"max_fun_evals": 10})


def recorded(store, **asked):
    store.record(store.open(problem(), **asked))
    return store.read_plan()


def test_a_store_records_its_starts_and_takes_more_of_them(tmp_path):
    store = RunStore(tmp_path)
    store.open(problem(), seed=1, starts=((0.1,), (0.2,)))
    with pytest.raises(StoreMismatch, match="starts"):
        store.open(problem(), starts="sobol")
    with pytest.raises(StoreMismatch, match="starts"):
        store.open(problem(), starts=((0.3,),))
    assert recorded(store, starts=((0.1,),)).starts == ((0.1,), (0.2,))
    assert recorded(store, starts=((0.1,), (0.2,), (0.3,))).start(2) == [0.3]
    with pytest.raises(ValueError, match="3 starting points, none for run 3"):
        store.read_plan().start(3)


def _record(directory, count):
    """Open and record a plan with this many starts, as one of several launchers."""
    points = tuple((0.01 * n,) for n in range(count))
    store = RunStore(directory)
    store.record(store.open(problem(), seed=1, starts=points))


def test_launchers_that_record_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_record, args=(tmp_path, n)) for n in range(1, 9)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    assert len(RunStore(tmp_path).read_plan().starts or ()) == 8


def test_what_is_done_about_failures_may_change_from_launch_to_launch(tmp_path):
    store = RunStore(tmp_path)
    assert recorded(store, seed=1).on_error == "fail_run"
    assert recorded(store, on_error="floor").on_error == "floor"
    assert store.open(problem()).on_error == "floor"


def test_opening_alone_writes_nothing_into_a_store_that_exists(tmp_path):
    store = RunStore(tmp_path)
    store.open(problem(), seed=1)
    before = (tmp_path / "store.json").read_bytes()
    store.open(problem(), on_error="retry")
    assert (tmp_path / "store.json").read_bytes() == before


def test_options_that_were_objects_have_to_be_given_again(tmp_path):
    store = RunStore(tmp_path)
    options = {"acquisition": print}
    assert store.open(problem(), options=options).options == options
    assert store.open(problem(), options=options).options == options
    with pytest.raises(StoreMismatch, match=r"options \['acquisition'\] that are objects"):
        store.open(problem())


def test_runs_come_back_and_a_launch_sets_a_damaged_file_aside(tmp_path):
    store = RunStore(tmp_path)
    run = random_run(np.random.default_rng(0), 2)
    with store.journal(3) as journal:
        journal.append(Evaluation((1.0,), 1.0, None, 0.1))
    assert store.state(3).state == "interrupted"
    store.save(3, run)
    assert not store.path(3, "journal").exists()
    np.testing.assert_array_equal(store.runs()[3].means, run.means)
    assert store.state(3).state == "finished"
    path = store.path(3, "npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(DamagedFile, match="run-00003.npz is not .* or is damaged"):
        assert store.runs() == {}
    assert store.state(3).state == "damaged"
    assert "run-00003.npz" in store.state(3).message
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert store.usable_runs() == {}
    assert store.state(3).state == "waiting"
    (aside,) = tmp_path.glob("*.damaged-*")
    assert "damaged" in store.set_aside[0]
    assert aside.name in store.set_aside[0]


def test_a_run_of_a_newer_version_is_refused_and_left_alone(tmp_path, monkeypatch):
    store = RunStore(tmp_path)
    store.open(problem(), seed=1)
    monkeypatch.setattr(files, "SCHEMA", 2)
    store.save(0, random_run(np.random.default_rng(0), 1))
    monkeypatch.undo()
    with pytest.raises(FileError, match="has schema version 2, this vbstack reads 1"):
        store.runs()
    assert store.path(0, "npz").exists()
    text = (tmp_path / "store.json").read_text()
    (tmp_path / "store.json").write_text(text.replace('"schema": 1', '"schema": 2'))
    with pytest.raises(FileError, match=r"store.json has schema version 2"):
        store.open(problem())


def test_version_0_1_0_finds_in_a_new_file_what_it_knows_and_nothing_else(tmp_path):
    """It takes every array whose name begins with the run's number."""
    run = random_run(np.random.default_rng(0), 1)
    made = [Evaluation((0.5,), -1.0, None, 0.1), Evaluation((0.6,), -2.0, None, 0.1, "failed")]
    run = replace(run, evaluations=Evaluations.of(made, noisy=False))
    arrays, _ = files.read_file(files.save_runs(tmp_path / "runs.npz", [run]), "runs")
    parts = {name for name in arrays if name.startswith("0000/evaluations")}
    assert parts == {"0000/evaluations.x", "0000/evaluations.values"}
    again = files.load_runs(tmp_path / "runs.npz")[0].evaluations
    assert again is not None
    assert again.failed is not None
    assert again.failed.tolist() == [False, True]


def _hold(directory, ready, release):
    with RunStore(directory).claim(0) as mine:
        ready.send(mine)
        release.recv()
        os._exit(1)  # dies without letting go


def test_a_claim_excludes_others_and_ends_with_its_process(tmp_path):
    context = multiprocessing.get_context("spawn")
    (here, there), (free, hold) = context.Pipe(), context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path, there, hold))
    process.start()
    assert here.recv() is True
    store = RunStore(tmp_path)
    with store.claim(0) as mine:
        assert not mine
    assert store.state(0).state == "running"
    free.send(None)
    process.join()
    with store.claim(0) as mine:
        assert mine


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
@pytest.mark.parametrize(
    "name",
    [
        "run-00000.npz",
        "run-00001.journal",
        "run-00001.lock",
        "store.json",
        "run-00001.status.json",
        "run-00001.failed.json",
    ],
)
def test_the_mode_of_every_file_is_the_one_that_the_umask_gives(tmp_path, name, mask):
    before = os.umask(mask)
    try:
        store = RunStore(tmp_path)
        store.open(problem(), seed=1)
        store.save(0, random_run(np.random.default_rng(0), 1))
        store.journal(1).close()
        store.note(1, 3, -1.0, 2.0)
        store.save_failure(1, {"message": "a reason"})
        with store.claim(1) as mine:
            assert mine
    finally:
        os.umask(before)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o666 & ~mask
