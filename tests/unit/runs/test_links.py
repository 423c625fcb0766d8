"""Links, FIFOs and devices in the place of a store's files: never read or written through."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import Problem, RunStore, StackedPosterior, launch, load_runs, stack
from vbstack.assembly import posterior_of
from vbstack.output.report import store_report
from vbstack.problem import Evaluation
from vbstack.runs import atomic
from vbstack.runs.atomic import create_text, replacing
from vbstack.runs.files import FileError


def problem():
    return Problem(
        log_density=lambda x: float(-0.5 * x[0] ** 2),
        plausible_lower_bounds=[-1.0],
        plausible_upper_bounds=[1.0],
    )


@pytest.fixture
def store(tmp_path):
    store = RunStore(tmp_path / "store")
    store.open(problem(), seed=1)
    for index in range(2):
        store.save(index, random_run(np.random.default_rng(index), 1))
    posterior = stack(list(store.runs().values()), max_draws=8, final_draws=8)
    posterior.save(store.directory / "posterior.npz")
    return store


@pytest.fixture
def victim(tmp_path):
    """A file elsewhere that must stay as it is."""
    path = tmp_path / "victim"
    path.write_bytes(b"precious\n")
    yield path
    assert path.read_bytes() == b"precious\n"


KINDS = ["link", "dangling link", "fifo", "device", "directory"]


def put(kind, path, victim):
    """Put this in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(victim.parent / "nowhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif os.geteuid() != 0:
        path.symlink_to("/dev/zero")  # an ordinary user can make no device
    else:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


# Every file that is read, and what reads it.
READERS = {
    "store.json": [RunStore.plan, RunStore.read_plan, lambda s: s.open(problem())],
    "run-00000.npz": [RunStore.runs, RunStore.states, RunStore.usable_runs, posterior_of],
    "run-00005.journal": [RunStore.states, lambda s: s.journalled(5), lambda s: s.journal(5)],
    "run-00005.precomputed": [lambda s: s.precomputed(5)],
    "run-00005.lock": [RunStore.states, lambda s: s.claim(5).__enter__()],
    "run-00005.failed.json": [RunStore.states, lambda s: s.failure(5)],
    "posterior.npz": [posterior_of, lambda s: store_report(s.directory)],
    "store.lock": [lambda s: s.record(s.read_plan())],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_regular_file_is_refused_by_name_and_at_once(store, victim, name, kind):
    path = store.directory / name
    put(kind, path, victim)
    for act in READERS[name]:
        with pytest.raises((OSError, FileError), match=name):
            act(store)
    assert not (victim.parent / "nowhere").exists()


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_note_of_a_running_run_that_is_a_link_is_refused(store, victim, kind):
    put(kind, store.path(5, "status.json"), victim)
    with store.claim(5), pytest.raises(OSError, match="regular files only"):
        store.state(5)


def writers(store):
    """Every file that is written, and what writes it."""
    directory, run = store.directory, random_run(np.random.default_rng(0), 1)
    posterior = stack([run], max_draws=8, final_draws=8)
    return {
        "run-00005.npz": lambda: store.save(5, run),
        "run-00005.failed.json": lambda: store.save_failure(5, {"message": "why"}),
        "run-00005.status.json": lambda: store.note(5, 1, None, 1.0),
        "posterior.npz": lambda: posterior.save(directory / "posterior.npz", overwrite=True),
        "report.html": lambda: store_report(directory, overwrite=True),
        "draws.csv": lambda: posterior.to_csv(directory / "draws.csv", 2, overwrite=True),
        "run-00005.journal.damaged-1": lambda: damaged_journal(store).close(),
    }


def damaged_journal(store):
    """The journal of a run, opened again after a line of it was damaged."""
    with store.journal(5) as journal:
        journal.append(Evaluation((0.0,), -1.0, None, 0.0))
    path = store.path(5, "journal")
    path.write_bytes(path.read_bytes().replace(b"-1.0", b"-2.0"))
    return store.journal(5)


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize(
    "name",
    [
        *("run-00005.npz", "run-00005.failed.json", "run-00005.status.json", "posterior.npz"),
        *("report.html", "draws.csv", "run-00005.journal.damaged-1"),
    ],
)
def test_writing_replaces_a_link_or_goes_beside_it(store, victim, name, kind):
    path, write = store.directory / name, writers(store)[name]
    put(kind, path, victim)
    write()
    replaced = stat.S_ISREG(path.lstat().st_mode)
    assert replaced == ("damaged-1" not in name)
    assert not (victim.parent / "nowhere").exists()


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_link_counts_as_a_file_that_exists(store, victim, kind):
    posterior = stack(list(store.runs().values()), max_draws=8, final_draws=8)
    for name, write in (
        ("report.html", lambda p: store_report(store.directory)),
        ("p.npz", posterior.save),
        ("d.csv", lambda p: posterior.to_csv(p, 2)),
    ):
        put(kind, store.directory / name, victim)
        with pytest.raises(FileExistsError, match=name):
            write(store.directory / name)
        assert (store.directory / name).is_symlink()
    put(kind, store.directory / "new.json", victim)
    create_text(store.directory / "new.json", "text")  # another process was first
    assert (store.directory / "new.json").is_symlink()


def test_a_link_put_in_place_of_a_temporary_file_is_not_written_through(store, victim):
    target = store.directory / "posterior.npz"
    with replacing(target, overwrite=True) as file:
        temporary = Path(file.name)
        temporary.unlink()
        temporary.symlink_to(victim)
        file.write(b"content")
    assert target.is_symlink()  # and no reader of the store follows it


@pytest.mark.parametrize("name", ["run-00001.journal", "run-00001.lock", "store.lock"])
def test_a_launch_never_writes_through_a_link(tmp_path, victim, name):
    def launched(n_runs):
        return launch(
            problem(),
            n_runs,
            store=tmp_path / "made",
            seed=1,
            executor="here",
            engine="native",
            options={"max_fun_evals": 12},
            progress=False,
        )

    launched(1)
    (tmp_path / "made" / "store.lock").unlink(missing_ok=True)
    put("link", tmp_path / "made" / name, victim)
    if name == "run-00001.lock":
        with pytest.warns(RuntimeWarning, match="regular files only.*run-00001.lock"):
            assert len(launched(2)) == 1
    else:
        with pytest.raises(OSError, match=f"regular files only.*{name}"):
            launched(2)


def test_what_is_set_aside_is_moved_as_it_is(store, victim):
    put("link", store.path(3, "npz"), victim)
    put("link", store.directory / "posterior.npz", victim)
    store.path(3, "npz").rename(store.directory / "run-00003.damaged-7")
    folder = store.begin_afresh()
    assert (folder / "posterior.npz").is_symlink()
    assert (folder / "run-00003.damaged-7").is_symlink()


def test_links_among_abandoned_temporaries_are_left_alone(store, victim):
    name = atomic._temporary_for(store.path(4, "npz")).name.replace(f"-{os.getpid()}-", "-4194304-")
    (store.directory / name).symlink_to(victim)
    assert store.tidy() == 0
    assert (store.directory / name).is_symlink()


def test_a_path_that_the_caller_names_may_be_a_link(store, tmp_path):
    """Reading follows it; writing replaces it, if it may be overwritten."""
    link, saved = tmp_path / "link.npz", store.directory / "posterior.npz"
    link.symlink_to(store.path(0, "npz"))
    assert len(load_runs(link)) == 1
    link.unlink()
    link.symlink_to(saved)
    posterior = StackedPosterior.load(link)
    before = saved.read_bytes()
    posterior.save(link, overwrite=True)
    assert not link.is_symlink()
    assert saved.read_bytes() == before
    directory = tmp_path / "named"
    directory.symlink_to(store.directory)
    assert len(RunStore(directory).runs()) == 2


def test_a_fifo_that_the_caller_names_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.npz")
    for load in (load_runs, StackedPosterior.load):
        with pytest.raises(OSError, match="regular files only"):
            load(tmp_path / "fifo.npz")
