"""A real headless Chromium, or a clear reason why there is none."""

import os
import shutil
from pathlib import Path

import pytest

REQUIRED = os.environ.get("VBSTACK_REQUIRE_BROWSER") == "1"


def missing(reason):
    if REQUIRED:
        pytest.fail(f"VBSTACK_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


def executable(playwright):
    """The system's Chromium or playwright's own, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install 'vbstack[browser]')")
    with sync_playwright() as playwright:
        path = executable(playwright)
        if path is None:
            missing("no Chromium was found (apt-get install chromium)")
        # Containers often run as root, where Chromium has no sandbox of its own.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
