"""A store that two users share, and one that is only read.

As root every command runs in a process of its own that becomes another, unprivileged user; all of
them are in one group and have the umask 002. Anybody else can only be themselves: there the modes
of the files are compared instead.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vbstack import load_runs

ROOT = os.geteuid() == 0
MAKER, READER, GROUP = 41001, 41002, 41000
MODEL = """
from vbstack import Problem

problem = Problem(
    log_density=lambda x: float(-0.5 * x @ x - 1.84),
    plausible_lower_bounds=[-2.0, -2.0],
    plausible_upper_bounds=[2.0, 2.0],
)
"""
# Whoever runs the tests imports everything, by using it once: the other users may have no access to
# the interpreter. Each command is a fork of that process.
SERVER = """
import json, os, sys, tempfile
from pathlib import Path
from vbstack.cli.commands import app

def obeyed(words):
    try:
        return app(words, standalone_mode=False) or 0
    except BaseException as error:
        return getattr(error, "exit_code", getattr(error, "code", 1))

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    Path("model.py").write_text(os.environ["MODEL"])
    fit = ["fit", "model.py:problem", "--out", "s", "--runs", "2", "--engine", "native"]
    fit += ["--executor", "here", "--quiet"]
    for words in (fit, ["report", "s"], ["compare", "s", "s/posterior.npz"], ["status", "s"]):
        assert obeyed(words) == 0, words
    os.chdir("/")
