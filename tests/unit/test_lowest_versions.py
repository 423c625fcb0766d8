"""`make test-lowest` tests the lower bounds that pyproject.toml declares, and no others."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
USER_EXTRAS = ("arviz", "dask")  # the other extras are tools of the developers


def declared_lower_bounds() -> dict[str, Version]:
    """The `>=` of every dependency that a user can install, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    for extra in USER_EXTRAS:
        lines += project["optional-dependencies"][extra]
    bounds = {}
    for requirement in map(Requirement, lines):
        (bound,) = [s.version for s in requirement.specifier if s.operator == ">="]
        bounds[requirement.name] = Version(bound)
    return bounds


def pinned_versions() -> dict[str, Version]:
    """The `==` of every line of constraints-lowest.txt, by name."""
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name: Version(version) for name, version in pins}


def test_every_lower_bound_is_the_version_tested():
    declared, pinned = declared_lower_bounds(), pinned_versions()
    assert len(declared) > 12
    assert {name: pinned.get(name) for name in declared} == declared
