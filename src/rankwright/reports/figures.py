"""The data behind the plots of a report: plain lists and numbers, embedded in the page as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import TESTS
from rankwright.reports.rankings import limit_for, rankings_of
from rankwright.reports.results import HEALTH_COLUMNS, ResultsFolder, RunRow, canonical
from rankwright.reports.statistics import ComparisonProtocol, DataSummary, train_sizes, verdict

_DIGITS = 6
_TEXT = 400  # most characters of a query
_NAMES = 12  # most non-numeric values in a panel
_CRITERIA = ("trained_for", "losses", "loss", "measure")


def figures(results: ResultsFolder, protocol: ComparisonProtocol, data: Sequence[DataSummary]) -> dict[str, Any]:
    """The data of all plots, by data set."""
    return {
        "methods": list(protocol.methods),
        "measures": list(protocol.measures),
        "baseline": protocol.baseline,
        "test": TESTS[protocol.tests[0]][0],
        "confidence": protocol.confidence,
        "data": [_of_data(results, protocol, summary, limit_for(len(data))) for summary in data],
    }


def _of_data(results: ResultsFolder, protocol: ComparisonProtocol, summary: DataSummary, limit: int) -> dict[str, Any]:
    runs = [run for run in results.runs if run.data == summary.name]
    return {
        "name": summary.name,
        "methods": list(summary.methods),
        "measures": list(summary.measures),
        "queries": query_rows(results, summary.name, summary.query_ids),
        "relevant": [_number(results.query(summary.name, query).relevant) for query in summary.query_ids],
        "values": embedded_values(summary.values),
        "differences": [_differences(summary, measure, protocol) for measure in summary.measures],
        "criteria": _criteria(results, summary, runs),
        "paths": _paths(results, summary.name, runs, protocol),
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


def _differences(summary: DataSummary, measure: str, protocol: ComparisonProtocol) -> list[dict[str, Any]]:
    rows = []
    for method in summary.methods:
        row = summary.difference(method, measure)
        if row is not None:
            rows.append(difference_row(row, protocol.tests[0]))
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


def trained_for(method: str, runs: Iterable[RunRow], manifest: dict[str, Any]) -> str | None:
    """The measure a method was trained for: from the manifest's ``methods``, or the parameters of its runs."""
    tables = _listed_methods(manifest)
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
        goal = trained_for(method, runs, results.manifest)
        if goal is not None:
            rows.append([method, goal, [_number(summary.mean(method, measure)) for measure in summary.measures]])
    return rows if len(rows) > 1 and len(summary.measures) > 1 else []


def _paths(
    results: ResultsFolder, data: str, runs: Sequence[RunRow], protocol: ComparisonProtocol
) -> list[dict[str, Any]]:
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
            scores: dict[Any, list[float]] = defaultdict(list)
            for (_, value), validation in best.items():
                scores[value].append(validation)
            if len(scores) > 1:
                values[name, chooses.get(method, "")][method] = scores
    for method, scores in _rounds(results, data).items():
        values["round", chooses.get(method, "")][method] = scores
    order = list(dict.fromkeys(name for name, _ in values))
    shown = sorted(values, key=lambda key: order.index(key[0]))
    return [_panel(name, measure, values[name, measure], runs) for name, measure in shown]


def _rounds(results: ResultsFolder, data: str) -> dict[str, dict[Any, list[float]]]:
    """By method and round, up to the end of the shortest split: a mean over fewer splits would jump there."""
    rounds: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in results.rounds:
        if row.data == data:
            rounds[row.method][row.number].append(row.validation)
    return {
        method: {number: values for number, values in of.items() if len(values) == len(of[min(of)])}
        for method, of in rounds.items()
    }


def _choosing(manifest: dict[str, Any]) -> dict[str, str]:
    """The measure that each method is chosen by, if the manifest says."""
    chosen_by = {name: entry.get("choose_by") for name, entry in _listed_methods(manifest).items()}
    return {name: canonical(measure) for name, measure in chosen_by.items() if isinstance(measure, str) and measure}


def _listed_methods(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    listed = manifest.get("methods")
    if isinstance(listed, list):
        listed = {
            entry["name"]: entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        }
    return (
        {name: entry for name, entry in listed.items() if isinstance(entry, dict)} if isinstance(listed, dict) else {}
    )


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
        "log": numeric and name != "round" and _is_log(shown),
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
        drawn = [
            {"method": method, "points": [[C, *_spread(points[C]), 0] for C in sorted(points)]}
            for method, points in lines.items()
        ]
        keys = sorted({C for points in lines.values() for C in points})
        if len(keys) > 1:
            panels.append(
                {"parameter": "C", "figure": words, "log": True, "values": keys, "numeric": True, "lines": drawn}
            )
    return panels


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
            lines.append({"method": method, "points": [[size, *_spread(by_size[size]), 0] for size in sorted(by_size)]})
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
