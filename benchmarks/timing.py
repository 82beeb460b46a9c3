"""Helpers for the benchmarks: measure the CPU time of a function and print a ratio."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["best_cpu_seconds", "report"]


def best_cpu_seconds(function: Callable[[], Any], repeat: int = 5) -> float:
    """Return the best CPU time of several calls, after one warm-up call."""
    function()
    times = []
    for _ in range(repeat):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def report(what: str, ours: float, peer: str, theirs: float, target: float) -> None:
    """Print both times, the ratio and the claim it is checked against."""
    print(what)
    print(f"  rankwright        {ours:8.3f} CPU s")
    print(f"  peer              {theirs:8.3f} CPU s   ({peer})")
    verdict = "holds" if theirs / ours >= target else "DOES NOT HOLD"
    print(f"  rankwright is {theirs / ours:.1f}× as fast; claim: at least {target:g}×: {verdict}")
