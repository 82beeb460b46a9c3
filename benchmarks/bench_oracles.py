"""Claim: per document, an oracle takes at most 3× as long on a query of 100,000 documents as on one of 1,000.

Half of the documents are relevant. The time includes sorting the scores. The short query is repeated until both cases
process the same number of documents. CPU time, best of several runs, without compilation.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from rankwright.measures import parse_measure
from rankwright.measures.forms import Oracle
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from timing import best_cpu_seconds

LOSSES = ("AUC", "AP", "nDCG", "nDCG@10", "RR")
TARGET = 3.0


def main() -> None:
    """Print nanoseconds per document for both lengths, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", type=int, default=1_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--noise", type=float, default=1.0, help="spread of the scores; relevant ones get +1")
    parser.add_argument("--repeat", type=int, default=9)
    args = parser.parse_args()
    print(f"ns per document of one query    n = {args.short:<9,}n = {args.long:<9,}ratio")
    worst = 0.0
    for name in LOSSES:
        oracle = parse_measure(name).oracle()
        short = _ns_per_document(oracle, args.short, max(args.long // args.short, 1), args)
        long = _ns_per_document(oracle, args.long, 1, args)
        worst = max(worst, long / short)
        print(f"  {name:<30}{short:<13.1f}{long:<13.1f}{long / short:.2f}")
    verdict = "holds" if worst <= TARGET else "DOES NOT HOLD"
    print(f"largest ratio {worst:.2f}; claim: at most {TARGET:g}: {verdict}")


def _ns_per_document(oracle: Oracle, n: int, queries: int, args: Any) -> float:
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(n) % 2).astype(np.float64)
    labels.flags.writeable = False
    scores = labels + args.noise * rng.normal(size=(queries, n))
    order, coef, work = np.empty(n, np.int64), np.empty(n), np.empty(WORK * n + BINS)
    parameters = oracle.parameters(n)

    def run() -> None:
        for row in scores:
            sort_descending(row, order, work)
            oracle.kernel(row, labels, order, parameters, coef, work)

    return best_cpu_seconds(run, args.repeat) / (queries * n) * 1e9


if __name__ == "__main__":
    main()
