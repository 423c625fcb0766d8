"""The default number of workers: what this process is bound to, and what control groups allow."""

import os

import pytest

from vbstack.launching.cores import available_cores


def files(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def sixteen(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)


def test_without_control_groups_the_cores_that_the_process_is_bound_to(tmp_path, sixteen):
    assert available_cores(tmp_path) == 16


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_that_is_bound_to_one_core_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"}, 3),
        ({"sys/fs/cgroup/a/cpu.max": "200000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),  # in a container
        ({"sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 16),
        ({"sys/fs/cgroup/a/b/cpu.max": "nonsense"}, 16),
    ],
)
def test_version_2(tmp_path, sixteen, contents, expected):
    assert (
        available_cores(files(tmp_path, {"proc/self/cgroup": "0::/a/b\n", **contents})) == expected
    )


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", 16), ("30000", 1)])
def test_version_1(tmp_path, sixteen, quota, expected):
    folder = "sys/fs/cgroup/cpu,cpuacct/job"
    contents = {
        "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/job\n",
        f"{folder}/cpu.cfs_quota_us": quota,
        f"{folder}/cpu.cfs_period_us": "100000",
    }
    assert available_cores(files(tmp_path, contents)) == expected
