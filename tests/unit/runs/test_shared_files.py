"""Stores and files that others can write in: links, FIFOs, hostile content, leftovers."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import FileError, Problem, RunStore, StackedPosterior, load_runs, save_runs, stack
from vbstack.checks import shortened
from vbstack.runs import atomic
from vbstack.runs.npz import read_arrays
from vbstack.runs.printable import LONGEST, printable

OLD = Path(__file__).parents[2] / "data" / "0.1.0"


def problem():
    return Problem(
        log_density=lambda x: -1.0, plausible_lower_bounds=[-1.0], plausible_upper_bounds=[1.0]
    )


@pytest.fixture
def store(tmp_path):
    store = RunStore(tmp_path / "store")
    store.open(problem(), seed=1)
    store.save(0, random_run(np.random.default_rng(0), 1))
    store.save(1, random_run(np.random.default_rng(1), 1))
    return store


def contents(store):
    return {p.name: p.read_bytes() for p in store.directory.iterdir()}


def look(store):
    """Everything that reads a store."""
    store.plan(), store.read_plan(), store.states()
    return store.runs()


def test_a_damaged_run_is_named_the_others_are_used_and_nothing_changes(store):
    store.path(0, "npz").write_bytes(b"damaged")
    before = contents(store)
    with pytest.warns(UserWarning, match="run-00000.npz is not .*; it is left out"):
        assert list(look(store)) == [1]
    assert [state.state for state in store.states()] == ["damaged", "finished"]
    assert contents(store) == before


@pytest.mark.parametrize("number", [13, 24])  # no permission, too many open files
def test_an_error_of_the_system_never_renames_a_run(store, monkeypatch, number):
    def refused(*_, **__):
        raise OSError(number, os.strerror(number), "run-00000.npz")

    monkeypatch.setattr("vbstack.runs.files.read_regular", refused)
    for act in (store.runs, store.usable_runs, lambda: store.take_damaged_aside(0)):
        with pytest.raises(OSError, match=os.strerror(number)):
            act()
    assert store.path(0, "npz").exists()
    assert store.set_aside == []


@pytest.mark.parametrize("name", ["run-00000 (copy).npz", "run-000001.npz", "run-0.npz", "run-x"])
def test_other_names_are_no_runs(store, name):
    (store.directory / name).write_bytes(store.path(0, "npz").read_bytes())
    assert list(look(store)) == [0, 1]
    assert len(store.states()) == 2


def test_a_zip_bomb_is_refused_without_taking_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("header.json.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(200):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="bytes claim to hold 200000000"):
            load_runs(path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "array",
    [np.array(["text"]), np.array([1 + 2j]), np.zeros(2, dtype="datetime64[s]"), np.zeros(2, "V4")],
)
def test_only_plain_numbers_are_read(array):
    buffer = io.BytesIO()
    np.savez(buffer, a=array)
    with pytest.raises(ValueError, match="does not hold plain numbers"):
        read_arrays(buffer.getvalue())


def test_arrays_come_back_as_numpy_reads_them():
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "e": np.zeros((0, 3)),
        "s": np.array(2.5, dtype=np.float32),
        "b": np.array([True, False]),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    for name, found in read_arrays(buffer.getvalue()).items():
        np.testing.assert_array_equal(found, arrays[name])
        assert found.dtype == arrays[name].dtype


def changed(path, **values):
    """The file with other values in its first run's header, or in its header."""
    arrays = dict(np.load(path))
    header = json.loads(bytes(arrays.pop("header.json")))
    for name, value in values.items():
        place = header["runs"][0] if name in header["runs"][0] else header
        *parents, last = name.split("__")
        for parent in parents:
            place = place[parent]
        place[last] = value
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content: dict[str, Any] = {"header.json": text, **arrays}
    np.savez(path, **content)
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("elbo", "1.5"), ("elbo", None), ("elbo", float("nan")), ("elbo_sd", -1.0)),
        *(("seed", 1.5), ("seed", "1"), ("names", [1]), ("names", "a"), ("versions", [])),
        *(("versions", {"numpy": 2}), ("engine", 3), ("floored", -1), ("floored", "x")),
        *(("seconds", -1.0), ("seconds", float("nan")), ("noise_level", 7), ("converged", 1)),
        *(("runs", {}), ("runs", [[]]), ("runs", 7)),
    ],
)
def test_a_header_of_other_types_is_refused(tmp_path, name, value):
    path = save_runs(tmp_path / "runs.npz", [random_run(np.random.default_rng(0), 1)])
    with pytest.raises(FileError, match="runs.npz"):
        load_runs(changed(path, **{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("kept", [0, 0]), ("kept", ["0"]), ("kept", 3), ("dropped", [{}]), ("sources", [1, 2])),
        *(("solution__lower", "1"), ("solution__draws", 1.5), ("solution__solver", "magic")),
        *(
            ("evidence__log_evidence", 5.0),
            ("evidence__raw", float("nan")),
            ("evidence__noisy", "no"),
            ("evidence__verified", 3.0),
            ("evidence__verified", {}),
        ),
        *(("evidence__naive", None), ("evidence__pooled", 1.0)),
        *(("evidence__sd", -1.0), ("evidence__method", "best")),
        *(
            ("settings__screen", 1),
            ("settings__tolerance", "x"),
            ("evidence__gap", 10**400),
            ("settings__seed", -1),
        ),
    ],
)
def test_a_posterior_of_other_types_or_inconsistent_is_refused(tmp_path, name, value):
    runs = [random_run(np.random.default_rng(n), 1) for n in range(2)]
    path = stack(runs, max_draws=8, final_draws=8).save(tmp_path / "posterior.npz")
    StackedPosterior.load(path)
    with pytest.raises(FileError, match="posterior.npz"):
        StackedPosterior.load(changed(path, **{name: value}))