print("ready", file=sys.__stdout__, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        sys.stdout, sys.stderr = open(asked["out"], "w"), open(asked["err"], "w")
        if asked["ids"]:
            os.setgroups([])
            os.setgid(asked["ids"][1])
            os.setuid(asked["ids"][0])
        os.umask(0o002)
        os.chdir(asked["home"])
        code = obeyed(asked["words"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=sys.__stdout__, flush=True)
"""


@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MODEL": MODEL},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.stdin.close()
    process.stdout.close()
    process.wait()


class Place:
    """A directory in which everybody of the group may write, and commands by its users."""

    def __init__(self, server, path):
        self.server, self.path, self.store = server, path, path / "store"

    def home(self, user, group=GROUP):
        """A directory of this user's own."""
        own = self.path / f"home-{user}"
        if not own.exists():
            own.mkdir()
            if ROOT:
                os.chown(own, user, group)
        return own

    def vbstack(self, user, *words, group=GROUP, fails=False):
        """What the command prints when this user gives it; its errors if it has to fail."""
        out, err = self.path / "stdout", self.path / "stderr"
        asked: dict[str, Any] = {"words": list(map(str, words))}
        asked |= {"out": str(out), "err": str(err)}
        asked |= {"ids": [user, group] if ROOT else None, "home": str(self.home(user, group))}
        self.server.stdin.write(json.dumps(asked) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        assert (code != 0) == fails, err.read_text()
        return (err if fails else out).read_text()

    def fit(self, user, n_runs):
        said = self.vbstack(
            *(user, "fit", self.path / "model.py:problem", "--out", self.store, "--runs", n_runs),
            *("--engine", "native", "--executor", "here", "--seed", 3, "--quiet", "--json"),
            *("--verify", "no"),
        )
        return json.loads(said)

    def states(self, user):
        return json.loads(self.vbstack(user, "status", self.store, "--json"))


@pytest.fixture
def place(server):
    path = Path(tempfile.mkdtemp(prefix="vbstack-shared-"))
    if ROOT:
        os.chown(path, MAKER, GROUP)
    path.chmod(0o2775)
    (path / "model.py").write_text(MODEL)
    (path / "model.py").chmod(0o644)
    yield Place(server, path)
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    shutil.rmtree(path)


def everything(directory):
    """Every name below a directory with its mode, owner, time and content."""
    found = {}
    for path in sorted(directory.rglob("*")):
        s = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (s.st_mode, s.st_uid, s.st_gid, s.st_mtime_ns, s.st_ctime_ns, content)
    s = directory.stat()
    return found, (s.st_mode, s.st_mtime_ns, s.st_ctime_ns)


def test_two_users_make_runs_in_turn_and_read_each_others(place):
    first = place.fit(MAKER, 2)
    store = place.store
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.iterdir()} == {0o664}
    before = everything(store)
    assert [state["state"] for state in place.states(READER)] == ["finished", "finished"]
    place.vbstack(READER, "report", store, "--out", place.home(READER) / "report.html")
    assert everything(store) == before
    second = place.fit(READER, 3)
    assert len(second["run_weights"]) == 3
    assert json.loads(place.vbstack(MAKER, "stack", store, "--json")) == second
    assert place.fit(MAKER, 2)["evidence"] == first["evidence"]
    if ROOT:
        owners = {path.name: path.stat().st_uid for path in store.glob("run-*.npz")}
        assert owners["run-00000.npz"] == MAKER
        assert owners["run-00002.npz"] == READER


def test_one_user_goes_on_with_a_run_that_the_other_began(place):
    place.fit(MAKER, 2)
    whole = load_runs(place.store / "run-00001.npz")[0]
    (place.store / "run-00001.npz").unlink()
    killed = MODEL.replace("lambda x: float(-0.5 * x @ x - 1.84)", "log_density").replace(
        "problem =",
        "import os\ncalls = []\n\n\ndef log_density(x):\n    calls.append(0)\n"
        "    if len(calls) == 12:\n        os.kill(os.getpid(), 9)\n"
        "    return float(-0.5 * x @ x - 1.84)\n\n\nproblem =",
    )
    (place.path / "killed.py").write_text(killed)
    words = ("--out", place.store, "--index", 1, "--trust-store")
    place.vbstack(MAKER, "run", place.path / "killed.py:problem", *words, fails=True)
    state = place.states(READER)[1]
    assert (state["state"], state["evaluations"]) == ("interrupted", 11)
    place.vbstack(READER, "run", place.path / "model.py:problem", *words)
    again = load_runs(place.store / "run-00001.npz")[0]
    assert again.elbo == whole.elbo
    assert again.evaluations is not None
    assert whole.evaluations is not None
    assert np.array_equal(again.evaluations.x, whole.evaluations.x)
    assert [state["state"] for state in place.states(MAKER)] == ["finished", "finished"]
    assert not list(place.store.glob("*.journal"))


def test_a_store_that_may_only_be_read_is_read_and_stays_as_it_is(place):
    place.fit(MAKER, 2)
    store, other = place.store, place.path / "other"
    (store / "run-00005.lock").touch()  # somebody works on further runs
    (store / "run-00006.failed.json").write_text("{}")
    shutil.copytree(store, other)
    (other / "posterior.npz").unlink()  # so that the reader has to stack
    for directory in (store, other):
        for path in directory.iterdir():
            path.chmod(0o444)
        directory.chmod(0o555)
    before = everything(store), everything(other)
    stranger = {"group": READER}  # in no group that the files know
    assert "finished" in place.vbstack(READER, "status", store, **stranger)
    report = place.home(READER) / "report.html"
    place.vbstack(READER, "report", store, "--out", report, **stranger)
    assert report.stat().st_size > 10_000
    assert "other" in place.vbstack(READER, "compare", store, other, **stranger)
    place.vbstack(READER, "compare", store / "posterior.npz", other, "--json", **stranger)
    for command in ("report", "stack"):  # these would write
        assert "Permission denied" in place.vbstack(READER, command, store, fails=True, **stranger)
    assert (everything(store), everything(other)) == before


def test_a_run_that_may_not_be_read_is_named_and_not_damaged(place):
    place.fit(MAKER, 2)
    path = place.store / "run-00000.npz"
    path.chmod(0)
    names = sorted(os.listdir(place.store))
    for words in (["status"], ["report", "--out", place.home(READER) / "r.html"], ["stack"]):
        said = place.vbstack(READER, words[0], place.store, *words[1:], fails=True)
        assert "Permission denied" in said
        assert "run-00000.npz" in said
    assert sorted(os.listdir(place.store)) == names
