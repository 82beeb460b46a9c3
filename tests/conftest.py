"""Being here puts this folder on the path: tests of every folder can import the helpers in it."""

import gc
import os
import sys

import pytest
from hypothesis import settings

from file_order import ordered
from in_browser import CHROMIUM
from remembered import remember_functions

settings.register_profile("no deadline", deadline=None)  # no test asserts a time
settings.load_profile("no deadline")

# Tests start many processes, and each worker collects all files: compiled bytecode is shared, whatever the shell says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Workers take all cores: threads of BLAS, LightGBM and XGBoost would wait for one by spinning, which took half the time
# of tests that use them. Set before numpy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")


def pytest_collection_modifyitems(config, items):
    items[:] = ordered(items, config.rootpath / "tests")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Every second worker collects backwards: it finds the bytecode of one half, where both would make all of it."""
    report = yield
    if WORKER[-1] in "13579" and isinstance(collector, pytest.Session | pytest.Dir):
        report.result.reverse()
    return report


def pytest_collectstart():
    gc.disable()


def pytest_collection_finish():
    """Leave the collected tests and all that they import out of garbage collection, which took a sixth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)  # compiling leaves many objects, and every pass looks through all of them
    gc.enable()
    if "numba" in sys.modules:
        remember_functions()


@pytest.fixture(scope="module")
def browser():
    """Chromium, one for all tests of a file."""
    from playwright import sync_api

    assert CHROMIUM is not None, "CI must install Chromium"
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(autouse=True)
def no_measure_of_a_test_stays():
    """Take out the measures and rankers that a test registers."""
    base, plugins = (sys.modules.get(name) for name in ("rankwright.measures.base", "rankwright.plugins"))
    tables = [base.REGISTRY, plugins._REGISTERED] if base and plugins else []
    before = [dict(table) for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        table.clear()
        table.update(kept)