def test_a_posterior_of_runs_with_different_bounds_is_refused(tmp_path):
    path = tmp_path / "posterior.npz"
    shutil.copy(OLD / "own.npz", path)
    StackedPosterior.load(path)
    content: dict[str, Any] = dict(np.load(path))
    content["0001/transform.upper"] = content["0001/transform.upper"] + [0.0, 1.0]
    np.savez(path, **content)
    with pytest.raises(FileError, match="posterior.npz .*only runs with the same hard bounds"):
        StackedPosterior.load(path)


@pytest.mark.parametrize("name", ["store.json", "run-00007.status.json", "run-00007.failed.json"])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b"{", b"[" * 100_000, b"\xff\xfe", b'{"message": 7, "host": []}']
)
def test_small_files_that_are_damaged_give_clear_errors_or_are_passed_over(store, name, content):
    (store.directory / name).write_bytes(content)
    if name == "store.json":
        with pytest.raises(FileError, match="store.json"):
            store.read_plan()
    elif "failed" in name:
        with pytest.raises(FileError, match="failed.json is damaged"):
            store.failure(7)
        assert store.state(7).state == "failed"
    else:
        with store.claim(7):
            assert store.state(7).iteration == 0


def test_long_reasons_are_cut_and_escapes_removed(store):
    store.save_failure(3, {"message": "\x1b[31mred\x07" + "x" * 5_000_000, "traceback": "t" * 9999})
    assert store.path(3, "failed.json").stat().st_size < 10_000
    message = store.state(3).message
    assert "\x1b" not in message
    assert "\x07" not in message
    assert len(message) < 2100
    assert "\x1b" not in str(FileError("\x1b]0;title\x07 of a file"))


def test_printable_text():
    assert printable("plain ± text") == "plain ± text"
    assert printable("a\x1b[2Jb\x9bc\u202ed\u200be\nf\tg") == "a[2Jbcde f g"
    assert printable("two\nlines", lines=True) == "two\nlines"
    assert len(shortened("a" * 5000, LONGEST)) < LONGEST + 50


def test_leftovers_of_dead_writers_are_removed_and_those_of_living_ones_stay(store):
    code = (
        "import os, sys; from pathlib import Path; from vbstack.runs.atomic import replacing\n"
        "with replacing(Path(sys.argv[1]), overwrite=True) as t:\n"
        "    t.write(b'half'); t.flush(); os.kill(os.getpid(), 9)"
    )
    target = store.path(4, "npz")
    subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert len(list(store.directory.glob(".run-00004.npz.*"))) == 1
    elsewhere = store.directory / ".run-00005.npz.00000000-1-00000000"
    old = store.directory / ".store.json.abcdefgh"  # by version 0.1.0
    mine = atomic._temporary_for(store.path(6, "npz"))
    other = store.directory / ".bashrc"
    for path in (elsewhere, old, mine, other):
        path.touch()
    assert store.tidy() == 1
    assert {elsewhere, old, mine, other} <= set(store.directory.iterdir())
    long_ago = time.time() - 100_000
    for path in (elsewhere, old, mine, other):
        os.utime(path, (long_ago, long_ago))
    assert store.tidy() == 3
    assert other.exists()


def test_a_dead_writer_that_nobody_reaped_is_dead():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert not atomic._alive(child)
    os.waitpid(child, 0)
    assert not atomic._alive(child)
    assert atomic._alive(os.getpid())


def test_descriptors_are_closed_when_runs_end(tmp_path):
    from vbstack import launch

    target = Problem(
        log_density=lambda x: float(-0.5 * x[0] ** 2),
        plausible_lower_bounds=[-1.0],
        plausible_upper_bounds=[1.0],
    )
    before = len(os.listdir("/proc/self/fd"))
    options = {"max_fun_evals": 12}
    settings = {"executor": "here", "engine": "native", "options": options, "progress": False}
    launch(target, 3, store=str(tmp_path), seed=1, **settings)  # type: ignore[arg-type]
    assert len(os.listdir("/proc/self/fd")) == before


def test_headers_of_a_csv_are_no_formulas(tmp_path):
    run = random_run(np.random.default_rng(0), 2)
    posterior = stack([run], max_draws=8, final_draws=8)
    for name, expected in (("=1+1", "'=1+1"), ("\t=1", "' =1"), ("a-b", "a-b"), ("@x", "'@x")):
        path = posterior.to_csv(tmp_path / "d.csv", 2, seed=0, names=[name, "b"], overwrite=True)
        assert Path(path).read_text().split(",")[0] == expected
