"""Claim: from biased clicks, with propensities, a ranker is learnt that is about as good as one from true labels.

Made-up queries have documents with known grades. A weak ranker with noise shows ten of them; users look at position k
with probability 1/k^eta and click what they look at by its grade (10% of the documents of grade 0 too). From the clicks
alone propensities are estimated, and rankers trained: on the clicks as they are; on clicks that weigh by the inverse
propensity of their position (IPW), or of all positions at which the document was shown (pairs); and on grades from
click models. Printed are the largest error of a propensity, and the mean nDCG@10 over new queries less that of the same
ranker trained on the true grades: mean, standard deviation and worst of several draws.

    python benchmarks/study_clicks.py [--draws 10] [--first 0] [--pages 20000] [--shown 10] [--docs 10] [--eta 1]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import ClickLog, LambdaMART, RankingData, RankingSVM, click_model, evaluate

Array = npt.NDArray[Any]
FEATURES, TRAINED, TESTED = 10, 300, 300
CHANCE = np.array([0.1, 0.4, 0.7, 1.0])  # of a click on what is looked at, by grade


@dataclass(frozen=True)
class Queries:
    """Queries with the same number of documents each: features, grades."""

    X: Array
    grades: Array

    @property
    def data(self) -> RankingData:
        """All documents, with their true grades."""
        n, size, _ = self.X.shape
        return RankingData.from_arrays(self.X.reshape(n * size, -1), self.grades.ravel(), group=[size] * n)


def made(rng: np.random.Generator, n_queries: int, n_docs: int) -> Queries:
    """Queries whose grades follow some of the features, not quite linearly."""
    X = rng.normal(size=(n_queries, n_docs, FEATURES))
    hidden = X[..., 0] + 0.7 * X[..., 1] + 0.5 * X[..., 2] + 0.4 * X[..., 3] * X[..., 0]
    hidden += 0.5 * rng.normal(size=hidden.shape)
    return Queries(X, np.digitize(hidden, [0.5, 1.3, 2.2]))


@dataclass(frozen=True)
class Shown:
    """Pages: query, documents and clicks of each."""

    query: Array
    docs: Array
    clicked: Array

    @property
    def log(self) -> ClickLog:
        """The pages as a log."""
        n, shown = self.docs.shape
        position = np.tile(np.arange(1, shown + 1), n)
        page = np.repeat(np.arange(n), shown)
        return ClickLog.from_columns(
            np.repeat(self.query, shown), self.docs.ravel(), position, self.clicked.ravel().astype(int), page=page
        )


def browse(
    rng: np.random.Generator, queries: Queries, n_pages: int, shown: int, theta: Array, appeal: Array | None = None
) -> Shown:
    """Pages that a weak ranker shows: one useful feature, one that means nothing, and noise.

    `appeal`: factor of the chance of a click for every document, besides its grade.
    """
    query = rng.integers(0, len(queries.X), n_pages)
    weak = queries.X[query, :, 1] + queries.X[query, :, 9]
    docs = np.argsort(-(weak + rng.normal(size=weak.shape)), axis=1)[:, :shown]
    chance = CHANCE[queries.grades[query[:, np.newaxis], docs]] * theta
    if appeal is not None:
        chance *= appeal[query[:, np.newaxis], docs]
    return Shown(query, docs, rng.random(docs.shape) < chance)


def graded(queries: Queries, log: ClickLog, model: str) -> RankingData:
    """The documents that a click model has an estimate for, with its grades."""
    found = click_model(log, model)
    query = log.query_ids.astype(int)[log.pair_query[found.kept]]
    document = log.doc_ids.astype(int)[log.pair_doc[found.kept]]
    return RankingData.from_arrays(queries.X[query, document], found.grades()[found.kept], query)


def draw(seed: int, given: Any) -> tuple[float, dict[str, dict[str, float]]]:
    """The largest error of a propensity, and nDCG@10 of every ranker and way."""
    rng = np.random.default_rng(seed)
    n_pages, shown = given.pages, given.shown
    train, test = made(rng, TRAINED, given.docs), made(rng, TESTED, given.docs).data
    theta = 1 / np.arange(1, shown + 1) ** given.eta
    pages = browse(rng, train, n_pages, shown, theta)
    log = pages.log
    found = click_model(log).propensities
    X = train.X[pages.query[:, np.newaxis], pages.docs].reshape(-1, FEATURES)
    y, page = pages.clicked.ravel().astype(float), np.repeat(np.arange(n_pages), shown)
    position = np.tile(np.arange(1, shown + 1), n_pages)
    pair = (pages.query[:, np.newaxis] * given.docs + pages.docs).ravel()

    def value(fitted: Any) -> float:
        return evaluate(test, fitted.predict(test), measures=["nDCG@10"]).means["nDCG@10"]

    def clicks(ranker: Any, **weights: Any) -> float:
        return value(ranker.fit(X, y, page, **({"position": position} | weights if weights else {})))

    values: dict[str, dict[str, float]] = {}
    for name, ranker in (("RankingSVM", RankingSVM(C=1.0)), ("LambdaMART", LambdaMART(100, min_rows=50))):
        values[name] = {
            "true grades": value(ranker.fit(train.data)),
            "clicks": clicks(ranker),
            "IPW": clicks(ranker, propensities=found),
            "IPW, pairs": clicks(ranker, propensities=found, pair=pair),
            "IPW, true": clicks(ranker, propensities=theta),
            "grades, pbm": value(ranker.fit(graded(train, log, "pbm"))),
            "grades, coec": value(ranker.fit(graded(train, log, "coec"))),
        }
    chosen = LambdaMART(100, min_rows=50, cv=5)
    values["LambdaMART, trees by cross-validation"] = {
        "true grades": value(chosen.fit(train.data)),
        "IPW, pairs": clicks(chosen, propensities=found, pair=pair),
        "grades, pbm": value(chosen.fit(graded(train, log, "pbm"))),
    }
    return float(np.abs(found.value - theta).max()), values


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="Seed of the first draw.")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--shown", type=int, default=10)
    parser.add_argument("--docs", type=int, default=10)
    parser.add_argument("--eta", type=float, default=1.0)
    given = parser.parse_args()
    began = time.perf_counter()
    drawn = [draw(seed, given) for seed in range(given.first, given.first + given.draws)]
    print(f"largest error of a propensity: {', '.join(f'{error:.3f}' for error, _ in drawn)}")
    for ranker in drawn[0][1]:
        base = np.array([values[ranker]["true grades"] for _, values in drawn])
        print(f"{ranker}: true grades {base.mean():.4f}")
        for way in list(drawn[0][1][ranker])[1:]:
            less = np.array([values[ranker][way] for _, values in drawn]) - base
            spread = f"± {less.std(ddof=1 if len(less) > 1 else 0):.4f}, worst {less.min():+.4f}"
            print(f"    {way:16} {less.mean():+.4f} {spread}  ({', '.join(f'{one:+.4f}' for one in less)})")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
