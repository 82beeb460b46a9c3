"""The data behind the plots and rankings of a report: plain lists and numbers, embedded in the page as JSON.

Of rankings, to show side by side, a page keeps those of the hardest queries and of those on which systems differ most,
up to a limit; each document is written once per query.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import TESTS
from rankwright.reports.results import HEALTH_COLUMNS, ResultsFolder, RunRow, canonical
from rankwright.reports.statistics import ComparisonProtocol, DataSummary, train_sizes, verdict

_DIGITS = 6
_TEXT = 400  # most characters of a query
_NAMES = 12  # most non-numeric values in a panel
_CRITERIA = ("trained_for", "losses", "loss", "measure")
Ranked = Mapping[str, Sequence[tuple[str, float]]]
_MAX_QUERIES = 200  # queries of one data set
_HARDEST = 12  # of these, as many as the table of them shows
_IN_ALL = 1000  # queries of a page


def figures(results: ResultsFolder, protocol: ComparisonProtocol, data: Sequence[DataSummary]) -> dict[str, Any]:
    """The data of all plots, by data set."""
    return {
        "methods": list(protocol.methods),
        "measures": list(protocol.measures),
        "baseline": protocol.baseline,
        "test": TESTS[protocol.tests[0]][0],
        "confidence": protocol.confidence,
        "data": [_of_data(results, summary, limit_for(len(data))) for summary in data],
    }


def _of_data(results: ResultsFolder, summary: DataSummary, limit: int) -> dict[str, Any]:
    runs = [run for run in results.runs if run.data == summary.name]
    return {
        "name": summary.title,
        "methods": list(summary.methods),
        "measures": list(summary.measures),
        "queries": query_rows(results, summary.name, summary.query_ids),
        "relevant": [_number(results.query(summary.name, query).relevant) for query in summary.query_ids],
        "values": embedded_values(summary.values),
        "differences": [
            [difference_row(row, summary.protocol.tests[0]) for row in summary.differences.get(measure, ())]
            for measure in summary.measures
        ],
        "criteria": _criteria(results, summary, runs),
        "paths": _paths(results, summary, runs),
        "health": _health(results, summary.name),
        "curves": _curves(results, summary, runs),
        "times": _times(summary, runs),
        "rankings": rankings_of(results, summary, limit),
    }


def embedded_values(values: Array) -> Any:
    """An array of methods × measures × queries as lists by measure, method and query."""
    return _numbers(np.swapaxes(values, 0, 1).tolist())


def query_rows(results: ResultsFolder, data: str, query_ids: Iterable[str]) -> list[list[str]]:
    """Id, text and kind of every query."""
    rows = []
    for query in query_ids:
        facts = results.query(data, query)
        text = facts.text if len(facts.text) <= _TEXT else facts.text[: _TEXT - 1] + "…"
        rows.append([query, text, facts.kind])
    return rows


def difference_row(row: Difference, test: str) -> dict[str, Any]:
    """A difference as a row of the plots' data."""
    return {
        "method": row.system,
        "mean": _number(row.mean),
        "difference": _number(row.difference),
        "low": _number(row.interval[0]),
        "high": _number(row.interval[1]),
        "wins": row.wins,
        "ties": row.ties,
        "losses": row.losses,
        "p": _number(row.p_corrected[test]),
        "sign": verdict(row, test),
    }


def _trained_for(method: str, runs: Iterable[RunRow], results: ResultsFolder) -> str | None:
    """The measure a method was trained for: from the manifest's ``methods``, or the parameters of its runs."""
    tables = results.entries("methods")
    places = [tables.get(method, {})]
    keys: tuple[str, ...] = _CRITERIA
    if any(entry.get("trained_for") for entry in tables.values()):  # then methods without it are left out on purpose
        keys = _CRITERIA[:1]
    else:
        places += [place["parameters"] for place in places if isinstance(place.get("parameters"), dict)]
        places += [run.parameters for run in runs if run.method == method]
    for place in places:
        for key in keys:
            value = place.get(key)
            if isinstance(value, str) and value:
                return canonical(value)
            if isinstance(value, list) and value:
                return " + ".join(canonical(str(part)) for part in value)
    return None


