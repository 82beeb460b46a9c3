"""Cleaning as in KDD'08: what it drops, how long it takes, and how results change.

The second table: SVMmap in LETOR's folds, C chosen by AP on validation data; trained on all documents or on clean ones,
tested on all documents or on clean ones. AP is over the test queries that have a relevant document. Ties: the lowest
and the highest AP that breaking ties of scores can give. The last table: whether the papers' hinges can be lowered.

Needs `ohsumed_letor2`, `mq2008`, `mq2007`, `clueweb09_webis` and `mslr_sample` in the given folder or in
RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also writes a file.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rankwright import Cleaner, Cleaning, Model, RankingData, StructuredSVM, evaluate, train
from study_data import Fold, joined_tests, mq2008_folds, mq2008_parts, ohsumed_folds, read, run_study, short, table

NEEDED = ("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "mslr_sample")
MSLR_DOCS, MSLR_QUERIES = 1_200_192, 10_000  # MSLR-WEB10K
AS_GIVEN, SCALED = Cleaner(), Cleaner(scaled=True)


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, NEEDED, _pages)
    return 0


def _pages(root: Path) -> Iterable[str]:
    parts = {
        "OHSUMED": [joined_tests(ohsumed_folds(root))],
        "MQ2008": mq2008_parts(root),
        **{name: [read(path) for path in sorted((root / folder).glob("*.txt.gz"))] for name, folder in _OTHERS.items()},
    }
    data = {name: RankingData.concatenate([part.widened(_width(of)) for part in of]) for name, of in parts.items()}
    rows = [_counts(name, one, cleaner) for name, one in data.items() for cleaner in (AS_GIVEN, SCALED)]
    yield table(_HEAD, rows)
    yield _long(data["MSLR sample"])
    folds = {"OHSUMED": (ohsumed_folds(root), SCALED), "MQ2008": (mq2008_folds(root), AS_GIVEN)}
    head = ("data", "trained on", "tested on", "queries", "AP", "ties: lowest", "ties: highest", "share of AP")
    yield table(head, [row for name, of in folds.items() for row in _results(name, *of)])
    yield table(("data", "loss", "all documents", "clean ones"), _slacks({name: of for name, (of, _) in folds.items()}))


_OTHERS = {"MQ2007": "mq2007", "ClueWeb09": "clueweb09_webis", "MSLR sample": "mslr_sample"}
_HEAD = (
    *("data", "features", "all-zero", "relevant", "others", "pairs", "documents left"),
    *("queries without documents", "without an order", "seconds"),
)


def _width(parts: Iterable[RankingData]) -> int:
    return max(part.n_features for part in parts)


def _timed(data: RankingData, cleaner: Cleaner) -> tuple[Cleaning, float]:
    """Clean, the second time with compiled code, and measure CPU seconds."""
    cleaner.clean(data.select([0, 1]))
    began = time.process_time()
    _, found = cleaner.clean(data)
    return found, time.process_time() - began


def _counts(name: str, data: RankingData, cleaner: Cleaner) -> tuple[str, ...]:
    found, seconds = _timed(data, cleaner)
    left = found.documents - found.dropped
    counts = (found.all_zero, found.relevant, found.others, found.pairs)
    how = "scaled" if cleaner.scaled else "as given"
    kept = f"{left:,} of {found.documents:,} ({left / found.documents:.0%})"
    lost = [f"{number:,} of {found.queries:,}" for number in (found.queries_emptied, found.queries_without_order)]
    return name, how, *(f"{count:,}" for count in counts), kept, *lost, f"{seconds:.3f}"


def _long(sample: RankingData) -> str:
    """The sample of MSLR, repeated to the size of MSLR-WEB10K."""
    times = MSLR_DOCS // sample.n_docs
    X, labels = np.tile(sample.X, (times, 1)), np.tile(sample.labels, times)
    data = RankingData.from_arrays(X, labels, group=np.tile(sample.sizes, times))
    seconds = [f"{_timed(data, cleaner)[1]:.1f}" for cleaner in (AS_GIVEN, SCALED)]
    what = f"{data.n_docs:,} documents, {data.n_queries:,} queries, {data.n_features} features (MSLR sample, repeated)"
    return f"{what}: {seconds[0]} CPU seconds as given, {seconds[1]} scaled.\n"


def _results(name: str, folds: list[Fold], cleaner: Cleaner) -> Iterable[tuple[str, ...]]:
    clean = [tuple(cleaner.clean(part)[0] for part in fold) for fold in folds]
    cases = (("all", "all", folds, folds), ("clean", "all", clean, folds), ("all", "clean", folds, clean))
    for trained_on, tested_on, learn, test in (*cases, ("clean", "clean", clean, clean)):
        values = np.concatenate(
            [_values(train("svm-map", a[0], a[1]).model, b[2]) for a, b in zip(learn, test, strict=True)]
        )
        values = values[~np.isnan(values[:, 0])]
        mean, low, high = values.mean(axis=0)
        yield (
            name,
            trained_on,
            tested_on,
            f"{len(values)}",
            short(mean),
            short(low),
            short(high),
            f"{(high - low) / mean:.1%}",
        )


def _slacks(folds: dict[str, list[Fold]]) -> Iterable[tuple[str, ...]]:
    """Average hinge of the papers' problems at C = 1000, relative to weights of 0, mean over the folds."""
    warnings.simplefilter("ignore")  # where it is 1
    for name, of in folds.items():
        for loss in ("auc", "map", "ndcg@10", "mrr@10", "dorm@10"):
            own = "mrr" if loss == "mrr@10" else None
            ratios = []
            for clean in (False, True):
                parts = [SCALED.clean(train)[0] if clean else train for train, _, _ in of]
                fits = [StructuredSVM(loss, 1000.0, bound="hinge", feature_map=own).fit(part) for part in parts]
                ratios.append(float(np.mean([fit.C_path_[0]["slack_ratio"] for fit in fits])))
            yield name, loss, *(f"{ratio:.3f}" for ratio in ratios)


def _values(model: Model, data: RankingData) -> npt.NDArray[np.float64]:
    """AP of every query that has a relevant document, with ties as they are, broken against it, and broken for it."""
    rows = np.arange(data.n_docs)
    columns = []
    for order in (
        rows,
        np.lexsort((data.labels, data.query_of_row())),
        np.lexsort((-data.labels, data.query_of_row())),
    ):
        turned = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order])
        columns.append(evaluate(turned, model.predict(turned), measures=["AP"], empty="skip").values[:, 0])
    return np.column_stack(columns)


if __name__ == "__main__":
    sys.exit(main())
