"""Claims about the max-margin solver's speed, each as a ratio within one run.

1. A pass (score, sort, oracle, combine) over 400,000 × 136 float32 in queries of 100 takes at most 1.5× two BLAS gemv
   calls over the same matrix, with one thread.
2. Two threads take less time than one, and give the same model bit for bit.
3. A path over C values costs less than separate fits.
4. Training memory on top of X is at most 1.3× X.
5. On 50,000 documents × 750 binary features in 50 queries: seconds to a certified gap of 1e-3, training only.
6. Algorithm 1 of SIGIR'07 (n-slack), the 1-slack cutting plane and the default on one problem, to the same gap: passes,
   calls of the oracle (most violated rankings computed) and seconds. `--solvers` runs this alone.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from rankwright import RankingData, RankingSVM, StructuredSVM
from rankwright.maxmargin.hinge import StructuredHinge


def best_seconds(function: Callable[[], Any], repeat: int = 5) -> float:
    """Return the best wall time of several calls, after one warm-up call."""
    function()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def dense_data(n_queries: int, size: int, n_features: int) -> RankingData:
    """Make documents whose grades, 0 to 4, follow a hidden direction plus noise."""
    rng = np.random.default_rng(0)
    X = rng.random((n_queries * size, n_features), dtype=np.float32)
    hidden = X[:, :10] @ rng.normal(size=10).astype(np.float32) + rng.normal(scale=0.7, size=len(X))
    labels = np.digitize(hidden, np.quantile(hidden, [0.52, 0.84, 0.97, 0.99]))
    return RankingData.from_arrays(X, labels, group=np.full(n_queries, size))


def binary_data(n_queries: int, size: int) -> RankingData:
    """Make 15 retrieval functions × 50 cumulative threshold bins, as in the SVMmap paper, stored as a dense matrix."""
    rng = np.random.default_rng(1)
    n = n_queries * size
    relevant = rng.random(n) < 0.05
    scores = rng.normal(size=(n, 15)) + 0.8 * relevant[:, None]
    thresholds = np.quantile(scores, np.linspace(0.02, 0.98, 50), axis=0)
    X = np.concatenate([(scores[:, [f]] >= thresholds[:, f]) for f in range(15)], axis=1).astype(np.float32)
    return RankingData.from_arrays(X, relevant.astype(float), group=np.full(n_queries, size))


def time_passes(data: RankingData, repeat: int) -> None:
    """Check claims 1 and 2."""
    w = np.ones(data.n_features, np.float32)
    c = np.ones(data.n_docs, np.float32)
    with threadpool_limits(1):
        gemv = best_seconds(lambda: (data.X @ w, c @ data.X), repeat)
    print(f"two gemv calls over {data.n_docs} × {data.n_features} float32, one thread: {1000 * gemv:.1f} ms")
    for loss in ("map", "ndcg@10", "auc"):
        seconds = {}
        for threads in (1, 2):
            ranker = StructuredSVM(loss, C=10, n_jobs=threads, max_passes=200, bound="hinge").fit(data)
            rest = ranker.path_[-1].seconds - ranker.path_[-1].seconds_planes
            seconds[threads] = rest / ranker.n_passes_, ranker
        one, two = seconds[1], seconds[2]
        same = np.array_equal(one[1].coef_, two[1].coef_)
        print(
            f"  {loss:8s} {1000 * one[0]:6.1f} ms per pass, {one[0] / gemv:.2f}× two gemv (claim ≤ 1.5); "
            f"two threads {two[0] / one[0]:.2f}× the time, same bits: {same}; "
            f"{one[1].n_passes_} passes to {one[1].gap_:.1e}, planes {_share(one[1]):.0%} of the time"
        )


def _share(ranker: Any) -> float:
    return float(ranker.path_[-1].seconds_planes / ranker.path_[-1].seconds)


def time_binary(data: RankingData) -> None:
    """Print the times of claim 5."""
    for name, ranker in {"map": StructuredSVM("map", C=1), "pairs": RankingSVM(C=1e-3)}.items():
        ranker.fit(data)
        began = time.perf_counter()
        ranker.fit(data)
        seconds = time.perf_counter() - began
        solver = f"{ranker.path_[-1].seconds:.2f} s in the solver, {ranker.n_passes_} passes, gap {ranker.gap_:.1e}"
        print(f"  {name:6s} C = {ranker.C:g}: {seconds:.2f} s in total, {solver}")


def time_solvers(name: str, data: RankingData, C: float, epsilon: float) -> None:
    """Print the rows of claim 6: Algorithm 1 for ε, then the others to the gap it reached."""
    print(f"{name}, C = {C:g}:")
    tol, before = 1e-3, StructuredHinge._pass
    for solver in ("n-slack-cutting-plane", "one-slack-cutting-plane", "bundle"):
        calls, seconds = 0, []

        def counted(self: Any, weights: Any, cost: Any, blocks: Any, *rest: Any, **options: Any) -> None:
            nonlocal calls
            calls += int(blocks[-1] - blocks[0])
            before(self, weights, cost, blocks, *rest, **options)

        ranker = StructuredSVM("map", C, solver=solver, epsilon=epsilon, tol=tol, max_passes=5000)
        with mock.patch.object(StructuredHinge, "_pass", counted):
            ranker.fit(data)
        for _ in range(3):
            ranker.fit(data)
            seconds.append(ranker.path_[-1].seconds)
        tol = ranker.gap_ if solver.startswith("n-slack") else tol
        on_planes = ranker.path_[-1].seconds_planes / ranker.path_[-1].seconds
        print(
            f"  {solver:24s} {ranker.n_passes_:5d} passes, {calls:7d} oracle calls ({calls / data.n_queries:.1f} per "
            f"query), {min(seconds):7.3f} s ({on_planes:.0%} on planes), gap {ranker.gap_:.1e}"
        )


def compare_solvers() -> None:
    """Claim 6 on dense and on binary features."""
    dense, binary = dense_data(50, 100, 46), binary_data(50, 200)
    for C in (1.0, 100.0):
        time_solvers("50 queries of 100 documents × 46 features, ε = 0.01", dense, C, 0.01)
    time_solvers("50 queries of 100 documents × 46 features, ε = 0.001", dense, 1.0, 0.001)
    time_solvers("50 queries of 200 documents × 750 binary features, ε = 0.01", binary, 1.0, 0.01)


def time_path(data: RankingData) -> None:
    """Check claim 3."""
    grid = [0.01, 0.1, 1.0, 10.0, 100.0]
    valid = data.select(range(min(50, data.n_queries)))
    auto = StructuredSVM("map", C="auto", C_grid=grid).fit(data, eval_set=valid)
    separate = sum(StructuredSVM("map", C=C).fit(data).n_passes_ for C in grid)
    print(f"  a path of {len(grid)} C values: {auto.n_passes_total_} passes; separate fits: {separate} passes")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--solvers", action="store_true", help="compare the solvers only")
    args = parser.parse_args()
    small = dense_data(20, 20, 12)
    for ranker in (StructuredSVM("map"), StructuredSVM("ndcg@10", bound="hinge"), StructuredSVM("auc"), RankingSVM()):
        ranker.fit(small)  # compile
    compare_solvers()
    if args.solvers:
        return
    data = dense_data(args.queries, 100, 136)
    tracemalloc.start()
    StructuredSVM("map", C=10).fit(data)
    extra = tracemalloc.get_traced_memory()[1] / data.X.nbytes
    tracemalloc.stop()
    print(f"memory on top of X during training: {extra:.2f}× X (claim ≤ 1.3)")
    time_passes(data, args.repeat)
    time_path(data.select(range(args.queries // 4)))
    print("50,000 × 750 binary features in 50 queries, to a gap of 1e-3:")
    time_binary(binary_data(50, 1000))


if __name__ == "__main__":
    main()
