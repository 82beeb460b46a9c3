"""Where max-margin training is slow: four rows, each with passes, CPU seconds and the share of the small problem.

1. Pairs on 50 queries × 1,000 documents × 750 binary features, standardised and raw, with nDCG@10 on held-out queries.
2. 100 queries × 120 documents × 136 to 2,000 features: the exponent of CPU time in features, and the share of planes.
3. Pairs on 2,000 queries × 120 documents × 136 features: passes and seconds until held-out nDCG@10 is within half a
   percent of what the certified weights reach, and until the certificate.
4. Every loss, C from 1e-3 to 1e4, on 100 queries × 120 documents × 136 features: passes.

To compare two versions, run it with each as PYTHONPATH, in turn. `--rows 14` runs rows 1 and 4 alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from bench_max_margin import dense_data
from rankwright import RankingData, RankingSVM, StructuredSVM

LOSSES = ("pairs", "map", "ndcg", "ndcg@10", "auc", "mrr@10")
COSTS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)


def noisy(n_queries: int, size: int, n_features: int) -> RankingData:
    """Grades 0 to 4 that follow ten features, with much noise: held-out nDCG@10 is about .6."""
    rng = np.random.default_rng(2)
    X = rng.random((n_queries * size, n_features), dtype=np.float32)
    hidden = X[:, :10] @ rng.normal(size=10).astype(np.float32) + rng.normal(scale=0.75, size=len(X))
    labels = np.digitize(hidden, np.quantile(hidden, [0.52, 0.84, 0.97, 0.99]))
    return RankingData.from_arrays(X, labels, group=np.full(n_queries, size))


def binary(n_queries: int, size: int) -> RankingData:
    """Make 15 weak retrieval functions × 50 cumulative bins, the outer ones rare."""
    rng = np.random.default_rng(1)
    n = n_queries * size
    relevant = rng.random(n) < 0.05
    scores = rng.normal(size=(n, 15)) + 0.3 * relevant[:, None]
    thresholds = np.quantile(scores, np.linspace(0.002, 0.998, 50), axis=0)
    X = np.concatenate([(scores[:, [f]] >= thresholds[:, f]) for f in range(15)], axis=1).astype(np.float32)
    return RankingData.from_arrays(X, relevant.astype(float), group=np.full(n_queries, size))


def rare(n_queries: int, size: int) -> RankingData:
    """Make 750 independent binary features, from .2 to 30 % of the documents, all of which matter."""
    rng = np.random.default_rng(3)
    n, n_features = n_queries * size, 750
    X = (rng.random((n, n_features)) < np.exp(rng.uniform(np.log(0.002), np.log(0.3), n_features))).astype(np.float32)
    hidden = X @ rng.normal(size=n_features)
    hidden = (hidden - hidden.mean()) / hidden.std() + rng.normal(size=n)
    return RankingData.from_arrays(
        X, np.digitize(hidden, np.quantile(hidden, [0.9, 0.97])), group=np.full(n_queries, size)
    )


def ranker_for(loss: str, C: float, **settings: Any) -> Any:
    """The ranker of a loss, with the papers' convex bound."""
    return RankingSVM(C, **settings) if loss == "pairs" else StructuredSVM(loss, C, bound="hinge", **settings)


def measured(ranker: Any, data: RankingData, repeat: int = 3) -> tuple[float, float]:
    """The least CPU time of some fits, and the share of the small problem."""
    seconds = []
    for _ in range(repeat):
        began = time.process_time()
        ranker.fit(data)
        seconds.append(time.process_time() - began)
    last = ranker.path_[-1]
    return min(seconds), last.seconds_planes / last.seconds


def row_binary(repeat: int) -> None:
    """Print row 1."""
    print("pairs, 50 queries × 1,000 × 750 binary features")
    for make in (binary, rare):
        data = make(100, 1000)
        train, held_out = data.select(range(50)), data.select(range(50, 100))
        for C in (1e-5, 1e-4, 1e-3, 1e-2):
            for standardize in (True, False):
                ranker = RankingSVM(C, standardize=standardize)
                seconds, share = measured(ranker, train, repeat)
                print(
                    f"  {make.__name__}, C = {C:g}, {'standardised' if standardize else 'raw':12s} {seconds:6.2f} s, "
                    f"{ranker.n_passes_:3d} passes, planes {share:.0%}, held-out nDCG@10 {ranker.score(held_out):.4f}",
                    flush=True,
                )


def row_features(repeat: int) -> None:
    """Print row 2."""
    for loss, C in (("pairs", 0.01), ("map", 10.0)):
        print(f"{loss}, C = {C:g}, 100 queries × 120 documents")
        sizes, times = (136, 272, 544, 1088, 2000), []
        for n_features in sizes:
            ranker = ranker_for(loss, C)
            seconds, share = measured(ranker, dense_data(100, 120, n_features), repeat if n_features < 1000 else 1)
            times.append(seconds)
            print(
                f"  {n_features:5d} features {seconds:7.3f} s, {ranker.n_passes_:3d} passes, planes {share:.0%}",
                flush=True,
            )
        print(f"  time grows as features to the power of {np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}")


def row_held_out(repeat: int) -> None:
    """Print row 3."""
    data = noisy(2400, 120, 136)
    train, held_out = data.select(range(2000)), data.select(range(2000, 2400))
    print("pairs, 2,000 queries × 120 × 136")
    for C in (1e-3, 1e-2, 0.1):
        ranker = RankingSVM(C)
        seconds, share = measured(ranker, train, repeat)
        goal = 0.995 * ranker.score(held_out)
        passes = next(n for n in range(1, 200) if RankingSVM(C, max_passes=n).fit(train).score(held_out) >= goal)
        early, _ = measured(RankingSVM(C, max_passes=passes), train, repeat)
        print(
            f"  C = {C:g}: nDCG@10 {goal:.4f} in {early:.2f} s, {passes} passes; certificate {seconds:.2f} s, "
            f"{ranker.n_passes_} passes, planes {share:.0%}, nDCG@10 {goal / 0.995:.4f}",
            flush=True,
        )


def row_costs(repeat: int) -> None:
    """Print row 4."""
    data = dense_data(100, 120, 136)
    print("100 queries × 120 × 136: passes for C = " + ", ".join(f"{C:g}" for C in COSTS))
    for loss in LOSSES:
        found = []
        for C in COSTS:
            ranker = ranker_for(loss, C)
            found.append((*measured(ranker, data, repeat), ranker.n_passes_, ranker.gap_ <= ranker.tol))
        passes = " ".join(f"{row[2]:3d}{'' if row[3] else '!'}" for row in found)
        print(f"  {loss:8s} {passes}   {sum(row[0] for row in found):.2f} s in all", flush=True)


def main() -> None:
    """Run the rows asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1234")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    small = dense_data(20, 20, 12)
    for loss in LOSSES:
        ranker_for(loss, 1.0).fit(small)  # compile
    for number, row in enumerate((row_binary, row_features, row_held_out, row_costs), 1):
        if str(number) in args.rows:
            row(args.repeat)


if __name__ == "__main__":
    main()
