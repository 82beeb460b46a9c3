"""Cleaning as in KDD'08: what it drops, how long it takes, and how results change.

The second table: SVMmap in LETOR's folds, C chosen by AP on validation data; trained on all documents or on clean ones,
tested on all documents or on clean ones. AP is over the test queries that have a relevant document. Ties: the lowest
and the highest AP that breaking ties of scores can give.

Needs `ohsumed_letor2`, `mq2008`, `mq2007`, `clueweb09_webis` and `mslr_sample` in the given folder or in
RANKWRIGHT_DATA. `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import Cleaner, Cleaning, Model, RankingData, evaluate, train
from study_data import Fold, Shown, Table, joined_tests, mq2008_folds, mq2008_parts, ohsumed_folds, read, run_study

NEEDED = ("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "mslr_sample")
MSLR_DOCS = 1_200_192  # MSLR-WEB10K
SAMPLE = "MSLR sample (raw)"
OTHERS = {"MQ2007, S1 … S4": "mq2007", "ClueWeb09": "clueweb09_webis", SAMPLE: "mslr_sample"}
CLEANERS = {"as given": Cleaner(), "scaled": Cleaner(scaled=True)}
COUNTS = ["all-zero", "relevant", "others", "pairs", "documents", "left", "queries", "emptied", "without an order"]


def pages(root: Path) -> Iterable[Shown]:
    """Read the data, then one table after the other."""
    parts = {
        "OHSUMED (raw)": [joined_tests(ohsumed_folds(root))],
        "MQ2008": mq2008_parts(root),
        **{name: [read(path) for path in sorted((root / folder).glob("*.txt.gz"))] for name, folder in OTHERS.items()},
    }
    data = {name: RankingData.concatenate([part.widened(_width(of)) for part in of]) for name, of in parts.items()}
    rows = [
        [name, how, *_counts(one, cleaner)]
        for name, one in [*data.items(), long(data)]
        for how, cleaner in CLEANERS.items()
    ]
    formats = ["", "", *["integer"] * len(COUNTS), "3 digits"]
    yield Table("dropped", ["data", "features", *COUNTS, "seconds"], rows, formats)
    folds = {"OHSUMED": (ohsumed_folds(root), "scaled"), "MQ2008": (mq2008_folds(root), "as given")}
    found = [row for name, (of, how) in folds.items() for row in _results(name, of, CLEANERS[how])]
    head = ["data", "trained on", "tested on", "queries", "AP", "lowest", "highest"]
    yield Table("results", head, found, ["", "", "", "integer", "short", "short", "short"])


def long(data: dict[str, RankingData]) -> tuple[str, RankingData]:
    """The sample of MSLR, repeated to the size of MSLR-WEB10K."""
    sample = data[SAMPLE]
    times = MSLR_DOCS // sample.n_docs
    X, labels = np.tile(sample.X, (times, 1)), np.tile(sample.labels, times)
    return "MSLR sample, repeated", RankingData.from_arrays(X, labels, group=np.tile(sample.sizes, times))


def _width(parts: Iterable[RankingData]) -> int:
    return max(part.n_features for part in parts)


def _counts(data: RankingData, cleaner: Cleaner) -> list[float]:
    """Clean, the second time with compiled code; return the counts and CPU seconds."""
    cleaner.clean(data.select([0, 1]))
    began = time.process_time()
    found: Cleaning = cleaner.clean(data)[1]
    seconds = time.process_time() - began
    dropped = (found.all_zero, found.relevant, found.others, found.pairs)
    left = (found.documents, found.documents - found.dropped)
    return [*dropped, *left, found.queries, found.queries_emptied, found.queries_without_order, seconds]


def _results(name: str, folds: list[Fold], cleaner: Cleaner) -> Iterator[list[Any]]:
    clean = [tuple(cleaner.clean(part)[0] for part in fold) for fold in folds]
    cases = (("all", "all", folds, folds), ("clean", "all", clean, folds), ("all", "clean", folds, clean))
    for trained_on, tested_on, learn, test in (*cases, ("clean", "clean", clean, clean)):
        models = [train("svm-map", fold[0], fold[1]).model for fold in learn]
        found = [_values(model, fold[2]) for model, fold in zip(models, test, strict=True)]
        values = np.concatenate(found)
        values = values[~np.isnan(values[:, 0])]
        yield [name, trained_on, tested_on, len(values), *values.mean(axis=0)]


def _values(model: Model, data: RankingData) -> npt.NDArray[np.float64]:
    """AP of every query that has a relevant document, with ties as they are, broken against it, and broken for it."""
    queries = data.query_of_row()
    orders = (np.arange(data.n_docs), np.lexsort((data.labels, queries)), np.lexsort((-data.labels, queries)))
    columns = []
    for order in orders:
        turned = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order])
        columns.append(evaluate(turned, model.predict(turned), measures=["AP"], empty="skip").values[:, 0])
    return np.column_stack(columns)


if __name__ == "__main__":
    run_study(__doc__, NEEDED, pages)
