"""How many judgements it takes until a ranker beats BM25, by the order of judging.

Python's documentation as in `rankwright demo`, with its test queries and rankers that were trained on the others, and
five text collections with two more retrieval functions. Judgements are those of a judge who knows; documents without
one get 0. The first ten documents of a ranker and of BM25 are judged one by one, in each order of `rankwright judge
--compare`, with a look after every judgement, until the sequential test decides by nDCG@10. Medians over random orders
of the queries. For comparison: the differences and p-values with everything judged; how far the difference that
`rankwright compare` would show is from that one after a part of the judgements (it takes queries without a judgement as
absent, and other documents without one as not relevant); and how often each order claims a difference between two
rankers that differ by chance only: for every query of the demo a coin says which run is called the first.

Needs `text` in the given folder or in RANKWRIGHT_DATA. `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from figures import Table
from rankwright import (
    Columns,
    InputWarning,
    RankingData,
    TrecTable,
    build_index,
    evaluate_run,
    feature_set,
    make_features,
    read_qrels,
    read_queries,
    train,
)
from rankwright.data.order import rank_order
from rankwright.datasets import python_docs
from rankwright.evaluation.significance import p_value
from rankwright.judging.pool import ORDERS, JudgingPool, planned, shuffled_queries
from rankwright.judging.records import GRADES, Pair
from rankwright.judging.stopping import Sequential
from study_runs import Shown, run_study

DEPTH = 10
BM25 = "bm25[porter+stop]"
FUNCTIONS = {"BM25": BM25, "Dirichlet": "dirichlet[porter+stop]", "TF-IDF": "tfidf[porter+stop]"}
TRAINED: dict[str, dict[str, Any]] = {
    "auto": {},
    "svm-map": {},
    "lambdamart": {"n_trees": 100, "learning_rate": 0.2, "max_leaves": 8, "patience": 20},
}
DEMO = "demo"
COLLECTIONS = {"cran": "Cranfield", "cisi": "CISI", "med": "MEDLINE", "cacm": "CACM", "npl": "NPL"}
SEEDS, COINS = 10, 100
SHARES = (0.1, 0.25, 0.5)
Array = npt.NDArray[Any]
Grades = Mapping[Pair, float]
Tops = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class Judged:
    """The first documents of every ranker by query, BM25 first, and the grades of all documents that have one."""

    tops: Tops
    grades: Grades

    def pools(self) -> Iterator[tuple[str, JudgingPool]]:
        """Every other ranker, with the pool of it and BM25."""
        base, *others = self.tops
        for name in others:
            yield name, JudgingPool(DEPTH, {name: self.tops[name], base: self.tops[base]})


# Data


def grades_of(qrels: TrecTable) -> dict[Pair, float]:
    """Grades by query and document, none above the highest that a judge can give."""
    bounds = zip(qrels.query_ids.tolist(), qrels.indptr[:-1], qrels.indptr[1:], strict=True)
    return {
        (query, document.decode()): min(label, max(GRADES))
        for query, start, stop in bounds
        for document, label in zip(qrels.documents[start:stop], qrels.values[start:stop].tolist(), strict=True)
    }


def demo() -> Judged:
    """The demo's test queries: BM25 and trained rankers."""
    collection = python_docs()
    with tempfile.TemporaryDirectory() as place:
        index = build_index(collection.documents, Path(place) / "docs.index", split_identifiers=True, field_views=True)
        names = [*feature_set("base", index.fields), *feature_set("sigir06")]
        data = make_features(index, collection.queries, features=names, qrels=collection.qrels, depth=100).data
    at = {query: number for number, query in enumerate(data.query_ids.tolist())}
    learn, valid, test = (data.select([at[query] for query in part if query in at]) for part in collection.split())
    scores = {"BM25": test.X[:, names.index(BM25)]}
    for method, settings in TRAINED.items():
        scores[method] = train(method, learn, valid, settings=settings).model.predict(test)
    return Judged({name: first(test, values) for name, values in scores.items()}, grades_of(collection.qrels))


def first(data: RankingData, scores: Array) -> dict[str, list[str]]:
    """The first documents by score, by query."""
    assert data.doc_ids is not None
    order = rank_order(scores.astype(np.float32), data.indptr, data.doc_ids)
    bounds = zip(data.query_ids.tolist(), data.indptr[:-1], data.indptr[1:], strict=True)
    return {query: list(map(str, data.doc_ids[order[start:stop][:DEPTH]])) for query, start, stop in bounds}


def collection(folder: Path) -> Judged:
    """A text collection: three retrieval functions."""
    queries = dict(read_queries(folder / "queries.jsonl"))
    tops: Tops = {}
    with tempfile.TemporaryDirectory() as place:
        index = build_index(folder / "docs.jsonl.gz", Path(place) / "docs.index")
        scorers = Columns(index, list(FUNCTIONS.values())).functions
        for name, function in FUNCTIONS.items():
            hits = scorers[function].search_all(list(queries.values()), DEPTH)
            bounds = zip(queries, hits.indptr[:-1], hits.indptr[1:], strict=True)
            tops[name] = {
                query: list(map(index.doc_id, hits.docs[start:stop].tolist())) for query, start, stop in bounds
            }
    return Judged(tops, grades_of(read_qrels(folder / "qrels.txt")))


