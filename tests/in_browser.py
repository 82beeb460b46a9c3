"""Tests in a real browser: where it is, and pages whose service is in trouble.

Needs Chromium; RANKWRIGHT_CHROMIUM may name the program. Without it the tests are skipped, but never in CI.
"""

import os
import shutil

import pytest

# The shell without windows takes a third of the CPU time, so it comes first.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = os.environ.get("RANKWRIGHT_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium on the path; RANKWRIGHT_CHROMIUM names one"
)
# What stands for a service in trouble. Requests stopped on their way (Playwright's routes) now and then got through.
NO_ANSWER = "() => { window.asked ??= window.fetch; window.fetch = () => Promise.reject(new TypeError('no')); }"
BUSY = """() => {
  const said = JSON.stringify({ error: "too many requests at a time; try again later" });
  window.fetch = () => Promise.resolve(new Response(said, { status: 503 }));
}"""
ANSWERS = "() => { window.fetch = window.asked; }"
