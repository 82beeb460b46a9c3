"""Claim: trees use categories better than their numbers, and hundreds of categories that mean nothing do little harm.

Made-up queries have six features that are numbers and one that is a category. Labels follow the numbers and, where the
category means something, a random effect of each category. LambdaMART is trained without the category, with its number,
and with it as a category; LightGBM with it as a category, with the same trees, leaves, rate and least rows of a leaf.
Printed is the mean nDCG@10 over 300 new queries, and over several draws.

    python benchmarks/study_categories.py [--draws 5]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import LambdaMART, RankingData, evaluate

Array = npt.NDArray[Any]
TREES, LEAVES, RATE, ROWS = 100, 20, 0.1, 20
SIZE, NUMBERS, TESTED = 20, 6, 300


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


def values(train: RankingData, test: RankingData) -> dict[str, float]:
    """nDCG@10 of every way."""
    ranker = LambdaMART(TREES, RATE, LEAVES, min_rows=ROWS)
    only = [1.0] * NUMBERS + [0.0]
    without = ranker.fit(train.with_features(train.X * only)).predict(test.X * only)
    as_number = ranker.fit(train).predict(test.X)
    with_it = ranker.set_params(categorical=[NUMBERS]).fit(train).predict(test.X)
    scores = {"without": without, "number": as_number, "category": with_it, "LightGBM": lightgbm_scores(train, test)}
    return {name: evaluate(test, one, measures=["nDCG@10"]).means["nDCG@10"] for name, one in scores.items()}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    draws = parser.parse_args().draws
    print("| queries | categories | they mean | without | as number | as category | LightGBM |")
    print("|---|---|---|---|---|---|---|")
    for n_queries in (100, 400):
        for n_categories in (5, 30, 200):
            for strength, what in ((0.0, "nothing"), (1.0, "much")):
                found = []
                for draw in range(draws):
                    effects = strength * np.random.default_rng(1000 + draw).normal(size=n_categories)
                    parts = (made(2 * draw + at, n, effects) for at, n in enumerate((n_queries, TESTED)))
                    found.append(values(*parts))
                means = [f"{np.mean([one[name] for one in found]):.4f}" for name in found[0]]
                print(f"| {n_queries} | {n_categories} | {what} | {' | '.join(means)} |", flush=True)


if __name__ == "__main__":
    main()
