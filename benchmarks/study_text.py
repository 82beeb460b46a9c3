"""Learned combinations of retrieval functions against the best single function (SIGIR'07, Table 6, on other texts).

Cranfield, CISI, MEDLINE, CACM and NPL: full texts, indexed under three analysers. The features are the 15 base
functions (cosine, TF-IDF, BM25, language models with Dirichlet and Jelinek–Mercer smoothing, all with their defaults);
a query's candidates are the union of their first 1000. SVMmap, SVMndcg (ndcg@10) and SVMcombo (map, ndcg@10 and mrr@10)
are trained on standardised scores with default settings, SVMmap also on threshold bins of the scores ([score ≥ t], 50
per function, chosen on the training queries), which are not standardised. C is chosen on the validation queries.

Trials are as in the paper, 50 with 10 training and 5 validation queries and all others for testing; in 10 more trials
half of the queries train and a fifth validate. Every query plays each role equally often, and its values are means over
the trials that test it. The best base function is chosen on the training and validation queries of each trial, by the
reported measure; "in hindsight" it is the best over all queries. Reciprocal-rank fusion of the 15 needs no judgements.

Unjudged documents are not relevant; relevant documents that no function retrieves count as missed. nDCG uses the grades
as gains; for AP, documents with a label of 1 or above are relevant. Needs `text` in the given folder or in
RANKWRIGHT_DATA. `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from figures import Table
from rankwright import (
    Columns,
    Evaluation,
    QuerySplit,
    QueryTrials,
    RankingData,
    StructuredSVM,
    ThresholdBins,
    TrecTable,
    build_index,
    compare,
    evaluate_run,
    feature_set,
    fuse,
    make_features,
    read_qrels,
    read_queries,
)
from rankwright.evaluation.evaluate import Judgements
from study_runs import Shown, run_study

Array = npt.NDArray[Any]
COLLECTIONS = {"cran": "Cranfield", "cisi": "CISI", "med": "MEDLINE", "cacm": "CACM", "npl": "NPL"}
MEASURES = ("AP", "nDCG@10")
LOSSES: dict[str, str | list[str]] = {"SVMmap": "map", "SVMndcg": "ndcg@10", "SVMcombo": ["map", "ndcg@10", "mrr@10"]}
BINS = "SVMmap, bins"
METHODS = ("SVMmap", BINS, "SVMndcg", "SVMcombo")
CHOSEN, HINDSIGHT, FUSED = "best function, chosen", "best function, in hindsight", "rank fusion"
PAPER, HALF = "10 training queries", "half of the queries"
PAIRS = (("SVMmap", FUSED), (BINS, "SVMmap"), ("SVMndcg", "SVMmap"), ("SVMcombo", "SVMmap"))
TRIALS = {PAPER: 50, HALF: 10}
N_BINS = 50


# Collections


@dataclass(frozen=True)
class Collection:
    """The features of all candidates, and the judgements of all documents."""

    data: RankingData
    documents: Array
    judgements: Judgements
    n_docs: int
    n_missed: int
    fused: TrecTable

    def values(self, scores: Array | TrecTable) -> Array:
        """Return queries × measures for scores of all candidates, or for a run."""
        if not isinstance(scores, TrecTable):
            scores = TrecTable(self.data.query_ids, self.data.indptr, self.documents, scores)
        found = evaluate_run(self.judgements, scores, MEASURES)
        place = {query: row for row, query in enumerate(found.query_ids.tolist())}
        return found.values[[place[query] for query in self.data.query_ids.tolist()]]

    @cached_property
    def of_functions(self) -> Array:
        """Functions × queries × measures."""
        return np.stack([self.values(column) for column in self.data.X.T])


def sizes(design: str, n_queries: int) -> tuple[int, int, int]:
    """Return the numbers of queries to train, validate and test."""
    train, valid = (10, 5) if design == PAPER else (n_queries // 2, n_queries // 5)
    return train, valid, n_queries - train - valid


def collection(folder: Path) -> Collection:
    """Index a collection and compute its features."""
    qrels = read_qrels(folder / "qrels.txt")
    queries = read_queries(folder / "queries.jsonl")
    with tempfile.TemporaryDirectory() as place:
        index = build_index(folder / "docs.jsonl.gz", Path(place) / "docs.index")
        columns = Columns(index, feature_set("base"))
        made = make_features(index, queries, features=columns, qrels=qrels)
        assert not made.without_candidates
        texts, runs = dict(queries), []
        for scorer in columns.functions.values():
            hits = scorer.search_all([texts[query] for query in made.data.query_ids.tolist()], 1000)
            runs.append(TrecTable(made.data.query_ids, hits.indptr, index.doc_ids[hits.docs], hits.scores))
    documents = np.char.encode(made.data.doc_ids, "utf-8")  # type: ignore[arg-type]
    return Collection(made.data, documents, Judgements(qrels), index.n_docs, made.missed_documents, fuse(runs, "rrf"))


# Trials


def run_trial(known: Collection, split: QuerySplit) -> tuple[dict[str, Array], list[str]]:
    """Train all methods on the training queries of a trial; return queries × measures, and who was not certified."""
    train, valid = known.data.select(split.train), known.data.select(split.valid)
    labelled = np.concatenate([split.train, split.valid])
    best = known.of_functions[:, labelled].mean(axis=1).argmax(axis=0)
    values = {CHOSEN: np.column_stack([known.of_functions[best[m], :, m] for m in range(len(MEASURES))])}
    bins = ThresholdBins(N_BINS).fit(train)
    warned = []
    for method in METHODS:
        binned = method == BINS
        parts = (bins.transform_data(train), bins.transform_data(valid)) if binned else (train, valid)
        ranker = StructuredSVM("map" if binned else LOSSES[method], C="auto", standardize=not binned)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            ranker.fit(parts[0], eval_set=parts[1])
        model = bins.collapse(ranker.model_) if binned else ranker.model_
        values[method] = known.values(model.score(known.data.X))
        warned += [method] * any(issubclass(one.category, ConvergenceWarning) for one in caught)
    return values, warned


def run_trials(known: Collection, design: str) -> tuple[dict[str, Evaluation], list[str]]:
    """Return the values of every query for each method, means over the trials that test it; and who was not certified.

    What does not depend on the trial has the same value in all of them.
    """
    n_queries = known.data.n_queries
    train, valid, test = sizes(design, n_queries)
    hindsight = known.of_functions.mean(axis=1).argmax(axis=0)
    fixed = {
        HINDSIGHT: np.column_stack([known.of_functions[hindsight[m], :, m] for m in range(len(MEASURES))]),
        FUSED: known.values(known.fused),
    }
    totals = {method: np.zeros((n_queries, len(MEASURES))) for method in (CHOSEN, *METHODS)}
    counts, uncertified = np.zeros((n_queries, 1)), []
    for split in QueryTrials(TRIALS[design], train=train, valid=valid, test=test).split_queries(known.data):
        values, warned = run_trial(known, split)
        counts[split.test] += 1
        uncertified += warned
        for method, total in totals.items():
            total[split.test] += values[method][split.test]
    means = {method: total / counts for method, total in totals.items()}
    form = evaluate_run(known.judgements, known.fused, MEASURES)
    ordered = {CHOSEN: means[CHOSEN], **fixed, **{method: means[method] for method in METHODS}}
    return {
        method: Evaluation(known.data.query_ids, form.measures, values, form.definitions, method)
        for method, values in ordered.items()
    }, uncertified


# Tables


def pages(root: Path) -> Iterator[Shown]:
    """Run all trials on one collection after the other."""
    data: list[list[Any]] = []
    means: list[list[Any]] = []
    against: list[list[Any]] = []
    pairs: list[list[Any]] = []
    uncertified: list[str] = []
    for folder, name in COLLECTIONS.items():
        known = collection(root / "text" / folder)
        data.append([name, *described(known)])
        for design in TRIALS:
            systems, warned = run_trials(known, design)
            uncertified += warned
            means += [[name, design, method, *one.values.mean(axis=0)] for method, one in systems.items()]
            learned = [systems[method] for method in METHODS]
            against += [
                [name, design, d.system, str(d.measure), base, *compared(d), d.p_corrected["wilcoxon"]]
                for base in (CHOSEN, HINDSIGHT)
                for d in compare([systems[base], *learned], tests=("wilcoxon",)).differences
            ]
            for one, other in PAIRS:
                d = compare([systems[other], systems[one]], tests=("wilcoxon",)).differences[0]
                pairs.append([name, design, one, other, *compared(d)])
    yield {"fits": len(COLLECTIONS) * len(METHODS) * sum(TRIALS.values()), "uncertified": len(uncertified)}
    head = ["data", "documents", "queries", "relevant per query", "candidates per query", "relevant, not a candidate"]
    best = [f"best in hindsight: {measure}" for measure in MEASURES]
    yield Table("data", [*head, *TRIALS, *best], data, ["", *["integer"] * 5, "", "", "", ""])
    yield Table("means", ["data", "trained on", "method", *MEASURES], means, ["", "", "", "short", "short"])
    figures, formats = ["difference", "wins", "losses", "p"], ["signed", "integer", "integer", "p"]
    head = ["data", "trained on", "method", "measure", "against", *figures, "corrected p"]
    yield Table("against", head, against, [*[""] * 5, *formats, "p"])
    head = ["data", "trained on", "method", "other", *figures]
    yield Table("pairs", head, pairs, [*[""] * 4, *formats])


def described(known: Collection) -> list[Any]:
    """Sizes of a collection, of its trials, and its best functions."""
    n_queries, names = known.data.n_queries, known.data.feature_names
    assert names is not None
    relevant = int((known.judgements.labels >= 1).sum())
    best = known.of_functions.mean(axis=1).argmax(axis=0).tolist()
    designs = [" / ".join(map(str, sizes(design, n_queries))) for design in TRIALS]
    per_query = (relevant / n_queries, known.data.n_docs / n_queries)
    return [known.n_docs, n_queries, *per_query, known.n_missed, *designs, *(names[at] for at in best)]


def compared(difference: Any) -> list[Any]:
    """The figures of a comparison of two systems."""
    return [difference.difference, difference.wins, difference.losses, difference.p["wilcoxon"]]


if __name__ == "__main__":
    run_study(__doc__, ("text",), pages)
