"""Journals, the recorder's replay, and the store, without any VBMC run."""

import multiprocessing
import os

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import EvaluationError, Problem, RunStore, StoreMismatch
from vbstack.engines.recorder import Recorder, ReplayMismatch
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal


def problem(log_density=lambda x: float(-np.sum(x**2)), **details):
    box = {"plausible_lower_bounds": [-1.0], "plausible_upper_bounds": [1.0]}
    return Problem(log_density=log_density, **{**box, **details})


def test_a_journal_comes_back_exactly_and_cuts_a_torn_line(tmp_path):
    path = tmp_path / "run.journal"
    journal = Journal(path)
    entries = [
        Evaluation((0.1 + 0.2, 1e-300), -1 / 3, None, 0.5),
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
    assert values[3] < -1000
    assert floor.floored[0].failure == "log_density raised RuntimeError: simulator crashed"
    many = Recorder(problem(failing({1, 4, 7})), 1, Journal(), "floor")
    with pytest.raises(EvaluationError, match="3 of 10 evaluations failed"):
        [many(x) for _ in range(12)]
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


def test_a_store_records_its_starts_and_takes_more_of_them(tmp_path):
    store = RunStore(tmp_path)
    store.open(problem(), seed=1, starts=((0.1,), (0.2,)))
    with pytest.raises(StoreMismatch, match="starts"):
        store.open(problem(), starts="sobol")
    with pytest.raises(StoreMismatch, match="starts"):
        store.open(problem(), starts=((0.3,),))
    assert store.open(problem(), starts=((0.1,),)).starts == ((0.1,), (0.2,))
    assert store.open(problem(), starts=((0.1,), (0.2,), (0.3,))).start(2) == [0.3]
    assert store.read_plan().start(1) == [0.2]
    with pytest.raises(ValueError, match="3 starting points, none for run 3"):
        store.read_plan().start(3)


def test_what_is_done_about_failures_may_change_from_launch_to_launch(tmp_path):
    store = RunStore(tmp_path)
    assert store.open(problem(), seed=1).on_error == "fail_run"
    assert store.open(problem(), on_error="floor").on_error == "floor"
    assert store.open(problem()).on_error == "floor"


def test_runs_come_back_and_a_damaged_file_is_set_aside(tmp_path):
    store = RunStore(tmp_path)
    run = random_run(np.random.default_rng(0), 2)
    store.journal(3).append(Evaluation((1.0,), 1.0, None, 0.1))
    assert store.state(3).state == "interrupted"
    store.save(3, run)
    assert not store.path(3, "journal").exists()
    np.testing.assert_array_equal(store.runs()[3].means, run.means)
    assert store.state(3).state == "finished"
    path = store.path(3, "npz")
    path.write_bytes(path.read_bytes()[:100])
    assert store.runs() == {}
    assert store.state(3).state == "waiting"
    (aside,) = tmp_path.glob("*.damaged-*")
    assert "damaged" in store.set_aside[0]
    assert aside.name in store.set_aside[0]


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
