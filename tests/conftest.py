"""Being here puts this folder on the path: tests of every folder can import the helpers in it."""

import pytest
from hypothesis import settings

from in_browser import CHROMIUM

settings.register_profile("no deadline", deadline=None)  # no test asserts a time
settings.load_profile("no deadline")


@pytest.fixture(scope="module")
def browser():
    """Chromium, one for all tests of a file."""
    from playwright import sync_api

    assert CHROMIUM is not None, "CI must install Chromium"
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
