"""Claim: lambda gradients of 200 queries of 120 documents take at most 40 ms for every measure with swap changes.

Measures that do not bring what swapping two documents changes are computed by brute force; they are marked.
Labels from 0 to 4, mostly low; cutoff 10 where a measure takes one, and none besides where it can do without. CPU time
of one thread, best of several runs, without compilation.
"""

from __future__ import annotations

import argparse

import numpy as np

from rankwright.boosting.lambdas import Lambdas
from rankwright.measures import Measure
from rankwright.measures.base import REGISTRY
from timing import best_cpu_seconds

TARGET = 40.0


def main() -> None:
    """Print milliseconds per measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--documents", type=int, default=120, help="per query")
    parser.add_argument("--repeat", type=int, default=9)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = rng.choice(5, args.queries * args.documents, p=[0.5, 0.25, 0.15, 0.07, 0.03]).astype(np.float64)
    scores = rng.normal(size=len(labels))
    indptr = np.arange(args.queries + 1) * args.documents
    print(f"lambda gradients of {args.queries} queries × {args.documents} documents    CPU ms")
    worst = 0.0
    for measure in [*_measures(), None]:
        lambdas = Lambdas(labels, indptr, measure)
        took = 1e3 * best_cpu_seconds(lambda lambdas=lambdas: lambdas.evaluate(scores), args.repeat)  # type: ignore[misc]
        by_force = measure is not None and measure.swaps() is None
        worst = worst if by_force else max(worst, took)
        print(f"  {'RankNet' if measure is None else str(measure):<50}{took:8.2f}{'  by brute force' * by_force}")
    verdict = "holds" if worst <= TARGET else "DOES NOT HOLD"
    print(f"slowest {worst:.1f} ms; claim: at most {TARGET:g}: {verdict}")


def _measures() -> list[Measure]:
    kinds = sorted(set(REGISTRY.values()), key=lambda kind: kind.name.lower())
    found = []
    for kind in kinds:
        if kind.evaluates_only:  # of other judgements than labels
            continue
        cutoffs = [10] * kind.takes_cutoff + [None] * (not kind.needs_cutoff)
        found += [kind(cutoff).resolve("letor") for cutoff in cutoffs]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    main()
