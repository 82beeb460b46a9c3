"""Experiments: data sets, methods and a protocol in one file, run on all cores, with results as plain files.

Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers
    from rankwright.experiments.checks import check_text as check_text
    from rankwright.experiments.checks import load_experiment as load_experiment
    from rankwright.experiments.config import BackgroundSource as BackgroundSource
    from rankwright.experiments.config import DataSource as DataSource
    from rankwright.experiments.config import Experiment as Experiment
    from rankwright.experiments.config import MethodSpec as MethodSpec
    from rankwright.experiments.config import Protocol as Protocol
    from rankwright.experiments.results import Results as Results
    from rankwright.experiments.running import Status as Status
    from rankwright.experiments.running import run_experiment as run_experiment

_HOMES = {
    "rankwright.experiments.config": (
        "BackgroundSource",
        "DataSource",
        "Experiment",
        "MethodSpec",
        "Protocol",
    ),
    "rankwright.experiments.checks": ("check_text", "load_experiment"),
    "rankwright.experiments.results": ("Results",),
    "rankwright.experiments.running": ("Status", "run_experiment"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the names are those of _HOMES


if not TYPE_CHECKING:  # which would take any name

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'rankwright.experiments' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
