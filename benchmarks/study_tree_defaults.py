"""Which settings of LambdaMART hold everywhere: gain, the two factors of the gradients, leaves, fewest rows.

Every setting is trained on every data set, with the number of trees (up to 300, learning rate 0.1) chosen on
validation data, and measured by nDCG@10 on test data. Real data: that of `study_ramp`, the large
collections with fewer folds. Synthetic data: that of `bench_lambda_mart`, 60,000 and 240,000 documents, 500 queries
each to validate and to test.

Settings are named by gain and factors, leaves and fewest rows (20 if not named). Differences are from `paper, 20`
(squared error, no factors, 20 leaves), errors their standard errors over queries. Needs the folders of `study_auto`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_lambda_mart import SIZE, make
from rankwright import LambdaMART, RankingData, evaluate
from study_data import Fold, Shown, Table, run_study
from study_ramp import every_set as real_sets

Array = npt.NDArray[Any]
CHOOSE = "nDCG@10"
KINDS: dict[str, dict[str, Any]] = {
    "paper": {"gain": "squared", "normalize_queries": False, "nearness": 0.0},
    "newton": {"gain": "newton", "normalize_queries": False, "nearness": 0.0},
    "normal": {"gain": "newton", "normalize_queries": True, "nearness": 0.0},
    "near .01": {"gain": "newton", "normalize_queries": True, "nearness": 0.01},
    "near .03": {"gain": "newton", "normalize_queries": True, "nearness": 0.03},
    "near .1": {"gain": "newton", "normalize_queries": True, "nearness": 0.1},
    "near 1": {"gain": "newton", "normalize_queries": True, "nearness": 1.0},
}
BASE = "paper, 20"
SETTINGS = (
    BASE,
    *(f"{kind}, 10" for kind in KINDS),
    *(f"near .03, {rest}" for rest in ("5", "20", "31", "10, 5", "10, 50", "10, 100")),
)
FOLDS = {"cran": 1, "npl": 1, "demo": 1, "cisi": 2, "cacm": 2, "MQ2007": 2}  # of the large data sets
SYNTHETIC = {"synthetic 60,000": 60_000, "synthetic 240,000": 240_000}
HELD_OUT = 500  # queries
NEEDED = (
    *("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample"),
    "lightgbm_rank",
)


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, NEEDED, pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Train every setting on every data set."""
    rows: list[list[Any]] = []
    sets: list[list[Any]] = []
    for data, folds in every_set(root):
        found = {name: run(folds, name) for name in SETTINGS}
        base, _ = found[BASE]
        for name, (values, trees) in found.items():
            apart = (values - base)[~np.isnan(values - base)]
            error = None if name == BASE else float(apart.std(ddof=1) / np.sqrt(len(apart)))
            rows.append([data, name, float(np.nanmean(values)), float(apart.mean()), error, trees])
            print(data, name, *rows[-1][2:], file=sys.stderr, flush=True)
        kind = "synthetic" if data in SYNTHETIC else "real"
        sets.append([data, kind, len(folds), float(np.mean([train.n_docs for train, _, _ in folds])), len(base)])
    yield Table(
        "settings",
        ["data", "setting", CHOOSE, "difference", "error", "trees"],
        rows,
        ["", "", "short", "signed", "short", "integer"],
    )
    yield Table("sets", ["data", "kind", "folds", "documents", "test queries"], sets, ["", "", *["integer"] * 3])


# Data


def every_set(root: Path) -> Iterator[tuple[str, list[Fold]]]:
    """Return the data sets one after the other, the small ones first."""
    chosen = {data: folds[: FOLDS.get(data)] for data, folds in real_sets(root).items()}
    yield from sorted(chosen.items(), key=lambda one: sum(train.n_docs for train, _, _ in one[1]))
    for data, n_docs in SYNTHETIC.items():
        yield data, synthetic(n_docs)


def synthetic(n_docs: int) -> list[Fold]:
    """Draw documents to train on, and queries held out."""
    X, y = make(n_docs + 2 * HELD_OUT * SIZE)
    bounds = [0, n_docs, n_docs + HELD_OUT * SIZE, len(y)]
    train, valid, test = (
        RankingData.from_arrays(X[start:stop], y[start:stop], np.arange(stop - start) // SIZE)
        for start, stop in pairwise(bounds)
    )
    return [(train, valid, test)]


# Training


def parameters(name: str) -> dict[str, Any]:
    """Return the settings that a name stands for."""
    kind, leaves, *rows = name.split(", ")
    return KINDS[kind] | {"max_leaves": int(leaves), "min_rows": int(rows[0]) if rows else 20}


def run(folds: Sequence[Fold], name: str) -> tuple[Array, float]:
    """Return the values of all test queries, and the mean number of trees."""
    values: list[float] = []
    trees = []
    for train, valid, test in folds:
        ranker = LambdaMART(300, patience=50, **parameters(name)).fit(train, eval_set=valid)
        trees.append(ranker.n_trees_)
        values += evaluate(test, ranker.predict(test), measures=[CHOOSE]).column(CHOOSE).tolist()
    return np.array(values), float(np.mean(trees))


if __name__ == "__main__":
    sys.exit(main())
