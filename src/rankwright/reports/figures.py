"""The data behind the plots of a report: plain lists and numbers, embedded in the page as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import TESTS
from rankwright.reports.rankings import limit_for, rankings_of
from rankwright.reports.results import HEALTH_COLUMNS, Query, Results, Run, canonical
from rankwright.reports.statistics import DataSummary, Protocol, train_sizes, verdict

__all__ = ["difference_row", "embedded_values", "figures", "query_rows", "trained_for"]

Array = npt.NDArray[Any]

_DIGITS = 6
_TEXT = 400  # most characters of a query
_NAMES = 12  # most non-numeric values in a panel
_CRITERIA = ("trained_for", "losses", "loss", "measure")


def figures(results: Results, protocol: Protocol, data: Sequence[DataSummary]) -> dict[str, Any]:
    """The data of all plots, by data set."""
    return {
        "methods": list(protocol.methods),
        "measures": list(protocol.measures),
        "baseline": protocol.baseline,
        "test": TESTS[protocol.tests[0]][0],
        "confidence": protocol.confidence,
        "data": [_of_data(results, protocol, one, limit_for(len(data))) for one in data],
    }


def _of_data(results: Results, protocol: Protocol, one: DataSummary, limit: int) -> dict[str, Any]:
    runs = [run for run in results.runs if run.data == one.name]
    return {
        "name": one.name,
        "methods": list(one.methods),
        "measures": list(one.measures),
        "queries": query_rows(results, one.name, one.query_ids),
        "relevant": _relevant(results, one),
        "values": embedded_values(one.values),
        "differences": [_differences(one, measure, protocol) for measure in one.measures],
        "criteria": _criteria(results, one, runs),
        "paths": _paths(results, one.name, runs, protocol),
        "health": _health(results, one.name),
        "curves": _curves(results, one, runs),
        "times": _times(one, runs),
        "rankings": rankings_of(results, one, limit),
    }


def embedded_values(values: Array) -> Any:
    """An array of methods × measures × queries as lists by measure, method and query."""
    return _numbers(np.swapaxes(values, 0, 1).tolist())


def query_rows(results: Results, data: str, query_ids: Iterable[str]) -> list[list[str]]:
    """Id, text and kind of every query; texts without a data set belong to all of them."""
    rows = []
    for query in query_ids:
        found = _known(results, data, query)
        text = found.text if len(found.text) <= _TEXT else found.text[: _TEXT - 1] + "…"
        rows.append([query, text, found.kind])
    return rows


def _known(results: Results, data: str, query: str) -> Query:
    known = results.queries or {}
    return known.get((data, query)) or known.get(("", query)) or Query("", "")


def _relevant(results: Results, one: DataSummary) -> list[float | None]:
    """The number of relevant documents of every query; None if unknown."""
    return [_number(_known(results, one.name, query).relevant) for query in one.query_ids]


def _differences(one: DataSummary, measure: str, protocol: Protocol) -> list[dict[str, Any]]:
    rows = []
    for method in one.methods:
        row = one.difference(method, measure)
        if row is not None:
            rows.append(difference_row(row, protocol.tests[0]))
    return rows


def difference_row(row: Difference, test: str) -> dict[str, Any]:
    """A difference as the plots take it."""
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


def trained_for(method: str, runs: Iterable[Run], manifest: dict[str, Any]) -> str | None:
    """What a method was trained for: from the manifest's ``methods``, or the parameters of its runs."""
    tables = _listed_methods(manifest)
    places = [tables.get(method, {})]
    keys: tuple[str, ...] = _CRITERIA
    if any(one.get("trained_for") for one in tables.values()):  # then methods without it are left out on purpose
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


def _criteria(results: Results, one: DataSummary, runs: Sequence[Run]) -> list[list[Any]]:
    """Method, measure trained for, and mean of every measure."""
    rows = []
    for method in one.methods:
        goal = trained_for(method, runs, results.manifest)
        if goal is not None:
            rows.append([method, goal, [_number(one.mean(method, measure)) for measure in one.measures]])
    return rows if len(rows) > 1 and len(one.measures) > 1 else []


def _paths(results: Results, data: str, runs: Sequence[Run], protocol: Protocol) -> list[dict[str, Any]]:
    """A panel per parameter and measure, a line per method: for each value, the best over the other parameters."""
    values: dict[tuple[str, str], dict[str, dict[Any, list[float]]]] = defaultdict(dict)
    chooses = _choosing(results.manifest)
    by_method: dict[str, list[Any]] = defaultdict(list)
    for point in results.paths:
        if point.data == data and math.isfinite(point.validation):
            by_method[point.method].append(point)
    for method in (name for name in protocol.methods if name in by_method):
        points = by_method[method]
        for name in dict.fromkeys(key for point in points for key in point.point):
            best: dict[tuple[str, Any], float] = {}
            for point in points:
                if name in point.point:
                    place = (point.split, _plain(point.point[name]))
                    best[place] = max(point.validation, best.get(place, -math.inf))
            found: dict[Any, list[float]] = defaultdict(list)
            for (_, value), validation in best.items():
                found[value].append(validation)
            if len(found) > 1:
                values[name, chooses.get(method, "")][method] = found
    for method, found in _rounds(results, data).items():
        values["round", chooses.get(method, "")][method] = found
    order = list(dict.fromkeys(name for name, _ in values))
    shown = sorted(values, key=lambda key: order.index(key[0]))
    return [_panel(name, measure, values[name, measure], runs) for name, measure in shown]


