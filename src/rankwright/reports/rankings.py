"""Rankings to show side by side, embedded in the page: the first documents of some queries by every method.

A page keeps the hardest queries and those on which systems differ most, up to a limit; each document is written once
per query.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.reports.results import ResultsFolder
from rankwright.reports.statistics import DataSummary, train_sizes

Ranked = Mapping[str, Sequence[tuple[str, float]]]
_MAX_QUERIES = 200  # queries of one data set
_HARDEST = 12  # of these, as many as the table of them shows
_IN_ALL = 1000  # queries of a page


def limit_for(n_data: int) -> int:
    """How many queries of a data set a page with so many data sets keeps."""
    return max(1, min(_MAX_QUERIES, _IN_ALL // max(n_data, 1)))


def rankings_of(results: ResultsFolder, summary: DataSummary, limit: int) -> dict[str, Any] | None:
    """The rankings of the hardest queries, and of those on which methods differ most; None if there are none."""
    shown = shown_rankings(results, summary)
    values = summary.values[:, 0]
    has_value = ~np.isnan(values)
    spread = np.where(has_value, values, -math.inf).max(axis=0) - np.where(has_value, values, math.inf).min(axis=0)
    means = np.where(has_value, values, 0.0).sum(axis=0) / np.maximum(has_value.sum(axis=0), 1)
    relevant = [results.query(summary.name, query).relevant for query in summary.query_ids]
    hardest = [at for at in np.argsort(means, kind="stable").tolist() if relevant[at] != 0][:_HARDEST]
    order = list(dict.fromkeys([*(at for at in hardest if at in shown), *by_spread(shown, spread)]))
    systems = [(method, at, 1) for at, method in enumerate(summary.methods)]
    return embedded(systems, shown, order[:limit], len(summary.query_ids))


def by_spread(shown: Iterable[int], spread: Array) -> list[int]:
    """Queries, those first on which systems differ most."""
    return sorted(shown, key=lambda at: (-spread[at] if math.isfinite(spread[at]) else 0.0, at))


def shown_rankings(results: ResultsFolder, summary: DataSummary) -> dict[int, tuple[str, Ranked]]:
    """By place of a query: the split shown if it was tested in several, and the rankings of the methods there.

    If training sets differ in size, the split is one with the largest; otherwise the first.
    """
    sizes = train_sizes(results, summary.name)
    rankings: dict[int, tuple[str, Ranked]] = {}
    for at, query in enumerate(summary.query_ids):
        splits = results.rankings.get((summary.name, query)) or results.rankings.get(("", query))
        if splits:
            split = max(splits, key=lambda name: sizes.get(name, 0.0))
            ranked = {method: rows for method, rows in splits[split].items() if method in summary.methods}
            if ranked:
                rankings[at] = (split if len(splits) > 1 else "", ranked)
    return rankings


def embedded(
    systems: Sequence[tuple[str, int, int]],
    shown: Mapping[int, tuple[str, Ranked]],
    kept: Sequence[int],
    total: int,
) -> dict[str, Any] | None:
    """The rankings as plain lists: for each query its place, documents, grades, ranks by system, and split.

    `systems`: label, place of the method, and 0 if its values are those before, of two results folders. `shown`: by
    place of a query, the split and the ranking by label. `kept`: places of the queries to keep. `total`: queries of the
    data set.
    """
    if not shown:
        return None
    rows = []
    for at in sorted(kept):
        split, ranked = shown[at]
        grades: dict[str, float] = {}
        for documents in ranked.values():
            for document, grade in documents:
                if document not in grades or math.isnan(grades[document]):
                    grades[document] = grade
        place = {document: number for number, document in enumerate(grades)}
        lists = [
            [number, [place[document] for document, _ in ranked[label]]]
            for number, (label, _, _) in enumerate(systems)
            if label in ranked
        ]
        shown_grades = [None if math.isnan(grade) else _short(grade) for grade in grades.values()]
        rows.append([at, list(grades), shown_grades, lists, split])
    depth = max(len(documents) for _, ranked in shown.values() for documents in ranked.values())
    return {"systems": [list(system) for system in systems], "depth": depth, "of": total, "queries": rows}


def _short(grade: float) -> float | int:
    return int(grade) if grade.is_integer() else float(f"{grade:.3g}")
