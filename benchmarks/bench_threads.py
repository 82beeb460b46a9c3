"""What a fit does on one thread only, and what too many threads cost, for pairs and LambdaMART.

Data as in `bench_lambda_mart` (240,000 documents × 136 float32, ``--docs`` for others), in memory. For both:

1. The serial share: CPU time outside of what threads share, at most 3 % of a fit with one thread. With it, sixteen
   cores could be at most 1 / (share + (1 − share)/16) times as fast.
2. Sixteen threads take at most 1.05 times as long as two, on however many cores there are.
3. CPU time of two threads, the caller's and the other: what two would gain on cores of their own, if neither waits.

Other times are wall times, the best of several alternating runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from bench_lambda_mart import N_FEATURES, SIZE, make
from rankwright import LambdaMART, RankingSVM
from rankwright.data.threads import Team

SHARE, OVER = 0.03, 1.05
CORES = 16
Fit = Callable[[int], Any]


def main() -> int:
    """Measure both rankers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=240_000)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    n_docs = args.docs // SIZE * SIZE
    X, y = make(n_docs)
    qid = np.arange(n_docs) // SIZE
    few = 10 * SIZE

    def pairs(threads: int, stop: int = n_docs) -> Any:
        return RankingSVM(0.01, n_jobs=threads).fit(X[:stop], y[:stop], qid[:stop])

    def trees(threads: int, stop: int = n_docs) -> Any:
        return LambdaMART(args.trees, max_leaves=31, truncation=30, n_jobs=threads).fit(X[:stop], y[:stop], qid[:stop])

    print(f"{n_docs:,} × {N_FEATURES}, {args.trees} trees of 31 leaves, best of {args.repeat}, {os.cpu_count()} cores")
    for name, fit in (("pairs", pairs), ("LambdaMART", trees)):
        fit(2, few)  # compiles
        compare(name, fit, args.repeat)
    return 0


def compare(name: str, fit: Fit, repeat: int) -> None:
    """Print one line for each claim."""
    share = min(serial_share(fit) for _ in range(repeat))
    bound = 1 / (share + (1 - share) / CORES)
    print(
        f"  {name:10s} serial share {share:5.1%} (claim ≤ {SHARE:.0%}): {verdict(share <= SHARE)}"
        f"; {CORES} cores at most {bound:.1f}×",
        flush=True,
    )
    alone = min(sum(thread_seconds(fit, 1)) for _ in range(repeat))
    own, other = min((thread_seconds(fit, 2) for _ in range(repeat)), key=sum)
    print(
        f"  {name:10s} CPU: one thread {alone:.2f} s; two threads {own:.2f} and {other:.2f} s"
        f", so {alone / max(own, other):.2f}× on two cores of their own",
        flush=True,
    )
    best: dict[int, float] = defaultdict(lambda: np.inf)
    for _ in range(repeat):
        for threads in (1, 2, CORES):
            best[threads] = min(best[threads], seconds(fit, threads))
    over = best[CORES] / best[2]
    times = ", ".join(f"{threads} threads {best[threads]:.2f} s" for threads in best)
    print(f"  {name:10s} {times}; 16 against 2: {over:.2f}× (claim ≤ {OVER}): {verdict(over <= OVER)}", flush=True)


def serial_share(fit: Fit) -> float:
    """CPU time of a fit with one thread that no other thread could have shared, of all of it."""
    shared = 0.0
    plain = Team.each

    def watched(self: Team, *given: Any) -> list[Any]:
        nonlocal shared
        began = time.thread_time()
        try:
            return plain(self, *given)
        finally:
            shared += time.thread_time() - began

    Team.each = watched  # type: ignore[assignment, method-assign]
    try:
        began = time.thread_time()
        fit(1)
        total = time.thread_time() - began
    finally:
        Team.each = plain  # type: ignore[method-assign]
    return 1 - shared / total


def thread_seconds(fit: Fit, threads: int) -> tuple[float, float]:
    """CPU time of one fit, of the caller's thread and of all others."""
    own, whole = time.thread_time(), time.process_time()
    fit(threads)
    own, whole = time.thread_time() - own, time.process_time() - whole
    return own, whole - own


def seconds(fit: Fit, threads: int) -> float:
    """Wall time of one fit."""
    began = time.perf_counter()
    fit(threads)
    return time.perf_counter() - began


def verdict(holds: bool) -> str:
    """Say it in words."""
    return "holds" if holds else "DOES NOT HOLD"


if __name__ == "__main__":
    sys.exit(main())
