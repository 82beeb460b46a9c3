"""Tables of results: means with significance and wins against the baseline, the criterion table of KDD'08, times.

The values of a query are averaged over the splits that test it, then over queries, as in SIGIR'07.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from rankwright.errors import InputError
from rankwright.evaluation.comparison import Comparison, Difference
from rankwright.evaluation.render import Table, csv_text, draw, figure
from rankwright.evaluation.table import Evaluation
from rankwright.measures import Measure

__all__ = ["FORMATS", "KINDS", "make_table", "render_table"]

KINDS = ("means", "criterion", "times")
FORMATS = ("text", "markdown", "latex", "csv")
_ALPHA = 0.05
_LETTERS = {"t": "ᵗ", "wilcoxon": "ʷ", "sign": "ˢ", "randomization": "ʳ"}
_BEST = "•"
# Delimiters of a best value in a table, and what each format replaces them by.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKS = {"text": ("", _BEST), "markdown": ("**", "**"), "latex": (r"\textbf{", "}")}


class Compared(Protocol):
    """What tables are made of; :class:`~rankwright.experiments.Results` provides it."""

    @property
    def manifest(self) -> dict[str, Any]: ...
    @property
    def data(self) -> list[str]: ...
    @property
    def measures(self) -> list[Measure]: ...
    def evaluations(self, data: str) -> list[Evaluation]: ...
    def compare(self, data: str) -> Comparison: ...
    def seconds(self, data: str) -> dict[str, tuple[float, float]]: ...


def render_table(results: Compared, kind: str = "means", format: str = "text") -> str:
    """One of the ``KINDS`` of tables in one of the ``FORMATS``."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    if format == "csv":
        return _records(results, kind)
    table = make_table(results, kind)
    if format == "text":  # replaced before drawing, so that columns align
        rows = [tuple(cell.replace(_OPEN, "").replace(_CLOSE, _BEST) for cell in row) for row in table.rows]
        return draw(Table(table.header, tuple(rows), table.notes, table.text_columns, table.rules), "text")
    drawn = draw(table, format)
    for mark, shown in zip((_OPEN, _CLOSE), _MARKS[format], strict=True):
        drawn = drawn.replace(mark, shown)
    if format == "latex":
        for letter, plain in zip(_LETTERS.values(), "twsr", strict=True):
            drawn = drawn.replace(letter, f"$^{{{plain}}}$")
    return drawn


def make_table(results: Compared, kind: str = "means") -> Table:
    """One of the ``KINDS`` of tables; the best of a column is between two characters that drawing replaces."""
    if kind not in KINDS:
        raise InputError(f"unknown kind of table {kind!r}; expected one of {', '.join(KINDS)}")
    return {"means": _means, "criterion": _criterion, "times": _times}[kind](results)


def _means(results: Compared) -> Table:
    """Rows are methods, columns are measures, each with wins and losses against the baseline."""
    rows: list[tuple[str, ...]] = []
    rules, best = set(), set()
    notes: list[str] = []
    for data in results.data:
        rules.add(len(rows))
        evaluations = results.evaluations(data)
        comparison = _compared(results, data, evaluations)
        best |= {(len(rows) + at, column) for at, column in _best_means(results, evaluations)}
        for evaluation in evaluations:
            rows.append((data, *_means_row(results, evaluation, comparison)))
        notes += [f"{data}: {len(evaluation.query_ids)} queries" for evaluation in evaluations[:1]]
    header = ("data", "method", *(name for measure in results.measures for name in (str(measure), "w/l")))
    every = (*notes, *_method(results), *_notes(results))
    return Table(header, tuple(rows), every, 2, frozenset(rules - {0}), frozenset(best))


def _best_means(results: Compared, evaluations: Sequence[Evaluation]) -> list[tuple[int, int]]:
    """The cells of a data set with the highest mean of their measure, as displayed; none if there is one method."""
    found = []
    for at, measure in enumerate(map(str, results.measures)):
        means = [_shown(evaluation.means[measure]) for evaluation in evaluations]
        if len(means) > 1 and max(means) > -math.inf:
            found += [(row, 2 + 2 * at) for row, mean in enumerate(means) if mean == max(means)]
    return found


def _means_row(results: Compared, evaluation: Evaluation, comparison: Comparison | None) -> list[str]:
    is_baseline = evaluation.name == results.manifest["baseline"]
    row = [f"{evaluation.name} (baseline)" if is_baseline else evaluation.name]
    for measure, mean in evaluation.means.items():
        difference = _difference(comparison, evaluation.name, measure)
        marks = "" if difference is None else _significance(difference, results.manifest["tests"])
        row += [figure(mean) + marks, "" if difference is None else f"{difference.wins}/{difference.losses}"]
    return row


def _compared(results: Compared, data: str, evaluations: Sequence[Evaluation]) -> Comparison | None:
    """None if there is nothing to compare with."""
    names = [evaluation.name for evaluation in evaluations]
    return results.compare(data) if len(names) > 1 and results.manifest["baseline"] in names else None


def _difference(comparison: Comparison | None, method: str, measure: str) -> Difference | None:
    rows = () if comparison is None else comparison.differences
    return next((row for row in rows if (row.system, row.measure) == (method, measure)), None)


def _significance(row: Difference, tests: Sequence[str]) -> str:
    """A star for a single test; a letter for each of several, a space for those that are not significant."""
    marks = ["*" if len(tests) == 1 else _LETTERS[test] for test in tests]
    return "".join(mark if row.p_corrected[test] < _ALPHA else " " for test, mark in zip(tests, marks, strict=True))


