"""Claims about long queries: oracles in general, and DORM without a cutoff.

Per document, an oracle takes at most 3× as long on a query of 100,000 documents as on one of 1,000. Half of the
documents are relevant; the short query is repeated until both cases process the same number of documents.

DORM takes at most 2 seconds and 256 MB for one query of 20,000 documents, a quarter of them relevant, and grades from 1
on equally frequent. Every case has a process of its own, so that its memory can be told. The linear assignment of
DORM's paper, by SciPy, is run on 3,000 documents for comparison; `--no-assignment` leaves it out, which saves minutes.

All times include sorting the scores. CPU time, best of several runs (one of the assignment), without compilation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from typing import Any

import numpy as np

from rankwright.measures import parse_measure
from rankwright.measures.base import Oracle, read_only
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.measures.oracles.positions import assignment
from timing import best_cpu_seconds

LOSSES = ("AUC", "AP", "nDCG", "nDCG@10", "RR")
TARGET = 3.0
DORM_SECONDS, DORM_MB = 2.0, 256.0
ASSIGNED = 3_000  # documents; SciPy's assignment does not end in reasonable time on many more


def main() -> None:
    """Print both tables and whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", type=int, default=1_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--noise", type=float, default=1.0, help="spread of the scores; relevant ones get +1")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--no-assignment", action="store_true", help="do not time SciPy's assignment")
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
    print(f"largest ratio {worst:.2f}; claim: at most {TARGET:g}: {verdict}\n")
    _dorm(args)


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


def _dorm(args: Any) -> None:
    """Time and memory of DORM's most violated ranking, and of the assignment."""
    print("DORM, one query, 25 % relevant            ms        MB     assignment, ms       MB     ratio   same value")
    slowest, largest = 0.0, 0.0
    for name in ("nDCG", "nDCG@10"):
        for decay in ("log2", "sqrt"):
            for n_grades in (2, 3, 5, 12):
                for n in (ASSIGNED, 20_000):
                    case = (name, decay, n_grades, n, args.noise, args.repeat)
                    ms, mb, value = _apart(False, *case)
                    slowest, largest = max(slowest, ms / 1e3), max(largest, mb)
                    line = f"  {name:<8}{decay:<5}{n_grades:>2} grades, {n:>6,} docs {ms:>9.2f}{mb:>10.1f}"
                    if n == ASSIGNED and name == "nDCG" and n_grades < 4 and not args.no_assignment:
                        theirs, their_mb, their_value = _apart(True, *case)
                        same = "yes" if abs(value - their_value) < 1e-9 else "NO"
                        line += f"{theirs:>19,.0f}{their_mb:>9.0f}{theirs / ms:>10,.0f}   {same}"
                    print(line, flush=True)
    verdict = "holds" if slowest <= DORM_SECONDS and largest <= DORM_MB else "DOES NOT HOLD"
    print(
        f"longest {slowest:.3f} s, most memory {largest:.0f} MB; "
        f"claim: at most {DORM_SECONDS:g} s and {DORM_MB:g} MB: {verdict}"
    )


def _apart(assigned: bool, *case: Any) -> tuple[float, float, float]:
    """`_one_query` in a process of its own, after everything is compiled."""
    name, decay, n_grades, _, noise, repeat = case
    _one_query(assigned, name, decay, n_grades, 400, noise, repeat)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_one_query, (assigned, *case))


def _one_query(
    assigned: bool, name: str, decay: str, n_grades: int, n: int, noise: float, repeat: int
) -> tuple[float, float, float]:
    """Milliseconds, megabytes of memory, and the violation found."""
    labels, scores = _query(n_grades, n, noise)
    oracle = parse_measure(name).oracle(f"dorm:{decay}")
    assert oracle.library is not None
    assert oracle.cheap is not None
    parameters, cheap = oracle.parameters(n), oracle.cheap(labels)
    library = assignment if assigned else oracle.library
    order, coef, work = np.empty(n, np.int64), np.empty(n), np.empty(WORK * n + BINS)

    def find() -> float:
        if assigned or not cheap:
            loss, found = library(scores, labels, parameters)
            return float(loss - (found * scores).sum())
        sort_descending(scores, order, work)
        return float(oracle.kernel(scores, labels, order, parameters, coef, work) - (coef * scores).sum())

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    value = find()
    seconds = time.process_time() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if not assigned:
        seconds = best_cpu_seconds(find, repeat)
    return 1e3 * seconds, grown / (1e6 if sys.platform == "darwin" else 1e3), value


def _query(n_grades: int, n: int, noise: float) -> tuple[Any, Any]:
    """Labels, a quarter of them above 0, and scores."""
    rng = np.random.default_rng(0)
    labels = np.zeros(n)
    labels[: n // 4] = 1 + np.arange(n // 4) % (n_grades - 1)
    labels = read_only(rng.permutation(labels))
    return labels, labels + noise * rng.normal(size=n)


if __name__ == "__main__":
    main()
