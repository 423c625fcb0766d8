"""What the system tests share."""

import pytest

from tests.system.test_launch import go


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """Two runs made in this process, never interrupted."""
    return go(tmp_path_factory.mktemp("here"), executor="here")
