"""Learned combinations of retrieval functions against the best single function (SIGIR'07, Table 6, on other texts).

Cranfield, CISI, MEDLINE, CACM and NPL: full texts, indexed under three analysers. The features are the 15 base
functions (cosine, TF-IDF, BM25, language models with Dirichlet and Jelinek–Mercer smoothing, all with their defaults);
a query's candidates are the union of their first 1000. SVMmap, SVMndcg (ndcg@10) and SVMcombo (map, ndcg@10 and mrr@10,
the latter with the `po` map) are trained on standardised scores and on unstandardised threshold bins of the scores
([score ≥ t], 50 per function, chosen on the training queries). C is the decade from 1e-4 to 100 that is best on the
validation queries by the loss itself (SVMcombo: AP).

Trials are as in the paper, 50 with 10 training and 5 validation queries and all others for testing; in 10 more trials
half of the queries train and a fifth validate. Every query plays each role equally often, and its values are means over
the trials that test it. The best base function is chosen on the training and validation queries of each trial, by the
reported measure; "in hindsight" it is the best over all queries. Reciprocal-rank fusion of the 15 needs no judgements.

Unjudged documents are not relevant; relevant documents that no function retrieves count as missed. nDCG uses the grades
as gains; for AP, documents with a label of 1 or above are relevant. Needs `text` in the given folder or in
RANKWRIGHT_DATA; uses all cores. Prints Markdown; `--markdown FILE` also writes it to a file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from rankwright import (
    Columns,
    Comparison,
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
from study_data import marked, p_text, run_study, signed, table

Array = npt.NDArray[Any]
COLLECTIONS = {"cran": "Cranfield", "cisi": "CISI", "med": "MEDLINE", "cacm": "CACM", "npl": "NPL"}
MEASURES = ("AP", "nDCG@10")
LOSSES: dict[str, dict[str, Any]] = {
    "SVMmap": {"loss": "map"},
    "SVMndcg": {"loss": "ndcg@10"},
    "SVMcombo": {"loss": ["map", "ndcg@10", "mrr@10"], "feature_map": [None, None, "po"]},
}
BINS = ", bins"
METHODS = (*LOSSES, *(name + BINS for name in LOSSES))
CHOSEN, HINDSIGHT, FUSED = "best function, chosen", "best function, in hindsight", "rank fusion"
PAPER, HALF = "10 training queries", "half of the queries"
PAIRS = (("SVMmap", FUSED), ("SVMmap" + BINS, "SVMmap"), ("SVMcombo", "SVMmap"), ("SVMcombo" + BINS, "SVMcombo"))
TRIALS = {PAPER: 50, HALF: 10}
GRID = tuple(10.0**power for power in range(-4, 3))


@dataclass(frozen=True)
class Collection:
    """The features of all candidates, and the judgements of all documents."""

    data: RankingData
    documents: Array
    judgements: Judgements
    n_docs: int
    n_missed: int
    fused: TrecTable

    def split(self, design: str, trial: int) -> QuerySplit:
        """Return one trial of a design."""
        train, valid, test = sizes(design, self.data.n_queries)
        trials = QueryTrials(TRIALS[design], train=train, valid=valid, test=test)
        return list(trials.split_queries(self.data))[trial]

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


@cache
def collection(root: Path, name: str) -> Collection:
    """Index a collection and compute its features."""
    folder = root / "text" / name
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
    documents = np.char.encode(made.data.doc_ids, "utf-8")
    return Collection(made.data, documents, Judgements(qrels), index.n_docs, made.missed_documents, fuse(runs, "rrf"))


# Trials


@dataclass(frozen=True)
class Trial:
    """Results of one trial: the values of its test queries by method, and the chosen values of C."""

    test: Array
    values: dict[str, Array]  # test queries × measures
    picked: dict[str, float]
    warned: list[str]
    idle: list[str]  # methods whose objective equals a loss of 1 for every query, to within 0.1 %


def run_trial(root: Path, task: tuple[str, str, int]) -> Trial:
    """Train all methods on the training queries of a trial and test them."""
    name, design, number = task
    known = collection(root, name)
    split = known.split(design, number)
    train, valid = known.data.select(split.train), known.data.select(split.valid)
    bins = ThresholdBins().fit(train)
    binned = bins.transform_data(train), bins.transform_data(valid)
    labelled = np.concatenate([split.train, split.valid])
    best = known.of_functions[:, labelled].mean(axis=1).argmax(axis=0)
    hindsight = known.of_functions.mean(axis=1).argmax(axis=0)
    values = {
        CHOSEN: np.column_stack([known.of_functions[best[m], :, m] for m in range(len(MEASURES))]),
        HINDSIGHT: np.column_stack([known.of_functions[hindsight[m], :, m] for m in range(len(MEASURES))]),
        FUSED: known.values(known.fused),
    }
    picked, warned, idle = {}, [], []
    for method, options in LOSSES.items():
        for suffix, parts in (("", (train, valid)), (BINS, binned)):
            ranker = StructuredSVM(C="auto", C_grid=GRID, standardize=not suffix, bound="hinge", **options)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                ranker.fit(parts[0], eval_set=parts[1])
            model = bins.collapse(ranker.model_) if suffix else ranker.model_
            values[method + suffix] = known.values(model.score(known.data.X))
            picked[method + suffix] = ranker.C_
            warned += [method + suffix] * any(issubclass(one.category, ConvergenceWarning) for one in caught)
            n_losses = len(options["loss"]) if isinstance(options["loss"], list) else 1
            idle += [method + suffix] * (ranker.objective_ >= 0.999 * n_losses * ranker.C_)
    return Trial(split.test, {method: own[split.test] for method, own in values.items()}, picked, warned, idle)


@dataclass
class Result:
    """All trials of a design on a collection: values summed over the trials that test a query."""

    totals: dict[str, Array]
    counts: Array
    picked: dict[str, Counter[float]] = field(default_factory=lambda: {method: Counter() for method in METHODS})
    warned: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, trials: Sequence[Trial], n_queries: int) -> Result:
        """Sum several trials."""
        result = cls({}, np.zeros(n_queries))
        for trial in trials:
            result.counts[trial.test] += 1
            result.warned.update(trial.warned)
            result.idle.update(trial.idle)
            for method, C in trial.picked.items():
                result.picked[method][C] += 1
            for method, values in trial.values.items():
                total = result.totals.setdefault(method, np.zeros((n_queries, len(MEASURES))))
                total[trial.test] += values
        return result

    def systems(self, known: Collection) -> dict[str, Evaluation]:
        """Return the mean values of every query for each method."""
        form = evaluate_run(known.judgements, known.fused, MEASURES)
        return {
            method: Evaluation(
                known.data.query_ids, form.measures, total / self.counts[:, None], form.definitions, method
            )
            for method, total in self.totals.items()
        }


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("text",), _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    results: dict[tuple[str, str], Result] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        tasks = [(name, design, trial) for name in COLLECTIONS for design in TRIALS for trial in range(TRIALS[design])]
        trials = dict(zip(tasks, pool.map(partial(run_trial, root), tasks), strict=True))
    for name in COLLECTIONS:
        known = collection(root, name)
        for design in TRIALS:
            own = [trials[name, design, trial] for trial in range(TRIALS[design])]
            results[name, design] = Result.of(own, known.data.n_queries)
    yield _data({name: collection(root, name) for name in COLLECTIONS})
    for design in TRIALS:
        for name in COLLECTIONS:
            yield _results(name, design, collection(root, name), results[name, design])
    yield _summary(root, results)
    yield _pairs(root, results)
    yield _picked(results)


# Tables


def _data(collections: Mapping[str, Collection]) -> str:
    rows = []
    for name, known in collections.items():
        relevant = int((known.judgements.labels >= 1).sum())
        n_queries = known.data.n_queries
        designs = [" / ".join(map(str, sizes(design, n_queries))) for design in TRIALS]
        per_query = (f"{relevant / n_queries:.0f}", f"{known.data.n_docs / n_queries:,.0f}")
        rows.append([COLLECTIONS[name], f"{known.n_docs:,}", str(n_queries), *per_query, str(known.n_missed), *designs])
    head = ["data", "documents", "queries", "relevant per query", "candidates per query", "relevant, not a candidate",
            *(f"{design}: train / validate / test" for design in TRIALS)]  # fmt: skip
    return f"## The data and the design\n\n{table(head, rows)}"


def _results(name: str, design: str, known: Collection, result: Result) -> str:
    systems = result.systems(known)
    learned = [systems[method] for method in METHODS]
    against = {base: compare([systems[base], *learned], tests=("wilcoxon",)) for base in (CHOSEN, HINDSIGHT)}
    rows = []
    for method, system in systems.items():
        row = [method]
        for m, measure in enumerate(MEASURES):
            means = [one.values[:, m].mean() for one in systems.values()]
            row.append(marked(system.values[:, m].mean(), max(means)))
            row += ["" if method not in METHODS else _against(against[base], method, measure) for base in against]
        rows.append(row)
    best = [known.data.feature_names[known.of_functions[:, :, m].mean(axis=1).argmax()] for m in range(len(MEASURES))]
    versus = ["W/L, p: chosen", "W/L, p: hindsight"]
    head = ["", *(cell for measure in ("MAP", MEASURES[1]) for cell in (measure, *versus))]
    return (
        f"### {COLLECTIONS[name]}, {design}\n\n{table(head, rows)}\n"
        f"Best in hindsight: {best[0]} (MAP), {best[1]} ({MEASURES[1]}).\n"
    )


def _against(found: Comparison, method: str, measure: str) -> str:
    """Format a method's wins, losses and p; a star marks p below .05 after Holm's correction."""
    d = next(d for d in found.differences if d.system == method and d.measure == measure)
    return f"{d.wins}/{d.losses}, {p_text(d.p['wilcoxon'])}{'*' * (d.p_corrected['wilcoxon'] < 0.05)}"


def _summary(root: Path, results: Mapping[tuple[str, str], Result]) -> str:
    """Tables of all means."""
    pages = []
    for m, measure in enumerate(MEASURES):
        rows = []
        for (name, design), result in results.items():
            systems = result.systems(collection(root, name))
            means = [system.values[:, m].mean() for system in systems.values()]
            rows.append([COLLECTIONS[name], design, *(marked(mean, max(means)) for mean in means)])
        pages.append(f"### {measure}\n\n{table(['data', 'trained on', *systems], rows)}")
    return "## All means\n\n" + "\n".join(pages)


def _pairs(root: Path, results: Mapping[tuple[str, str], Result]) -> str:
    """Table comparing pairs of systems: difference of the means, wins and losses, p."""
    rows = []
    for (name, design), result in results.items():
        systems = result.systems(collection(root, name))
        cells = []
        for one, other in PAIRS:
            d = compare([systems[other], systems[one]], tests=("wilcoxon",)).differences[0]
            cells.append(f"{signed(d.difference)}, {d.wins}/{d.losses}, {p_text(d.p['wilcoxon'])}")
        rows.append([COLLECTIONS[name], design, *cells])
    head = ["data", "trained on", *(f"{one} over {other}" for one, other in PAIRS)]
    return f"## What helps: difference of MAP, W/L, p\n\n{table(head, rows)}"


def _picked(results: Mapping[tuple[str, str], Result]) -> str:
    rows = []
    for (name, design), result in results.items():
        for method in METHODS:
            counts = [str(result.picked[method][C]) for C in GRID]
            last = str(result.warned[method]), str(result.idle[method])
            rows.append([COLLECTIONS[name], design, method, *counts, *last])
    head = ["data", "trained on", "method", *(f"{C:g}" for C in GRID), "warned", "idle"]
    return (
        "## The C that validation picked\n\nTrials by C. Warned: training at the chosen C stopped before its "
        f"certificate. Idle: the objective equals a loss of 1 for every query, to within 0.1 %.\n\n{table(head, rows)}"
    )


if __name__ == "__main__":
    sys.exit(main())