def _method(results: Compared) -> list[str]:
    """The legend of the marks."""
    from rankwright.evaluation.significance import TESTS

    tests, correction = results.manifest["tests"], results.manifest["correction"]
    after = "" if correction == "none" else f" after {correction.capitalize()}'s correction for the methods compared"
    if len(tests) == 1:
        marks = f"* p < {_ALPHA:g} by the two-tailed {TESTS[tests[0]][0]}{after}"
    else:
        listed = ", ".join(f"{_LETTERS[test]} {TESTS[test][0]}" for test in tests)
        marks = f"p < {_ALPHA:g}{after}, two-tailed: {listed}"
    averaged = "means: each query averaged over the splits that test it, then over queries"
    return [
        averaged,
        f"w/l: number of queries on which a method is better and worse than {results.manifest['baseline']}",
        marks,
    ]


def _notes(results: Compared) -> list[str]:
    """The definitions of the measures, with the names of the data sets if they differ, and what is missing."""
    of_data: dict[str, list[str]] = {}
    for data, lines in results.manifest["definitions"].items():
        for line in lines:
            of_data.setdefault(line, []).append(data)
    n_data = len(results.manifest["definitions"])
    notes = [line if len(data) == n_data else f"{', '.join(data)}: {line}" for line, data in of_data.items()]
    total, done = results.manifest["cells"]["total"], results.manifest["cells"]["done"]
    return notes if done == total else [*notes, f"{total - done} of {total} cells are missing"]


def _criterion(results: Compared) -> Table:
    """Rows are the measures trained for, columns the measures tested on."""
    goals = {one["name"]: one.get("trained_for") for one in results.manifest["methods"]}
    if not any(goals.values()):
        raise InputError("no method has trained_for; expected it in the experiment file")
    rows: list[tuple[str, ...]] = []
    rules = set()
    for data in results.data:
        rules.add(len(rows))
        evaluations = [evaluation for evaluation in results.evaluations(data) if goals[evaluation.name]]
        best = {
            measure: max((_shown(e.means[measure]) for e in evaluations), default=math.nan)
            for measure in map(str, results.measures)
        }
        for evaluation in evaluations:
            cells = [_marked(mean, best[measure]) for measure, mean in evaluation.means.items()]
            rows.append((data, str(goals[evaluation.name]), evaluation.name, *cells))
    header = ("data", "trained for", "method", *map(str, results.measures))
    notes = (f"{_OPEN}best{_CLOSE} of each column", *_method(results)[:1], *_notes(results))
    return Table(header, tuple(rows), notes, 3, frozenset(rules - {0}))


def _times(results: Compared) -> Table:
    """Rows are methods, columns are seconds: to train the chosen model, and to train everything that was tried."""
    rows: list[tuple[str, ...]] = []
    rules, before = set(), None
    for data, method, *times in _seconds(results):
        if data != before:
            rules.add(len(rows))
            before = data
        name = f"{method} (baseline)" if method == results.manifest["baseline"] else method
        rows.append((data, name, *(_time(value) for value in times)))
    header = ("data", "method", "train", "ratio", "choose and train", "ratio")
    notes = (
        "seconds per split, mean over the splits: to train the chosen model, and to train everything that was tried",
        "ratio: to the baseline; compile time is not counted; parallel processes slow each other down",
    )
    return Table(header, tuple(rows), notes, 2, frozenset(rules - {0}))


def _seconds(results: Compared) -> Iterator[tuple[Any, ...]]:
    """Data, method, seconds to train, their ratio to the baseline's, seconds with choosing, their ratio."""
    for data in results.data:
        found = results.seconds(data)
        base = found.get(results.manifest["baseline"], (math.nan, math.nan))
        for method, both in found.items():
            ratios = [value / one if one > 0 else math.nan for value, one in zip(both, base, strict=True)]
            yield data, method, both[0], ratios[0], both[1], ratios[1]


def _time(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.01 else f"{value:.2g}"


def _shown(value: float) -> float:
    """As displayed, so that values that look equal are equal; nan is never the best."""
    return -math.inf if math.isnan(value) else round(value, 4)


def _marked(value: float, best: float) -> str:
    text = figure(value)
    return f"{_OPEN}{text}{_CLOSE}" if _shown(value) == best and not math.isnan(value) else text


def _records(results: Compared, kind: str) -> str:
    """All digits, one row per data set, method and measure."""
    if kind not in KINDS:
        raise InputError(f"unknown kind of table {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "times":
        header = ["data", "method", "seconds_train", "ratio_train", "seconds_tune", "ratio_tune"]
        return csv_text(header, _seconds(results))
    tests = results.manifest["tests"]
    goals = {one["name"]: one.get("trained_for") or "" for one in results.manifest["methods"]}
    compared = ("difference", "low", "high", "wins", "ties", "losses", "p", "p_corrected")
    header = ["data", "method", "trained_for", "measure", "queries", "mean"]
    if kind == "means":
        header += compared[:6] + tuple(f"{name}_{test}" for name in compared[6:] for test in tests)
    rows: list[Sequence[Any]] = []
    for data in results.data:
        evaluations = results.evaluations(data)
        comparison = _compared(results, data, evaluations) if kind == "means" else None
        for evaluation in evaluations:
            goal = goals[evaluation.name]
            for measure, mean in evaluation.means.items() if kind == "means" or goal else ():
                row: list[Any] = [data, evaluation.name, goal, measure, len(evaluation.query_ids), mean]
                difference = _difference(comparison, evaluation.name, measure)
                if difference is not None:
                    row += [difference.difference, *difference.interval]
                    row += [difference.wins, difference.ties, difference.losses]
                    row += [of[test] for of in (difference.p, difference.p_corrected) for test in tests]
                rows.append(row + [""] * (len(header) - len(row)))
    return csv_text(header, rows)
