"""Damaged journals: every good line counts, no value changes silently, readers change nothing."""

import json
import os
import signal
import time

import numpy as np
import pytest

from vbstack import Problem, RunStore
from vbstack.engines.recorder import Recorder
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal, read_journal

POINTS = [np.array([0.1 * n, -0.2]) for n in range(6)]


def problem(calls=None):
    def density(x, rng):
        if calls is not None:
            calls.append(x.tolist())
        return float(-np.sum(x**2) + rng.standard_normal())

    return Problem(
        log_density=density, plausible_lower_bounds=[-1, -1], plausible_upper_bounds=[1, 1]
    )


@pytest.fixture
def path(tmp_path):
    """A journal of six evaluations."""
    path = tmp_path / "run-00000.journal"
    with Journal(path) as journal:
        recorder = Recorder(problem(), 7, journal)
        for x in POINTS:
            recorder(x)
    return path


def spoil(path, number, old, new):
    """Change one line of a journal."""
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new, 1)
    path.write_bytes(b"".join(lines))


def test_a_damaged_line_is_kept_aside_made_again_and_the_others_count(path):
    before = read_journal(path).evaluations
    spoil(path, 2, b'"value": -', b'"value": ')
    damaged_line = path.read_bytes().splitlines()[2]
    for expected_calls in ([POINTS[2].tolist()], []):
        calls: list[list[float]] = []
        with Journal(path) as journal:
            recorder = Recorder(problem(calls), 7, journal)
            made = [recorder(x) for x in POINTS]
            assert recorder.replayed == 6 - len(expected_calls)
            assert len(journal.damaged) == len(expected_calls)
        assert calls == expected_calls
        assert [(e.x, e.value) for e in made] == [(e.x, e.value) for e in before.values()]
    (aside,) = path.parent.glob("*.damaged-1")
    assert aside.read_bytes() == damaged_line + b"\n"
    assert list(read_journal(path).evaluations) == [0, 1, 3, 4, 5, 2]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value", float("nan")),
        ("value", float("inf")),
        ("value", "1.0"),
        ("value", None),
        ("value", True),
        ("value", 10**400),
        ("sd", 0.0),
        ("sd", -1.0),
        ("sd", 0.5),  # none of the others has one
        ("seconds", -1.0),
        ("seconds", float("nan")),
        ("error", 5),
        ("x", [1.0]),
        ("x", [1.0, 2.0, 3.0]),
        ("x", [1.0, float("nan")]),
        ("x", "ab"),
        ("x", {"a": 1}),
        ("more", 1),
    ],
)
def test_lines_of_0_1_0_are_read_with_the_same_checks(tmp_path, field, value):
    path = tmp_path / "j"
    good = {"x": [0.5, 1.0], "value": -1.0, "sd": None, "seconds": 0.1, "error": ""}
    lines = [good, {**good, field: value}, {**good, "value": float("-inf")}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    content = read_journal(path)
    assert {place: e.value for place, e in content.evaluations.items()} == {0: -1.0, 2: -np.inf}
    assert len(content.damaged) == 1
    with Journal(path) as journal:
        assert list(journal.by_place) == [0, 2]
    assert read_journal(path) == type(content)(content.evaluations, size=path.stat().st_size)


def test_no_flipped_bit_changes_a_value_silently(path, tmp_path):
    whole, before = path.read_bytes(), read_journal(path).evaluations
    changed = tmp_path / "changed"
    for bit in np.random.default_rng(0).choice(8 * len(whole), 500, replace=False):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << (bit % 8)
        changed.write_bytes(content)
        found = read_journal(changed)
        assert found.evaluations.items() <= before.items()
        assert found.damaged or found.torn


def test_reading_changes_nothing(path):
    spoil(path, 1, b"value", b"valve")
    with path.open("ab") as file:
        file.write(b'{"torn')
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    read_journal(path)
    read_journal(path.parent / "missing")
    store = RunStore(path.parent)
    store.states(), store.precomputed(0), store.runs()
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before


def test_a_journal_is_never_opened_through_a_link(path):
    target, link = path.parent / "elsewhere", path.parent / "run-00001.journal"
    target.write_text("precious")
    link.symlink_to(target)
    for act in (Journal, read_journal):
        with pytest.raises(OSError, match="regular files only.*run-00001.journal"):
            act(link)
    assert target.read_text() == "precious"


def test_a_child_that_the_model_forks_holds_neither_lock_nor_journal(tmp_path):
    store = RunStore(tmp_path)
    reads, writes = os.pipe()
    holder = os.fork()
    if holder == 0:  # the process of a run, whose log density forks a child; then it is killed
        with store.claim(0), store.journal(0):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            os.write(writes, f"{child}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
    child = int(os.read(reads, 100))
    os.waitpid(holder, 0)
    try:
        time.sleep(0.2)  # until the child has closed what it inherited
        opened = [os.readlink(f"/proc/{child}/fd/{n}") for n in os.listdir(f"/proc/{child}/fd")]
        assert not [name for name in opened if str(tmp_path) in name]
        with store.claim(0) as mine:
            assert mine
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reads)
        os.close(writes)


def test_a_parent_keeps_its_lock_when_its_child_ends(tmp_path):
    store = RunStore(tmp_path)
    with store.claim(0) as mine:
        assert mine
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with store.claim(0) as again:
            assert not again


def test_appending_to_the_last_place_follows_gaps(tmp_path):
    journal = Journal()
    journal.append(Evaluation((1.0,), 1.0, None, 0.1), 4)
    journal.append(Evaluation((2.0,), 1.0, None, 0.1))
    assert list(journal.by_place) == [4, 5]


def test_line_ends_of_another_system_are_no_damage(path):
    before = read_journal(path).evaluations
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    content = read_journal(path)
    assert content.evaluations == before
    assert not content.damaged


def test_a_kill_while_replay_is_given_up_doubles_nothing(path):
    store, whole = RunStore(path.parent), path.read_bytes()
    assert len(store.give_up_replay(0)) == 6
    path.write_bytes(whole)  # as if it had been killed before the journal was removed
    assert len(store.give_up_replay(0)) == 6
