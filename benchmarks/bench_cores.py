"""What a second thread can gain on this machine: two copies of a kernel against one, each on its own data.

Two cores give 2 ×. Two threads of one core share its units and caches: a kernel that keeps them busy alone gains
little, one that waits for memory gains more. No program that is made of these kernels can gain more from a second
thread, so this bounds `bench_read_letor.py`, `bench_threads.py` and `bench_lambda_mart.py` with two threads.

1. Histograms: eight bins of every row, of eight features, are read as one word and added to, as trees do.
2. Parsing: numbers are read from text, as for LETOR.
3. A pass: rows times weights, and coefficients times rows, as in max-margin training.

Wall times of a few milliseconds, the best of many alternating runs, so that other programs matter less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from bench_read_letor import kernel_alone
from rankwright.data.threads import Team
from rankwright.io.letor import write_letor
from rankwright.models.products import FASTMATH

ROWS = 1 << 18


@njit(nogil=True)
def histograms(words: Any, values: Any, sums: Any) -> None:
    """Add every row's value to the bins of eight features."""
    for i in range(4 * words.size):
        word, value = words[i % words.size], values[i % words.size]
        for feature in range(8):
            sums[feature, (word >> np.uint64(8 * feature)) & np.uint64(255)] += value


@njit(nogil=True, fastmath=FASTMATH)
def two_products(X: Any, weights: Any, total: Any) -> None:
    """Score every row, and add it to the total as often as it scores."""
    for i in range(X.shape[0]):
        score = 0.0
        for j in range(X.shape[1]):
            score += X[i, j] * weights[j]
        for j in range(X.shape[1]):
            total[j] += score * X[i, j]


def made(rng: np.random.Generator) -> list[tuple[str, Callable[[], None]]]:
    """One copy of the kernels, with its data."""
    words, values = rng.integers(0, 1 << 63, ROWS).astype(np.uint64), rng.integers(0, 1 << 40, ROWS)
    sums = np.zeros((8, 256), np.int64)
    X, weights, total = rng.random((ROWS // 8, 136), dtype=np.float32), rng.random(136), np.zeros(136)
    return [
        ("histograms", lambda: histograms(words, values, sums)),
        ("a pass", lambda: two_products(X, weights, total)),
    ]


def seconds(team: Team, functions: list[Callable[[], None]]) -> float:
    """Wall time of all functions, each once, by the threads of a team."""
    began = time.perf_counter()
    team.each(lambda function: function(), [(function,) for function in functions])
    return time.perf_counter() - began


def main() -> None:
    """Print the gain of every kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=200)
    args = parser.parse_args()
    one, two = Team(1), Team(2)
    copies = [made(np.random.default_rng(seed)) for seed in (1, 2)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, best of {args.repeat}")
    for (name, first), (_, second) in zip(*copies, strict=True):
        first(), second()  # compile, touch
        alone, both = np.inf, np.inf
        for _ in range(args.repeat):
            alone = min(alone, seconds(one, [first]))
            both = min(both, seconds(two, [first, second]))
        print(f"  {name:10s} {1e3 * alone:6.1f} ms alone, {1e3 * both:6.1f} two at once: {2 * alone / both:.2f} ×")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.txt")
        write_letor(random_data(np.random.default_rng(3)), path)
        times = {1: np.inf, 2: np.inf}
        for _ in range(args.repeat):
            for threads, before in times.items():
                began = time.perf_counter()
                kernel_alone(path, threads, 2)
                times[threads] = min(before, time.perf_counter() - began)
    gain = times[1] / times[2]
    print(f"  {'parsing':10s} {1e3 * times[1]:6.1f} ms with one thread, {1e3 * times[2]:6.1f} with two: {gain:.2f} ×")


def random_data(rng: np.random.Generator) -> Any:
    """2,000 documents of 136 features."""
    from rankwright import RankingData

    X = np.round(rng.random((2_000, 136)), 6)
    return RankingData.from_arrays(X, rng.integers(0, 5, len(X)), group=np.full(len(X) // 100, 100))


if __name__ == "__main__":
    main()
