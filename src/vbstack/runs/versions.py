"""Versions of the libraries that a run depends on."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

PYVBMC_PACKAGES = ("pyvbmc", "gpyreg", "cma", "numpy", "scipy")
NATIVE_PACKAGES = ("vbstack", "numpy", "scipy")


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """The version of each package, or "not installed"."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def recorded_versions(packages: Sequence[str]) -> dict[str, str]:
    """What a run records: the versions, and the machine's name."""
    return {**installed_versions(packages), "host": socket.gethostname()}
