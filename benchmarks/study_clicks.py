"""Can clicks take the place of grades? Rankers of biased clicks beside the same rankers of the true grades.

Made-up queries have documents with known grades. A weak ranker with noise shows ten of them; users look at position k
with probability 1/k^eta and click what they look at by its grade (10 % of the documents of grade 0, too). From the
clicks alone propensities are estimated, and rankers trained: on the clicks as they are; on clicks weighted by the
inverse propensity of their position, or of all positions at which the document was shown (``pair``); and on grades
from click models. Values are nDCG@10 on new queries less that of the same ranker trained on the true grades. The last
table is of the intervals of click models: how many contain the truth, with users who behave as the model says.

Needs no data. Prints Markdown; ``--results FILE`` writes the figures as data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import ClickLog, LambdaMART, RankingData, RankingSVM, click_model, evaluate
from study_data import Shown, Table, run_study

Array = npt.NDArray[Any]
FEATURES, TRAINED, TESTED = 10, 300, 1000
SHOWN = 10


@dataclass(frozen=True)
class Users:
    """How many pages users see, how far they look, the chance of a click by grade, and how often they are drawn."""

    pages: int = 20_000
    eta: float = 1.0
    chance: tuple[float, ...] = (0.1, 0.4, 0.7, 1.0)
    draws: int = 3

    @property
    def theta(self) -> Array:
        """The probability that they look at each position."""
        return 1 / np.arange(1, SHOWN + 1) ** self.eta


USERS = {
    "as above": Users(draws=10),
    "5,000 pages": Users(pages=5000),
    "clicks on 20, 40, 60, 80 % by grade": Users(chance=(0.2, 0.4, 0.6, 0.8)),
    "looks with 1/k^1.5": Users(eta=1.5),
    "looks with 1/k²": Users(eta=2.0),
}
READERS = {"cascade": (1.0, 1.0), "sdbn": (0.5, 1.0), "dbn": (0.5, 0.8)}  # satisfied by a click, go on otherwise


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


def made(rng: np.random.Generator, n_queries: int) -> Queries:
    """Queries whose grades follow some of the features, not quite linearly."""
    X = rng.normal(size=(n_queries, SHOWN, FEATURES))
    hidden = X[..., 0] + 0.7 * X[..., 1] + 0.5 * X[..., 2] + 0.4 * X[..., 3] * X[..., 0]
    hidden += 0.5 * rng.normal(size=hidden.shape)
    return Queries(X, np.digitize(hidden, [0.5, 1.3, 2.2]))


@dataclass(frozen=True)
class Pages:
    """Pages: query, documents and clicks of each."""

    query: Array
    docs: Array
    clicked: Array

    @property
    def log(self) -> ClickLog:
        """The pages as a log."""
        query, clicked = np.repeat(self.query, SHOWN), self.clicked.ravel().astype(int)
        return ClickLog.from_columns(query, self.docs.ravel(), self.position, clicked, page=self.page)

    @property
    def page(self) -> Array:
        """Number of the page, of every impression."""
        return np.repeat(np.arange(len(self.query)), SHOWN)

    @property
    def position(self) -> Array:
        """Position of every impression."""
        return np.tile(np.arange(1, SHOWN + 1), len(self.query))

    @property
    def pair(self) -> Array:
        """A number for query and document of every impression."""
        return (self.query[:, np.newaxis] * SHOWN + self.docs).ravel()

    def data(self, queries: Queries) -> RankingData:
        """A query for every page, with clicks as labels."""
        X = queries.X[self.query[:, np.newaxis], self.docs].reshape(self.docs.size, -1)
        return RankingData.from_arrays(X, self.clicked.ravel().astype(float), self.page)


def ranked(rng: np.random.Generator, queries: Queries, n_pages: int) -> tuple[Array, Array]:
    """Queries and documents of pages by a weak ranker: one useful feature, one that means nothing, and noise."""
    query = rng.integers(0, len(queries.X), n_pages)
    weak = queries.X[query, :, 1] + queries.X[query, :, 9]
    return query, np.argsort(-(weak + rng.normal(size=weak.shape)), axis=1)


def browse(rng: np.random.Generator, queries: Queries, users: Users, appeal: Array | None = None) -> Pages:
    """Pages, and what users click on them.

    `appeal`: factor of the chance of a click for every document, besides its grade.
    """
    query, docs = ranked(rng, queries, users.pages)
    chance = np.array(users.chance)[queries.grades[query[:, np.newaxis], docs]] * users.theta
    if appeal is not None:
        chance *= appeal[query[:, np.newaxis], docs]
    return Pages(query, docs, rng.random(docs.shape) < chance)


def read_down(rng: np.random.Generator, queries: Queries, satisfied: float, goes_on: float) -> Pages:
    """Pages of users who read from the top until a click satisfies them or they give up."""
    query, docs = ranked(rng, queries, Users.pages)
    chance = np.array(Users.chance)[queries.grades[query[:, np.newaxis], docs]]
    clicked, reads = np.zeros(docs.shape, bool), np.ones(len(query), bool)
    for at in range(SHOWN):
        clicked[:, at] = reads & (rng.random(len(query)) < chance[:, at])
        content = clicked[:, at] & (rng.random(len(query)) < satisfied)
        reads &= ~content & (rng.random(len(query)) < goes_on)
    return Pages(query, docs, clicked)


def estimated(log: ClickLog, found: Any) -> tuple[Array, Array]:
    """Query and document of every pair that a click model has an estimate for."""
    kept = found.kept
    return log.query_ids.astype(int)[log.pair_query[kept]], log.doc_ids.astype(int)[log.pair_doc[kept]]


def graded(queries: Queries, log: ClickLog, model: str) -> RankingData:
    """The documents that a click model has an estimate for, with its grades."""
    found = click_model(log, model)
    query, document = estimated(log, found)
    return RankingData.from_arrays(queries.X[query, document], found.grades()[found.kept], query)


# Tables


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, (), pages)
    return 0


def pages(_: Path) -> Iterable[Shown]:
    """Yield the tables."""
    values: list[list[Any]] = []
    differences: list[list[Any]] = []
    errors: list[list[Any]] = []
    for name, users in USERS.items():
        drawn = [draw(seed, users) for seed in range(users.draws)]
        errors.append([name, users.draws, max(error for error, _ in drawn)])
        for ranker in drawn[0][1]:
            base = np.array([found[ranker]["true grades"] for _, found in drawn])
            values.append([name, ranker, float(base.mean())])
            for way in list(drawn[0][1][ranker])[1:]:
                less = np.array([found[ranker][way] for _, found in drawn]) - base
                differences.append([name, ranker, way, less.mean(), less.std(ddof=1), less.min()])
        print(name, file=sys.stderr, flush=True)
    yield Table("propensities", ["users", "draws", "largest error"], errors, ["", "integer", "3 digits"])
    yield "\nnDCG@10 of rankers trained on the true grades, and differences from it:\n"
    yield Table("true grades", ["users", "ranker", "nDCG@10"], values, "short")
    head = ["users", "ranker", "trained on", "mean", "standard deviation", "worst"]
    yield Table("differences", head, differences, ["", "", "", "signed", "short", "signed"])
    yield "\nIntervals of 95 %:\n"
    yield Table("intervals", ["model", "pairs", "inside"], list(intervals()), ["", "integer", "percent"])


def draw(seed: int, users: Users) -> tuple[float, dict[str, dict[str, float]]]:
    """The largest error of a propensity, and nDCG@10 of every ranker and way."""
    rng = np.random.default_rng(seed)
    train, test = made(rng, TRAINED), made(rng, TESTED).data
    seen = browse(rng, train, users)
    log, clicks = seen.log, seen.data(train)
    found = click_model(log).propensities
    by_position: dict[str, Any] = {"position": seen.position, "propensities": found}
    ways: dict[str, tuple[RankingData, dict[str, Any]]] = {
        "true grades": (train.data, {}),
        "clicks as they are": (clicks, {}),
        "weighted clicks": (clicks, by_position),
        "weighted clicks, with pair": (clicks, {**by_position, "pair": seen.pair}),
        "weighted clicks, true propensities": (clicks, {**by_position, "propensities": users.theta}),
        "grades of pbm": (graded(train, log, "pbm"), {}),
        "grades of coec": (graded(train, log, "coec"), {}),
    }

    def values(ranker: Any, names: Sequence[str]) -> dict[str, float]:
        fitted = {way: ranker.fit(ways[way][0], **ways[way][1]).predict(test) for way in names}
        return {way: evaluate(test, scores, measures=["nDCG@10"]).means["nDCG@10"] for way, scores in fitted.items()}

    rankers = {
        "Ranking SVM": values(RankingSVM(C=1.0), [*ways]),
        "LambdaMART": values(LambdaMART(100, min_rows=50), [*ways]),
        "LambdaMART, trees chosen": values(
            LambdaMART(100, min_rows=50, cv=5), ["true grades", "weighted clicks, with pair"]
        ),
    }
    return float(np.abs(found.value - users.theta).max()), rankers


def intervals() -> Iterable[list[Any]]:
    """Model, number of pairs, share of intervals that contain the truth."""
    rng = np.random.default_rng(0)
    queries = made(rng, TRAINED)
    for model in ("pbm", *READERS):
        satisfied, goes_on = READERS.get(model, (1.0, 1.0))
        seen = browse(rng, queries, Users()) if model == "pbm" else read_down(rng, queries, satisfied, goes_on)
        log = seen.log
        found = click_model(log, model)
        truth = satisfied * np.array(Users.chance)[queries.grades[estimated(log, found)]]
        lower, upper = found.lower[found.kept], found.upper[found.kept]
        yield [model, len(truth), float(np.mean((lower <= truth) & (truth <= upper)))]


if __name__ == "__main__":
    sys.exit(main())