def _criteria(results: ResultsFolder, summary: DataSummary, runs: Sequence[RunRow]) -> list[list[Any]]:
    """Method, measure trained for, and mean of every measure."""
    rows = []
    for method in summary.methods:
        goal = _trained_for(method, runs, results)
        if goal is not None:
            rows.append([method, goal, [_number(summary.mean(method, measure)) for measure in summary.measures]])
    return rows if len(rows) > 1 and len(summary.measures) > 1 else []


def _paths(results: ResultsFolder, summary: DataSummary, runs: Sequence[RunRow]) -> list[dict[str, Any]]:
    """A panel per parameter and measure, a line per method: for each value, the best over the other parameters."""
    values: dict[tuple[str, str], dict[str, dict[Any, list[float]]]] = defaultdict(dict)
    chosen_by = {name: entry.get("choose_by") for name, entry in results.entries("methods").items()}
    measures = {name: canonical(by) if isinstance(by, str) and by else "" for name, by in chosen_by.items()}
    by_method: dict[str, list[Any]] = defaultdict(list)
    for point in results.paths:
        if point.data == summary.name and math.isfinite(point.validation):
            by_method[point.method].append(point)
    for method in (name for name in summary.protocol.methods if name in by_method):
        points = by_method[method]
        for name in dict.fromkeys(key for point in points for key in point.parameters):
            best: dict[tuple[str, Any], float] = {}
            for point in points:
                if name in point.parameters:
                    place = (point.split, _plain(point.parameters[name]))
                    best[place] = max(point.validation, best.get(place, -math.inf))
            scores: dict[Any, list[float]] = defaultdict(list)
            for (_, value), validation in best.items():
                scores[value].append(validation)
            if len(scores) > 1:
                values[name, measures.get(method, "")][method] = scores
    for method, scores in _rounds(results, summary.name).items():
        values["round", measures.get(method, "")][method] = scores
    order = list(dict.fromkeys(name for name, _ in values))
    shown = sorted(values, key=lambda key: order.index(key[0]))
    return [_panel(name, measure, values[name, measure], runs) for name, measure in shown]


def _rounds(results: ResultsFolder, data: str) -> dict[str, dict[Any, list[float]]]:
    """By method and round, up to the end of the shortest split: a mean over fewer splits would jump there."""
    rounds: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rounds:
        if row.data == data:
            rounds[row.method][row.round].append(row.validation)
    return {
        method: {number: values for number, values in of.items() if len(values) == len(of[min(of)])}
        for method, of in rounds.items()
    }


def _panel(name: str, measure: str, lines: dict[str, dict[Any, list[float]]], runs: Sequence[RunRow]) -> dict[str, Any]:
    """Numbers in ascending order; of names only the best, best first."""
    keys = list(dict.fromkeys(value for by_key in lines.values() for value in by_key))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in keys)
    if numeric:
        shown = sorted(keys)
    else:
        best = {key: max(float(np.mean(by_key[key])) for by_key in lines.values() if key in by_key) for key in keys}
        shown = sorted(keys, key=lambda key: -best[key])[:_NAMES]
    drawn = []
    for method, by_key in lines.items():
        chosen = Counter(_plain(r.parameters[name]) for r in runs if r.method == method and name in r.parameters)
        points = [
            [value if numeric else str(value), *_spread(by_key[value]), chosen.get(value, 0)]
            for value in shown
            if value in by_key
        ]
        if points:
            drawn.append({"method": method, "points": points})
    return {
        "parameter": name,
        "figure": f"{measure or 'value'} on validation data",
        "numeric": numeric,
        # so widely spread that a linear axis would crowd the small ones
        "log": numeric and name != "round" and min(shown) > 0 and max(shown) / min(shown) > 8,
        "values": shown if numeric else [str(value) for value in shown],
        "omitted": len(keys) - len(shown),
        "lines": drawn,
    }