# Judging


def judged(pool: JudgingPool, order: str, grades: Grades, seed: int) -> tuple[int, str | None]:
    """How many judgements it takes until a decision, or all there are; and who is better."""
    known: dict[Pair, float] = {}
    queries, names = shuffled_queries(pool, seed), tuple(pool.tops)
    test = Sequential(pool, (names[0], names[1]), queries, lambda query, one: known.get((query, one)), DEPTH)
    for at, pair in enumerate(planned(pool, order, seed), 1):
        known[pair] = grades.get(pair, 0.0)
        test.update(pair[0])
        better = test.decision().better
        if better is not None:
            return at, better
    return len(known), None


def exchanged(pool: JudgingPool, rng: np.random.Generator) -> JudgingPool:
    """The same two runs, a coin deciding for every query which one is the first: no difference but by chance."""
    names = list(pool.tops)
    tops: Tops = {name: {} for name in names}
    for query in pool.queries:
        pair = names if rng.random() < 0.5 else names[::-1]
        for name, other in zip(names, pair, strict=True):
            tops[name][query] = list(pool.tops[other].get(query, ()))
    return JudgingPool(pool.depth, tops)


def differences(pool: JudgingPool, grades: Grades, pairs: Iterable[Pair]) -> Array:
    """The difference of nDCG@10 by query, if these are judged."""
    qrels: dict[str, dict[str, float]] = {}
    for query, document in pairs:
        qrels.setdefault(query, {})[document] = grades.get((query, document), 0.0)
    values = []
    for tops in pool.tops.values():
        run = {query: {one: -float(at) for at, one in enumerate(top)} for query, top in tops.items() if top}
        with warnings.catch_warnings(action="ignore", category=InputWarning):  # queries that are not judged yet
            values.append(evaluate_run(qrels, run, ["nDCG@10"]).column("nDCG@10"))
    return np.asarray(values[0] - values[1])


def part_errors(pool: JudgingPool, order: str, grades: Grades) -> list[float]:
    """The mean distance from the difference with everything judged, after each share of the judgements."""
    errors = np.zeros((SEEDS, len(SHARES)))
    for seed in range(SEEDS):
        pairs = planned(pool, order, seed)
        whole = differences(pool, grades, pairs).mean()
        for at, share in enumerate(SHARES):
            part = pairs[: round(share * len(pairs))]
            errors[seed, at] = abs(differences(pool, grades, part).mean() - whole)
    return [float(one) for one in errors.mean(axis=0)]


# Tables


def pages(root: Path) -> Iterator[Shown]:
    """Judge every pair of rankers in every order."""
    sets = {DEMO: demo(), **{name: collection(root / "text" / folder) for folder, name in COLLECTIONS.items()}}
    yield {
        "orders of the queries": SEEDS,
        "queries": {name: len(next(iter(one.tops.values()))) for name, one in sets.items()},
    }
    pairs: list[list[Any]] = []
    decisions: list[list[Any]] = []
    errors: list[list[Any]] = []
    for name, one in sets.items():
        for ranker, pool in one.pools():
            gains = differences(pool, one.grades, planned(pool, ORDERS[0]))
            n_all = sum(len(pool.documents(query)) for query in pool.queries)
            pairs.append([name, ranker, gains.mean(), p_value("t", gains), n_all])
            for order in ORDERS:
                found = [judged(pool, order, one.grades, seed) for seed in range(SEEDS)]
                decided = [better for _, better in found if better is not None]
                counts = (len(decided), decided.count(ranker))
                decisions.append([name, ranker, order, float(np.median([number for number, _ in found])), *counts])
                errors.append([name, ranker, order, *part_errors(pool, order, one.grades)])
    yield Table("pairs", ["data", "ranker", "difference", "p", "judgements"], pairs, ["", "", "signed", "p", "integer"])
    head = ["data", "ranker", "order", "judgements", "decided", "for the ranker"]
    yield Table("decisions", head, decisions, ["", "", "", *["integer"] * 3])
    yield Table(
        "errors", ["data", "ranker", "order", *map("{:.0%}".format, SHARES)], errors, ["", "", "", *["3 digits"] * 3]
    )
    yield Table("chance", ["order", "comparisons", "claims"], [*by_chance(sets[DEMO])], ["", "integer", "integer"])


def by_chance(one: Judged) -> Iterator[list[Any]]:
    """How often a difference is claimed where there is none."""
    pool, rng = next(one.pools())[1], np.random.default_rng(0)
    for order in ORDERS:
        claims = [judged(exchanged(pool, rng), order, one.grades, seed)[1] is not None for seed in range(COINS)]
        yield [order, COINS, sum(claims)]


if __name__ == "__main__":
    run_study(__doc__, ("text",), pages)
