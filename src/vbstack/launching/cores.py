"""`available_cores()`: how many processes can run at once here."""

from __future__ import annotations

import math
import os
from pathlib import Path


def available_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: those it is bound to, and what its control groups allow.

    `root` is where /proc and /sys are.
    """
    try:
        bound = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        bound = os.cpu_count() or 1
    return max(1, math.ceil(min(bound, _allowed(root))))


def _allowed(root: Path) -> float:
    """CPUs that the control groups of this process (version 1 or 2) allow; infinite if all."""
    limits = [math.inf]
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = Path(path.lstrip("/"))
        if not controllers:
            limits += [_quota(folder) for folder in _upwards(root / "sys/fs/cgroup", inside)]
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                folders = _upwards(root / "sys/fs/cgroup" / name, inside)
                limits += [_old_quota(folder) for folder in folders]
    return min(limits)


def _upwards(top: Path, inside: Path) -> list[Path]:
    """The folder of a group and those above it; in a container, whose groups begin at the top,
    at least that."""
    return [top, *(top / parent for parent in (inside, *inside.parents))]


def _quota(folder: Path) -> float:
    """Version 2: "quota period" or "max period"."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _old_quota(folder: Path) -> float:
    """Version 1: a quota of -1 is none."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