def _health(results: ResultsFolder, data: str) -> list[dict[str, Any]]:
    """A panel per figure, a line per method, along C."""
    rows = [row for row in results.health if row.data in (data, "") and row.C > 0]
    panels = []
    relative = any("slack_ratio" in row.figures for row in rows)
    for name, words in HEALTH_COLUMNS.items():
        if name == "slack" and relative:  # not comparable between losses
            continue
        lines: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if name in row.figures:
                lines[row.method][row.C].append(row.figures[name])
        drawn = [_line(method, by_C) for method, by_C in lines.items()]
        keys = sorted({C for points in lines.values() for C in points})
        if len(keys) > 1:
            panels.append(
                {"parameter": "C", "figure": words, "log": True, "values": keys, "numeric": True, "lines": drawn}
            )
    return panels


def _line(method: str, values: Mapping[float, Sequence[float]]) -> dict[str, Any]:
    """The line of a method: at each place in ascending order, the spread of its values."""
    return {"method": method, "points": [[place, *_spread(values[place]), 0] for place in sorted(values)]}


def _curves(results: ResultsFolder, summary: DataSummary, runs: Sequence[RunRow]) -> list[list[dict[str, Any]]]:
    """By measure: a line per method, the mean test value of the splits of each training size."""
    sizes = train_sizes(results, summary.name)
    if not sizes:
        return []
    of_run = {(run.split, run.method): run.n_train_queries for run in runs}
    total: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for score in results.scores:
        if score.data == summary.name and math.isfinite(score.value):
            total[score.split, score.method, score.measure].append(score.value)
    panels = []
    for measure in summary.measures:
        lines = []
        for method in summary.methods:
            by_size: dict[float, list[float]] = defaultdict(list)
            for split, size in sizes.items():
                run_size = of_run.get((split, method), math.nan)
                scores = total.get((split, method, measure))
                if scores:
                    by_size[run_size if run_size > 0 else size].append(float(np.mean(scores)))
            lines.append(_line(method, by_size))
        panels.append([line for line in lines if line["points"]])
    return panels


def _times(summary: DataSummary, runs: Sequence[RunRow]) -> list[list[Any]]:
    """Method, and mean seconds of training and of tuning."""
    rows: list[list[Any]] = []
    for method in summary.methods:
        of_method = [run for run in runs if run.method == method]
        train = [run.seconds_train for run in of_method if math.isfinite(run.seconds_train)]
        tune = [run.seconds_tune for run in of_method if math.isfinite(run.seconds_tune)]
        if train or tune:
            rows.append([method, *(_number(float(np.mean(seconds))) if seconds else None for seconds in (train, tune))])
    return rows if any((row[1] or 0) + (row[2] or 0) > 0 for row in rows) else []


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
        shown_grades = [
            None if math.isnan(grade) else int(grade) if grade.is_integer() else float(f"{grade:.3g}")
            for grade in grades.values()
        ]
        rows.append([at, list(grades), shown_grades, lists, split])
    depth = max(len(documents) for _, ranked in shown.values() for documents in ranked.values())
    return {"systems": [list(system) for system in systems], "depth": depth, "of": total, "queries": rows}


def _spread(numbers: Sequence[float]) -> list[Any]:
    """Mean, lowest and highest over splits, and the number of splits."""
    return [_number(float(np.mean(numbers))), _number(min(numbers)), _number(max(numbers)), len(numbers)]


def _plain(value: Any) -> Any:
    """A value as a dictionary key; numbers stay numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, sort_keys=True)


def _number(value: float) -> float | None:
    """A number with few digits, to embed; JSON has no nan."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _numbers(nested: Any) -> Any:
    return [_numbers(part) for part in nested] if isinstance(nested, list) else _number(nested)