def _rounds(results: Results, data: str) -> dict[str, dict[Any, list[float]]]:
    """By method and round, up to the end of the shortest split: a mean over fewer splits would jump there."""
    found: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rounds:
        if row.data == data:
            found[row.method][row.number].append(row.validation)
    return {
        method: {number: values for number, values in of.items() if len(values) == len(of[min(of)])}
        for method, of in found.items()
    }


def _choosing(manifest: dict[str, Any]) -> dict[str, str]:
    """The measure that each method is chosen by, if the manifest says."""
    found = {name: one.get("choose_by") for name, one in _listed_methods(manifest).items()}
    return {name: canonical(measure) for name, measure in found.items() if isinstance(measure, str) and measure}


def _listed_methods(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The methods of the manifest, by name."""
    listed = manifest.get("methods")
    if isinstance(listed, list):
        listed = {one["name"]: one for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)}
    return {name: one for name, one in listed.items() if isinstance(one, dict)} if isinstance(listed, dict) else {}


def _panel(name: str, measure: str, lines: dict[str, dict[Any, list[float]]], runs: Sequence[Run]) -> dict[str, Any]:
    """Numbers in ascending order; of names only the best, best first."""
    keys = list(dict.fromkeys(value for found in lines.values() for value in found))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in keys)
    if numeric:
        shown = sorted(keys)
    else:
        best = {key: max(float(np.mean(found[key])) for found in lines.values() if key in found) for key in keys}
        shown = sorted(keys, key=lambda key: -best[key])[:_NAMES]
    drawn = []
    for method, found in lines.items():
        chosen = Counter(_plain(r.parameters[name]) for r in runs if r.method == method and name in r.parameters)
        points = [
            [value if numeric else str(value), *_spread(found[value]), chosen.get(value, 0)]
            for value in shown
            if value in found
        ]
        if points:
            drawn.append({"method": method, "points": points})
    return {
        "parameter": name,
        "figure": f"{measure or 'value'} on validation data",
        "numeric": numeric,
        "log": numeric and name != "round" and _is_log(shown),
        "values": shown if numeric else [str(value) for value in shown],
        "omitted": len(keys) - len(shown),
        "lines": drawn,
    }


def _health(results: Results, data: str) -> list[dict[str, Any]]:
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
        drawn = [
            {"method": method, "points": [[C, *_spread(found[C]), 0] for C in sorted(found)]}
            for method, found in lines.items()
        ]
        keys = sorted({C for found in lines.values() for C in found})
        if len(keys) > 1:
            panels.append(
                {"parameter": "C", "figure": words, "log": True, "values": keys, "numeric": True, "lines": drawn}
            )
    return panels


def _curves(results: Results, one: DataSummary, runs: Sequence[Run]) -> list[list[dict[str, Any]]]:
    """By measure: a line per method, the mean test value of the splits of each training size."""
    sizes = train_sizes(results, one.name)
    if not sizes:
        return []
    of_run = {(run.split, run.method): run.n_train_queries for run in runs}
    total: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for score in results.scores:
        if score.data == one.name and math.isfinite(score.value):
            total[score.split, score.method, score.measure].append(score.value)
    panels = []
    for measure in one.measures:
        lines = []
        for method in one.methods:
            found: dict[float, list[float]] = defaultdict(list)
            for split, size in sizes.items():
                own = of_run.get((split, method), math.nan)
                scores = total.get((split, method, measure))
                if scores:
                    found[own if own > 0 else size].append(float(np.mean(scores)))
            lines.append({"method": method, "points": [[size, *_spread(found[size]), 0] for size in sorted(found)]})
        panels.append([line for line in lines if line["points"]])
    return panels


def _times(one: DataSummary, runs: Sequence[Run]) -> list[list[Any]]:
    """Method, and mean seconds of training and of tuning."""
    rows: list[list[Any]] = []
    for method in one.methods:
        own = [run for run in runs if run.method == method]
        train = [run.seconds_train for run in own if math.isfinite(run.seconds_train)]
        tune = [run.seconds_tune for run in own if math.isfinite(run.seconds_tune)]
        if train or tune:
            rows.append([method, *(_number(float(np.mean(some))) if some else None for some in (train, tune))])
    return rows if any((row[1] or 0) + (row[2] or 0) > 0 for row in rows) else []


def _spread(numbers: Sequence[float]) -> list[Any]:
    """Mean, lowest and highest over splits, and the number of splits."""
    return [_number(float(np.mean(numbers))), _number(min(numbers)), _number(max(numbers)), len(numbers)]


def _is_log(values: Sequence[float]) -> bool:
    """Whether values are spread so widely that a linear axis would crowd the small ones."""
    return min(values) > 0 and max(values) / min(values) > 8


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
