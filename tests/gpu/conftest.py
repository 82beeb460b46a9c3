"""Tests that need a GPU, because compiled code takes part, are left out where there is none."""

from on_device import has_gpu


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_gpu: what it runs is compiled, so not simulated")


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if item.get_closest_marker("needs_gpu") and not has_gpu()]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
