"""A few hundred figures on generated data, which anyone can rerun in seconds: the methods of the four papers.

Two data sets, three splits of their queries, four measures. `graded`: labels 0 to 3 from a linear function with noise.
`rare`: labels 0 and 1, few of them 1, from a function that is not linear. The adaptations start from a ranker of
`graded`, trained on other queries. C, epochs and trees are chosen on validation queries, by nDCG@10. A test draws ten
figures at random, reruns their cells and compares the digits (`tests/test_results.py`). Needs no data folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import QueryTrials, RankingData, adapt, evaluate
from rankwright.training.train import plan
from study_data import Fold, Shown, Table, run_study

MEASURES = ("AP", "RR", "nDCG@3", "nDCG@10")
SETS = ("graded", "rare")
SPLITS = (1, 2, 3)
GRID = [0.01, 1.0, 100.0]
QUERIES, DOCUMENTS, FEATURES = 60, 15, 8
NET = {"hidden": 3, "epochs": 15}
TREES = {"max_leaves": 4, "min_rows": 5}
HINGE = {"bound": "hinge"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "SVMmap": ("svm-map", {}),
    "SVMauc": ("svm-auc", {}),
    "SVMndcg-nc": ("svm-ndcg-nc", {}),
    "SVMndcg": ("svm-ndcg", {}),
    "SVMndcg, hinge": ("svm-ndcg", HINGE),
    "SVMmrr": ("svm-mrr", {}),
    "SVMmrr, hinge": ("svm-mrr", {**HINGE, "feature_map": "mrr"}),
    "DORM": ("dorm", {}),
    "DORM, hinge": ("dorm", HINGE),
    "SVMcombo": ("svm-combo", {}),
    "SVMacc": ("svm-acc", {}),
    "SVMacc2": ("svm-acc2", {}),
    "SVMmap, bins": ("svm-map", {"bins": 10, "standardize": False}),
    "RSVM": ("rank-svm", {}),
    "RSVM-IR": ("rsvm-ir", {}),
    "McRank": ("mcrank", {"n_trees": 15, **TREES}),
    "LambdaMART": ("lambdamart", {"n_trees": 20, **TREES}),
    "LambdaRank": ("lambdarank", NET),
}
ADAPTATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "2-way interpolation": ("interpolate", {}),
    "LambdaBoost": ("lambdaboost", {"trees": 20}),
    "LambdaSMART": ("lambdamart", {"trees": 20, "leaves": 4}),
}


def main() -> int:
    """Run the study and print its table."""
    run_study(__doc__, (), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """All cells."""
    rows = [
        [data, f"{split}", method, *cell(data, split, method).values()]
        for data in SETS
        for split in SPLITS
        for method in (*METHODS, *ADAPTATIONS)
    ]
    yield Table("cells", ["data", "split", "method", *MEASURES], rows, "short")


def cell(data: str, split: int, method: str) -> dict[str, float]:
    """Return the values of one method on the test queries of one split, by measure."""
    train, valid, test = folds(data)[split - 1]
    if method in METHODS:
        name, settings = METHODS[method]
        planned = plan(name, settings, validated=True)
        if hasattr(planned.ranker, "C_grid"):
            planned.ranker.C_grid = GRID
        model = planned.train(train, valid).model
    else:
        name, settings = ADAPTATIONS[method]
        model = adapt(background(), train, valid, method=name, **settings).model
    return evaluate(test, model.predict(test), measures=MEASURES).means


@cache
def background() -> Any:
    """Return a ranker of the rich domain."""
    return plan("lambdarank", NET).train(generated(LABELS["graded"], seed=2)).model


# Data


@cache
def folds(data: str) -> list[Fold]:
    """Return the splits of a data set."""
    made = generated(LABELS[data], seed=SETS.index(data))
    trials = QueryTrials(len(SPLITS), train=24, valid=12, test=24, random_state=0).split_queries(made)
    return [(made.select(one.train), made.select(one.valid), made.select(one.test)) for one in trials]


def graded(X: Any, noise: Any) -> Any:
    """Labels 0 to 3: a linear function with noise, cut at fixed values."""
    return np.digitize(X @ np.linspace(1.0, -0.6, FEATURES) + 1.2 * noise, [0.8, 1.8, 2.8])


def rare(X: Any, noise: Any) -> Any:
    """Labels 0 and 1: two features that have to be high together, or a third one alone."""
    return (np.maximum(np.minimum(X[:, 0], X[:, 1]), X[:, 2] - 0.8) + 0.5 * noise > 1.0).astype(int)


LABELS: dict[str, Callable[[Any, Any], Any]] = {"graded": graded, "rare": rare}


def generated(labels: Callable[[Any, Any], Any], seed: int) -> RankingData:
    """Return queries with features and labels drawn by a seed; sums of uniform numbers stand for normal ones."""
    rng = np.random.default_rng(seed)
    n = QUERIES * DOCUMENTS
    X = rng.random((n, FEATURES, 4)).sum(axis=2) - 2.0
    y = labels(np.round(1.7 * X, 3), rng.random((n, 4)).sum(axis=1) - 2.0)
    X[:, 3:] += rng.random((n, FEATURES - 3)) - 0.5
    return RankingData.from_arrays(np.round(X, 3), y, np.repeat(np.arange(QUERIES), DOCUMENTS))


if __name__ == "__main__":
    sys.exit(main())
