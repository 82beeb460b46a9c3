"""Clicks, then a few judgements: a ranker of clicks that is adapted to judged queries, beside either alone.

EMNLP'09 ends with this proposal. The users are those of `study_clicks.py`: they look at position k with probability
1/k, and click by grade. Here they also click what merely looks good: documents with a positive value of one feature,
which says nothing of their grade, are clicked as there, all others 0.4 times as often. No propensity takes that out;
people who judge are not taken in. Besides the ten features there are forty that mean nothing, which little data
mistakes. Ranking SVM is trained on weighted clicks (300 queries), on the judgements of a few other queries, and the
first is adapted to these in every way of `adapt`, with everything chosen by cross-validation. Values are nDCG@10 on new
queries, means of draws; p is that of a paired t-test over draws.

Needs no data. Prints Markdown; ``--results FILE`` writes the figures as data.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import RankingData, RankingSVM, adapt, click_model, evaluate
from rankwright.evaluation.significance import p_value
from study_clicks import SHOWN, TESTED, TRAINED, Queries, Users, browse, made
from study_data import Shown, Table, run_study

DRAWS = 20
SIZES = (5, 10, 20, 50, 100)  # judged queries
LOOKS_GOOD, PLAIN = 8, 0.4  # a feature, and how often documents with a negative value of it are clicked
FURTHER = 40  # features that mean nothing
WAYS = ("in-domain", "interpolate", "lambdaboost", "lambdamart", "auto")


def main() -> int:
    """Run the study and print its table."""
    warnings.simplefilter("ignore")  # few judged queries are what this is about
    run_study(__doc__, (), pages)
    return 0


def pages(_: Path) -> Iterable[Shown]:
    """Yield the table: a row for every way and number of judged queries."""
    drawn = []
    for seed in range(DRAWS):
        drawn.append(draw(seed))
        print(f"draw {seed}", file=sys.stderr, flush=True)
    values = {key: np.array([found[key] for found in drawn]) for key in drawn[0]}
    clicks = values.pop(("clicks", 0))
    yield {"draws": DRAWS, "clicks alone": clicks.mean()}
    rows = []
    for (way, size), own in values.items():
        less, more = own - clicks, own - values["in-domain", size]
        of_clicks = [less.mean(), less.std(ddof=1), p_value("t", less)]
        rows.append([way, str(size), own.mean(), *of_clicks, more.mean(), p_value("t", more)])
    head = ["way", "judged", "nDCG@10", "from clicks", "deviation", "p", "from judgements", "p, judgements"]
    yield Table("ways", head, rows, ["", "", "short", "signed", "short", "p", "signed", "p"])


def draw(seed: int) -> dict[tuple[str, int], float]:
    """nDCG@10 of the ranker of clicks (0 judged queries), and of every way by number of judged queries."""
    rng = np.random.default_rng(seed)
    train, judged, test = (wide(rng, n_queries) for n_queries in (TRAINED, max(SIZES), TESTED))
    held_out, all_judged = test.data, judged.data

    def value(model: Any) -> float:
        return evaluate(held_out, model.predict(held_out), measures=["nDCG@10"]).means["nDCG@10"]

    background = trained_on_clicks(rng, train)
    values = {("clicks", 0): value(background)}
    for size in SIZES:
        few: RankingData = all_judged.select(np.arange(size))
        for way in WAYS:
            values[way, size] = value(adapt(background, few, method=way))
    return values


def wide(rng: np.random.Generator, n_queries: int) -> Queries:
    """Queries with some more features than `study_clicks.py` has."""
    queries = made(rng, n_queries)
    return Queries(np.concatenate([queries.X, rng.normal(size=(n_queries, SHOWN, FURTHER))], axis=2), queries.grades)


def trained_on_clicks(rng: np.random.Generator, queries: Queries) -> RankingSVM:
    """Ranking SVM on clicks weighted by estimated propensities."""
    appeal = np.where(queries.X[..., LOOKS_GOOD] > 0, 1.0, PLAIN)
    seen = browse(rng, queries, Users(), appeal)
    propensities = click_model(seen.log).propensities
    return RankingSVM(C=1.0).fit(seen.data(queries), position=seen.position, pair=seen.pair, propensities=propensities)


if __name__ == "__main__":
    sys.exit(main())
