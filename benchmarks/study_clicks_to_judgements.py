"""Claim: with 20 to 50 judged queries, a ranker of clicks that is adapted to them is better than either alone.

The users of `study_clicks.py`: position k is looked at with probability 1/k, and clicked by grade. Here they also click
what merely looks good: documents with a positive value of one feature, which says nothing of their grade, are clicked
as above, all others `--plain` times as often. No propensity takes that out; people who judge are not taken in. To the
ten features there are `--further` ones that mean nothing, which little data mistakes. Ranking SVM is trained on
weighted clicks (300 queries), on the judgements of a few other queries, and the first is adapted to these in several
ways, everything chosen by cross-validation. Printed is nDCG@10 on 300 new queries, mean over draws, with the difference
from the ranker of clicks and its standard deviation over draws.

    python benchmarks/study_clicks_to_judgements.py [--draws 10] [--pages 20000] [--plain 0.4] [--further 40]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from rankwright import RankingData, RankingSVM, adapt, click_model, evaluate
from study_clicks import TESTED, TRAINED, Queries, browse, made
from study_data import short, signed, table

SHOWN = 10
LOOKS_GOOD = 8  # the feature
WAYS = ("in-domain", "interpolate", "lambdaboost", "lambdamart", "auto")
NAMES = {"in-domain": "judgements alone", "auto": "adapted, auto", "clicks": "clicks alone"}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--plain", type=float, default=0.4, help="Clicks on documents that do not look good.")
    parser.add_argument("--further", type=int, default=40, help="Features that mean nothing.")
    parser.add_argument("--judged", default="5,10,20,50,100", help="Numbers of judged queries.")
    given = parser.parse_args()
    began = time.process_time()
    warnings.simplefilter("ignore")
    sizes = [int(size) for size in given.judged.split(",")]
    drawn = [draw(seed, given, sizes) for seed in range(given.draws)]
    clicks = np.array([values["clicks", 0] for values in drawn])
    rows = [[NAMES["clicks"], *[short(float(clicks.mean()))] * len(sizes)]]
    for way in WAYS:
        row = [NAMES.get(way, f"adapted, {way}")]
        for size in sizes:
            values = np.array([values[way, size] for values in drawn])
            less = values - clicks
            row.append(
                f"{short(float(values.mean()))} ({signed(float(less.mean()))} ± {short(float(less.std(ddof=1)))})"
            )
        rows.append(row)
    print(table(["nDCG@10, judged queries", *map(str, sizes)], rows))
    print(f"CPU seconds: {time.process_time() - began:.0f}")


def draw(seed: int, given: Any, sizes: list[int]) -> dict[tuple[str, int], float]:
    """nDCG@10 of the ranker of clicks, and by number of judged queries of every way."""
    rng = np.random.default_rng(seed)
    train, judged, test = (wide(rng, n_queries, given.further) for n_queries in (TRAINED, max(sizes), TESTED))
    background = trained_on_clicks(rng, train, given.pages, given.plain)

    def value(model: Any) -> float:
        return evaluate(test.data, model.predict(test.data), measures=["nDCG@10"]).means["nDCG@10"]

    values = {("clicks", 0): value(background)}
    for size in sizes:
        few = judged.data.select(np.arange(size))
        for way in WAYS:
            values[way, size] = value(adapt(background, few, method=way))
    return values


def wide(rng: np.random.Generator, n_queries: int, n_further: int) -> Queries:
    """Queries with some more features than `study_clicks.py` has."""
    queries = made(rng, n_queries, SHOWN)
    return Queries(np.concatenate([queries.X, rng.normal(size=(n_queries, SHOWN, n_further))], axis=2), queries.grades)


def trained_on_clicks(rng: np.random.Generator, queries: Queries, n_pages: int, plain: float) -> RankingSVM:
    """Ranking SVM on clicks weighted by estimated propensities."""
    appeal = np.where(queries.X[..., LOOKS_GOOD] > 0, 1.0, plain)
    pages = browse(rng, queries, n_pages, SHOWN, 1 / np.arange(1, SHOWN + 1), appeal)
    X = queries.X[pages.query[:, np.newaxis], pages.docs].reshape(n_pages * SHOWN, -1)
    page, position = np.repeat(np.arange(n_pages), SHOWN), np.tile(np.arange(1, SHOWN + 1), n_pages)
    pair = (pages.query[:, np.newaxis] * SHOWN + pages.docs).ravel()
    data = RankingData.from_arrays(X, pages.clicked.ravel().astype(float), page)
    return RankingSVM(C=1.0).fit(data, position=position, pair=pair, propensities=click_model(pages.log).propensities)


if __name__ == "__main__":
    main()
