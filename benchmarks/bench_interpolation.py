"""Claims about the search for interpolation weights, against scipy's Powell from the same starting points.

1. Starting from equal weights and from each component alone, the best value found is at least scipy's best.
2. The search takes at most 1.0× scipy's time.

Both evaluate weights with the same compiled function, so only the search differs. Component scores are drawn for five
grades, with varying quality and similarity; the measure is nDCG@10. ``heavy`` marks scores with long tails and a
different scale in every query. The script also reports results from one start at a time. CPU time, best of several
alternating runs, without compilation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from rankwright.committee.lines import MeasureOnLines, direction_set_search
from rankwright.measures import parse_measure

Array = npt.NDArray[Any]
# Components, queries, documents per query, strength of the noise the components share, long tails.
SIZES = (
    (3, 500, 20, 0.0, False),
    (3, 300, 100, 0.0, False),
    (3, 60, 300, 0.0, False),
    (3, 20, 40, 0.0, False),
    (2, 100, 50, 0.0, False),
    (4, 200, 50, 0.0, True),
    (5, 100, 100, 1.0, False),
    (8, 100, 50, 1.0, False),
    (10, 200, 30, 0.0, False),
)


def make(size: tuple[int, int, int, float, bool], seed: int) -> tuple[Array, Array, Array]:
    """Draw scores, labels and query boundaries."""
    n_components, n_queries, n_docs, shared, heavy = size
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, p=[0.5, 0.2, 0.15, 0.1, 0.05], size=n_queries * n_docs).astype(np.float64)
    noise = rng.normal(size=(len(labels), n_components)) + shared * rng.normal(size=(len(labels), 1))
    good = rng.uniform(0.1, 0.4, n_components)
    scores = good * labels[:, None] + noise * rng.uniform(0.7, 1.6, n_components)
    if heavy:
        scale = rng.lognormal(0.0, 0.7, (n_queries, n_components))
        scores = np.sign(scores) * np.abs(scores) ** 1.5 * np.repeat(scale, n_docs, axis=0)
    return scores, labels, np.arange(n_queries + 1) * n_docs


def cpu_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time and the result of one call."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


class Race:
    """Both searches on one data set."""

    def __init__(self, size: tuple[int, int, int, float, bool], seed: int, repeat: int) -> None:
        self.scores, labels, indptr = make(size, seed)
        self.measure = MeasureOnLines(labels, indptr, parse_measure("nDCG@10").resolve("letor"))
        self.starts = [np.ones(size[0]), *np.eye(size[0])]
        self.rows, self.repeat = np.ascontiguousarray(self.scores.T), repeat

    def ours(self, starts: list[Array]) -> float:
        """Return the value that Rankwright finds."""
        return direction_set_search(self.scores, self.measure, starts).value

    def theirs(self, starts: list[Array]) -> float:
        """Return the best value that scipy finds."""

        def loss(weights: Array) -> float:
            return -self.measure.value_of(self.rows, weights)

        return max(-float(optimize.minimize(loss, start, method="Powell").fun) for start in starts)

    def run(self, starts: list[Array]) -> Array:
        """Return our value and seconds, then scipy's; times are the best of several runs."""
        found = np.array([0.0, np.inf, 0.0, np.inf])
        for _ in range(self.repeat):
            for place, search in ((0, self.ours), (2, self.theirs)):
                seconds, value = cpu_seconds(lambda search=search: search(starts))  # type: ignore[misc]
                found[place], found[place + 1] = value, min(found[place + 1], seconds)
        return found


def line(what: str, runs: Array) -> None:
    """Print a summary of several runs, one per row of the array."""
    above = runs[:, 0] - runs[:, 2]
    good = np.count_nonzero(above >= -1e-12)
    print(
        f"  {what:10s} at least as good in {good:3d} of {len(runs):3d}, by {above.mean():+.5f} on average,"
        f" {above.min():+.5f} at worst; {1e3 * runs[:, 1].mean():7.1f} ms, scipy"
        f" {1e3 * runs[:, 3].mean():7.1f} ms, {runs[:, 1].sum() / runs[:, 3].sum():.2f}×",
        flush=True,
    )


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="data sets per size")
    parser.add_argument("--repeat", type=int, default=2)
    args = parser.parse_args()
    print(", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba")))
    warm = Race((3, 5, 10, 0.0, False), 0, 1)
    warm.run(warm.starts)
    together = []
    for size in SIZES:
        n_components, n_queries, n_docs, shared, heavy = size
        kind = (", alike" if shared else "") + (", heavy" if heavy else "")
        print(f"{n_components} components, {n_queries} queries of {n_docs} documents{kind}")
        races = [Race(size, seed, args.repeat) for seed in range(args.seeds)]
        all_starts = np.array([race.run(race.starts) for race in races])
        line("all starts", all_starts)
        line("one start", np.array([race.run([start]) for race in races for start in race.starts[:3]]))
        together.append(all_starts)
    runs = np.concatenate(together)
    good = np.count_nonzero(runs[:, 0] >= runs[:, 2] - 1e-12)
    verdict = "holds" if good == len(runs) else "DOES NOT HOLD"
    print(f"1. at least scipy's value in {good} of {len(runs)} data sets: {verdict}")
    ratios = [part[:, 1].sum() / part[:, 3].sum() for part in together]
    verdict = "holds" if max(ratios) <= 1.0 else "DOES NOT HOLD"
    print(f"2. {min(ratios):.2f}× to {max(ratios):.2f}× scipy's time (claim ≤ 1.0 for every size): {verdict}")


if __name__ == "__main__":
    main()
