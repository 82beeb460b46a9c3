"""How many judgements it takes until a ranker beats BM25, by the order of judging.

Takes the folder that `rankwright demo` makes: its runs of the test queries, and its judgements as those of a judge who
knows; documents without one get 0. For each ranker, the first ten documents of it and of BM25 are judged one by one, in
each order of `rankwright judge --compare`, with a look after every judgement, until the sequential test decides by
nDCG@10. Medians over random orders of the queries. For comparison: the differences and p-values with everything judged;
how far the difference that `rankwright compare` would show is from that one after a part of the judgements (it takes
queries without a judgement as absent, and other documents without one as not relevant); and how often each order claims
a difference between two rankers that differ by chance only: for every query a coin says which run is called the first.

    python benchmarks/study_judging.py demo --orders 20

Any folder with qrels.txt (grades up to 3), bm25.run and other runs will do.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import InputWarning, evaluate_run, read_qrels, read_run
from rankwright.data.order import rank_order
from rankwright.evaluation.significance import p_value
from rankwright.judging.pool import ORDERS, JudgingPool, planned, shuffled_queries
from rankwright.judging.records import Pair
from rankwright.judging.stopping import Sequential

DEPTH = 10
BASE = "bm25"
SHARES = (0.1, 0.25, 0.5)
Array = npt.NDArray[Any]
Grades = Mapping[Pair, float]


def top_of(path: Path, queries: set[str]) -> dict[str, list[str]]:
    """The first documents of a run, by query."""
    run = read_run(path)
    order = rank_order(run.values.astype(np.float32), run.indptr, run.doc_ids)
    bounds = run.indptr.tolist()
    return {
        query: [run.documents[at].decode() for at in order[start:stop][:DEPTH].tolist()]
        for query, start, stop in zip(run.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True)
        if query in queries
    }


def judged(pool: JudgingPool, names: tuple[str, str], order: str, grades: Grades, seed: int) -> tuple[int, str | None]:
    """How many judgements it takes until a decision, or all there are; and who is better."""
    known: dict[Pair, float] = {}
    test = Sequential(pool, names, shuffled_queries(pool, seed), lambda query, one: known.get((query, one)), DEPTH)
    for at, pair in enumerate(planned(pool, order, seed), 1):
        known[pair] = grades.get(pair, 0.0)
        test.update(pair[0])
        better = test.decision().better
        if better is not None:
            return at, better
    return len(known), None


def exchanged(pool: JudgingPool, names: tuple[str, str], rng: np.random.Generator) -> JudgingPool:
    """The same two runs, a coin deciding for every query which one is the first: no difference but by chance."""
    tops: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for query in pool.queries:
        pair = names if rng.random() < 0.5 else names[::-1]
        for name, other in zip(names, pair, strict=True):
            tops[name][query] = list(pool.tops[other].get(query, ()))
    return JudgingPool(pool.depth, tops)


def differences(pool: JudgingPool, names: tuple[str, str], grades: Grades, pairs: Iterable[Pair]) -> Array:
    """The difference of nDCG@10 by query, if these are judged."""
    qrels: dict[str, dict[str, float]] = {}
    for query, document in pairs:
        qrels.setdefault(query, {})[document] = grades.get((query, document), 0.0)
    values = []
    for name in names:
        run = {query: {one: -float(at) for at, one in enumerate(top)} for query, top in pool.tops[name].items() if top}
        with warnings.catch_warnings(action="ignore", category=InputWarning):  # queries that are not judged yet
            values.append(evaluate_run(qrels, run, ["nDCG@10"]).column("nDCG@10"))
    return np.asarray(values[0] - values[1])


def part_errors(pool: JudgingPool, names: tuple[str, str], order: str, grades: Grades, n_orders: int) -> list[float]:
    """The mean distance from the difference with everything judged, after each share of the judgements."""
    errors = np.zeros((n_orders, len(SHARES)))
    for seed in range(n_orders):
        pairs = planned(pool, order, seed)
        whole = differences(pool, names, grades, pairs).mean()
        for at, share in enumerate(SHARES):
            part = pairs[: round(share * len(pairs))]
            errors[seed, at] = abs(differences(pool, names, grades, part).mean() - whole)
    return [float(one) for one in errors.mean(axis=0)]


def main() -> None:
    """Print a table of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--coins", type=int, default=100)
    given = parser.parse_args()
    qrels = read_qrels(given.folder / "qrels.txt")
    bounds = qrels.indptr.tolist()
    grades = {
        (query, document.decode()): label
        for query, start, stop in zip(qrels.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True)
        for document, label in zip(qrels.documents[start:stop], qrels.values[start:stop].tolist(), strict=True)
    }
    queries = set(qrels.query_ids.tolist())
    tops = {path.stem: top_of(path, queries) for path in sorted(given.folder.glob("*.run"))}
    print(f"{len(queries)} queries; medians over {given.orders} random orders (decided in how many of them)\n")
    print("| ranker | difference, p with all judged | all judgements | " + " | ".join(ORDERS) + " |")
    print("|---|---|---|" + "---|" * len(ORDERS))
    for name in (one for one in tops if one != BASE):
        names = (name, BASE)
        pool = JudgingPool(DEPTH, {one: tops[one] for one in names})
        gains = differences(pool, names, grades, planned(pool, ORDERS[0]))
        gain, p = float(gains.mean()), p_value("t", gains)
        n_all = sum(len(pool.documents(query)) for query in pool.queries)
        cells = []
        for order in ORDERS:
            found = [judged(pool, names, order, grades, seed) for seed in range(given.orders)]
            decided = [better for _, better in found if better is not None]
            wrong = "" if all(better == name for better in decided) or gain < 0 else ", some for BM25"
            cells.append(f"{np.median([n for n, _ in found]):,.0f} ({len(decided)} of {len(found)}{wrong})")
        print(f"| {name} | {gain:+.3f}, p = {p:.2g} | {n_all:,} | {' | '.join(cells)} |", flush=True)
    shares = ", ".join(f"{share:.0%}" for share in SHARES)
    print(f"\nerror of the difference from {BASE} after {shares} of the judgements\n")
    print("| ranker | " + " | ".join(ORDERS) + " |\n|---|" + "---|" * len(ORDERS))
    for name in (one for one in tops if one != BASE):
        pool = JudgingPool(DEPTH, {one: tops[one] for one in (name, BASE)})
        errors = [part_errors(pool, (name, BASE), order, grades, given.orders) for order in ORDERS]
        print(
            f"| {name} | " + " | ".join(", ".join(f"{one:.3f}" for one in cell) for cell in errors) + " |", flush=True
        )
    names, rng = (next(one for one in tops if one != BASE), BASE), np.random.default_rng(0)
    pool = JudgingPool(DEPTH, {one: tops[one] for one in names})
    for order in ORDERS:
        claims = [
            judged(exchanged(pool, names, rng), names, order, grades, seed)[1] is not None
            for seed in range(given.coins)
        ]
        print(
            f"\n{order}: {sum(claims)} of {len(claims)} comparisons of what differs by chance only claim a difference"
        )


if __name__ == "__main__":
    main()
