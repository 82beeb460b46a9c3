"""What a model trained on our features loses on those that a Lucene engine computes by the exported settings.

The documents are those of Python's standard library. Features over all fields and over single ones are computed twice:
by Rankwright, and by Lucene's rules for the exported index (lengths in a byte, statistics over documents that have the
field, repeated words in full). LambdaMART is trained on half of the queries with either, and tested on the other half
with either; the mean over random halves is shown. The second set of features leaves out what differs most: fields that
documents lack, and saturation of repeated query words. No engine is run. `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from figures import Table
from rankwright import LambdaMART, RankingData, build_index, evaluate
from rankwright.datasets import python_docs
from rankwright.text.features import Columns
from rankwright.text.functions import BM25, TFIDF, JelinekMercer, feature_parts, parse_feature
from rankwright.text.index import Index
from study_runs import Shown, run_study

Array = npt.NDArray[Any]
_OTHERS = ("log-tf[porter+stop]", "jm[plain]", "tfidf[porter]")
SETS = {
    "usual": ["bm25[porter,name]", "bm25[porter,text]", "bm25[porter]", *_OTHERS],
    "close": ["bm25(k3=inf)[porter,name]", "bm25(k3=inf)[plain]", "bm25(k3=inf)[porter]", *_OTHERS],
}
DEPTH, TREES, HALVES = 30, 60, 10
OURS, LUCENE = "ours", "Lucene's"


def kept_lengths(lengths: Array) -> Array:
    """Lengths after a byte of Lucene held them: up to 40 as they are, then 24 plus four significant bits."""
    rest = np.maximum(lengths - 24, 1)
    step = 2 ** np.maximum(np.floor(np.log2(rest)).astype(np.int64) - 3, 0)
    return np.where(lengths < 40, lengths, 24 + rest // step * step)


def lucene_values(index: Index, name: str, query: str) -> Array:
    """A feature of all documents by Lucene's rules."""
    parts = feature_parts(name)
    assert parts is not None
    function, view = parse_feature(parts.function), index.view(parts.analyzer, parts.field)
    words = Counter(view.terms[word] for word in view.analyze(query) if word in view.terms)
    indptr, docs, counts, lengths = view.arrays
    kept = kept_lengths(lengths).astype(np.float64)
    n_docs, total = int((lengths > 0).sum()), float(lengths.sum())
    scores = np.zeros(view.n_docs)
    for term, repeated in sorted(words.items()):
        place = slice(int(indptr[term]), int(indptr[term + 1]))
        own, c = docs[place], counts[place].astype(np.float64)
        df, cf = len(own), c.sum()
        if isinstance(function, BM25):
            norm = function.k1 * (1 - function.b + function.b * kept[own] / (total / n_docs))
            scores[own] += repeated * np.log(1 + (n_docs - df + 0.5) / (df + 0.5)) * c / (c + norm)
        elif isinstance(function, TFIDF):
            scores[own] += repeated * (1 + np.log(c)) * np.log(1 + n_docs / df)
        elif isinstance(function, JelinekMercer):
            odds = (1 - function.lambda_) / function.lambda_
            scores[own] += repeated * np.log(1 + odds * c / kept[own] * total / cf)
        else:
            scores[own] += np.log(c + 1)
    return scores


def made_data(index: Index, names: list[str]) -> tuple[RankingData, RankingData]:
    """Our features and Lucene's, of the first documents by the first three features."""
    collection = python_docs()
    judgements = collection.qrels
    bounds = zip(judgements.query_ids.tolist(), judgements.indptr[:-1], judgements.indptr[1:], strict=True)
    labels = {
        query: dict(zip(judgements.documents[start:stop], judgements.values[start:stop].tolist(), strict=True))
        for query, start, stop in bounds
    }
    columns = Columns(index, names)
    ours, theirs, grades, queries = [], [], [], []
    for query, text in collection.queries.items():
        values = columns.values(text, range(index.n_docs))
        other = np.array([lucene_values(index, name, text) for name in names]).T
        rows = np.unique(np.argsort(-values[:, :3], axis=0)[:DEPTH])
        ours.append(values[rows])
        theirs.append(other[rows].astype(np.float32))
        judged = labels.get(query, {})
        grades += [float(judged.get(index.doc_id(int(row)).encode(), 0)) for row in rows]
        queries += [query] * len(rows)
    first, second = (
        RankingData.from_arrays(np.concatenate(part), grades, queries, feature_names=names) for part in (ours, theirs)
    )
    return first, second


def differences(data: dict[str, RankingData], names: list[str]) -> Iterator[list[Any]]:
    """How far the features are apart, relative to ours: the median, and what 99 of 100 values are below."""
    ours, theirs = (part.X.astype(np.float64) for part in data.values())
    for j, name in enumerate(names):
        found = ours[:, j] > 0
        size = np.abs(theirs[found, j] - ours[found, j]) / ours[found, j]
        yield [name, np.median(size), np.quantile(size, 0.99)]


def results(data: dict[str, RankingData]) -> Iterator[list[Any]]:
    """NDCG@10 by what was trained on and what is tested on."""
    found: dict[tuple[str, str], list[float]] = {}
    n_queries = data[OURS].n_queries
    for seed in range(HALVES):
        order = np.random.default_rng(seed).permutation(n_queries)
        for trained, train in data.items():
            ranker = LambdaMART(n_trees=TREES).fit(train.select(np.sort(order[: n_queries // 2])))
            for tested, test in data.items():
                part = test.select(np.sort(order[n_queries // 2 :]))
                value = evaluate(part, ranker.predict(part), measures=["nDCG@10"]).values.mean()
                found.setdefault((trained, tested), []).append(float(value))
    for ways, values in found.items():
        yield [*ways, np.mean(values)]


def pages(_: Path) -> Iterator[Shown]:
    """The differences of the features, and what is trained on them."""
    apart, means = [], []
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(python_docs().documents, Path(folder) / "docs.index")
        for title, names in SETS.items():
            data = dict(zip((OURS, LUCENE), made_data(index, names), strict=True))
            apart += [[title, *row] for row in differences(data, names)]
            means += [[title, *row] for row in results(data)]
        yield {"documents": index.n_docs, "queries": data[OURS].n_queries, "halves": HALVES}
    yield Table("apart", ["set", "feature", "median", "99 of 100"], apart, ["", "", "percent", "percent"])
    yield Table("nDCG@10", ["set", "trained on", "tested on", "nDCG@10"], means, ["", "", "", "short"])


if __name__ == "__main__":
    run_study(__doc__, (), pages)
