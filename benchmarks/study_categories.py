"""Claim: trees use categories better than their numbers, and hundreds of categories that mean nothing do little harm.

Made-up queries have six features that are numbers and one that is a category. Labels follow the numbers and, where the
category means something, a random effect of each category. LambdaMART is trained without the category, with its number,
and with it as a category; LightGBM with it as a category, with the same trees, leaves, rate and least rows of a leaf.
Printed is the mean nDCG@10 over 300 new queries, and over five draws. Needs lightgbm, and no data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import LambdaMART, RankingData, evaluate
from study_data import Shown, Table, run_study

Array = npt.NDArray[Any]
TREES, LEAVES, RATE, ROWS = 100, 20, 0.1, 20
SIZE, NUMBERS, TESTED = 20, 6, 300
DRAWS = 5
WAYS = ("without", "as number", "as category", "LightGBM")


def main() -> int:
    """Run the study and print its table."""
    run_study(__doc__, (), pages)
    return 0


def pages(_: Path) -> Iterable[Shown]:
    """Draw data, train and test on all of it."""
    rows = []
    for n_queries in (100, 400):
        for n_categories in (30, 200):
            for strength, what in ((0.0, "nothing"), (1.0, "much")):
                found = []
                for draw in range(DRAWS):
                    effects = strength * np.random.default_rng(1000 + draw).normal(size=n_categories)
                    train, test = (made(2 * draw + at, n, effects) for at, n in enumerate((n_queries, TESTED)))
                    found.append(values(train, test))
                rows.append([str(n_queries), str(n_categories), what, *np.mean(found, axis=0)])
    yield {"lightgbm": version("lightgbm"), "draws": DRAWS}
    yield Table("values", ["queries", "categories", "they mean", *WAYS], rows, ["", "", "", *["short"] * len(WAYS)])


def made(seed: int, n_queries: int, effects: Array) -> RankingData:
    """Queries whose labels follow numbers, and a category by its effect."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * SIZE, NUMBERS))
    category = rng.integers(0, len(effects), len(X))
    hidden = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + effects[category] + rng.normal(size=len(X))
    return RankingData.from_arrays(
        np.column_stack([X, category]), np.digitize(hidden, [0.5, 1.5, 2.5]), group=[SIZE] * n_queries
    )


def lightgbm_scores(train: RankingData, test: RankingData) -> Array:
    """Scores of LightGBM with the last feature as a category."""
    import lightgbm

    settings = {"objective": "lambdarank", "num_leaves": LEAVES, "learning_rate": RATE, "min_data_in_leaf": ROWS}
    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes, categorical_feature=[NUMBERS])
    booster = lightgbm.train({**settings, "verbose": -1, "num_threads": 1, "seed": 0}, data, TREES)
    return np.asarray(booster.predict(test.X))


def values(train: RankingData, test: RankingData) -> list[float]:
    """nDCG@10 of every way."""
    ranker = LambdaMART(TREES, RATE, LEAVES, min_rows=ROWS)
    only = [1.0] * NUMBERS + [0.0]
    without = ranker.fit(train.with_features(train.X * only)).predict(test.X * only)
    as_number = ranker.fit(train).predict(test.X)
    as_category = ranker.set_params(categorical=[NUMBERS]).fit(train).predict(test.X)
    scores = (without, as_number, as_category, lightgbm_scores(train, test))
    return [evaluate(test, one, measures=["nDCG@10"]).means["nDCG@10"] for one in scores]


if __name__ == "__main__":
    sys.exit(main())
