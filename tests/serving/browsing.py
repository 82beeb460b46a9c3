"""A browser for the page, and a service for it in this process.

Needs Chromium; RANKWRIGHT_CHROMIUM may name the program. Without it the tests are skipped, but never in CI.
"""

import os
import shutil
import threading
from contextlib import contextmanager

import pytest

from rankwright.serving.app import make_app
from rankwright.serving.server import bind, serve

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = os.environ.get("RANKWRIGHT_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium on the path; RANKWRIGHT_CHROMIUM names one"
)


@contextmanager
def running(service, limits=None):
    """Serve in a thread; the value is the address."""
    at, ready = [], threading.Event()

    def say(address):
        at.append(address)
        ready.set()

    with bind("127.0.0.1", 0) as bound:
        stop = threading.Event()
        settings = {"ready": say, "seconds": 5.0, "stop": stop}
        thread = threading.Thread(
            target=serve, args=(make_app(service, limits), service, bound, lambda event: None), kwargs=settings
        )
        thread.start()
        assert ready.wait(60)
        yield at[0]
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
