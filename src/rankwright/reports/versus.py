"""Two results folders, compared: every method with itself, on the queries that both folders have; and the page of it.

The values of a query are averaged over splits, as in a report. A family of tests, which the correction is for, is the
methods of one data set in one measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.errors import InputError
from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.reports.figures import (
    by_spread,
    difference_row,
    embedded,
    embedded_values,
    limit_for,
    query_rows,
    shown_rankings,
)
from rankwright.reports.glossary import SIGNIFICANTLY, linked
from rankwright.reports.page import check_target, chosen_tables, document, how_decided, query_plot, write_page
from rankwright.reports.results import EXPERIMENT, ResultsFolder, canonical, check_folder, read_results
from rankwright.reports.sentences import bullets, counted, figures_of, signed
from rankwright.reports.statistics import ALPHA, ComparisonProtocol, DataSummary, protocol_of, summaries, verdict
from rankwright.reports.tables import changes_table, diff_list, versus_table

_COMPARED = ("seed", "seeds", "protocol", "baseline", "tests", "correction", "versions")
_FACTS = ("kind", "queries", "documents", "features", "train_queries", "valid_queries", "content")


@dataclass(frozen=True, eq=False)
class Both:
    """One data set in two folders.

    `before`, `after`: the data set in either folder, with the methods, measures and queries that both have.
    `differences`: by measure, a row per method: after minus before. `lacking`: how many queries are only before, and
    only after.
    """

    before: DataSummary
    after: DataSummary
    differences: dict[str, list[Difference]]
    lacking: tuple[int, int]

    @property
    def name(self) -> str:
        return self.after.name

    @property
    def title(self) -> str:
        """What readers call the data set."""
        return self.name or "all queries"


@dataclass(frozen=True, eq=False)
class Versus:
    """Two results folders.

    `labels`: what the folders are called. `results`: their content. `protocol`: the tests, which are those of the
    second folder; methods and measures of both. `data`: the data sets that both have. `only`: what one of them lacks,
    in sentences. `changed`: what differs in what was run: name, before, after. `warnings`: why values may not be
    comparable.
    """

    labels: tuple[str, str]
    results: tuple[ResultsFolder, ResultsFolder]
    protocol: ComparisonProtocol
    data: list[Both]
    only: list[str]
    changed: list[tuple[str, str, str]]
    warnings: list[str]


def compare_folders(
    before: str | Path, after: str | Path, progress: Callable[[int, int], None] | None = None
) -> Versus:
    """Compare two results folders, which share at least one method, measure and query."""
    labels = _labels(Path(before), Path(after))
    results = read_results(before), read_results(after)
    protocols = protocol_of(results[0]), protocol_of(results[1])
    alone = [summaries(folder, of, compared=False) for folder, of in zip(results, protocols, strict=True)]
    pairs = [(a, b) for a in alone[0] for b in alone[1] if a.name == b.name]
    data: list[Both] = []
    for a, b in pairs:
        both = _both(a, b, protocols[1])
        if both is not None:
            data.append(both)
        if progress is not None:
            progress(len(data), len(pairs))
    if not data:
        problem = "has no data set, method and query in common with"
        raise InputError(f"{problem} {before}; expected results of the same methods on data of the same names", after)
    only = _only(labels, protocols, alone)
    for both in data:
        where = f"{both.name}: " if both.name else ""
        counts = zip(labels, both.lacking, strict=True)
        only += [f"{where}queries only in {label}: {count:,}, left out" for label, count in counts if count]
    return Versus(labels, results, protocols[1], data, only, _changed(*results), _warnings(results, data))


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The names of the folders, with as many folders above them as it takes to tell them apart."""
    a, b = before.resolve().parts, after.resolve().parts
    if a == b:
        raise InputError("is given twice; expected two different results folders", after)
    for kept in range(1, max(len(a), len(b)) + 1):
        if a[-kept:] != b[-kept:]:
            return "/".join(a[-kept:]), "/".join(b[-kept:])
    return str(before), str(after)


def _both(a: DataSummary, b: DataSummary, protocol: ComparisonProtocol) -> Both | None:
    methods = tuple(method for method in b.methods if method in a.methods)
    measures = tuple(measure for measure in b.measures if measure in a.measures)
    queries_before = set(a.query_ids)
    queries = tuple(query for query in b.query_ids if query in queries_before)
    if not (methods and measures and queries):
        return None
    before, after = (_restricted(summary, methods, measures, queries) for summary in (a, b))
    differences = {
        measure: protocol.differences(methods, after.values[:, at], before.values[:, at], measure)
        for at, measure in enumerate(measures)
    }
    if not any(differences.values()):
        return None
    return Both(before, after, differences, (len(a.query_ids) - len(queries), len(b.query_ids) - len(queries)))


def _restricted(
    summary: DataSummary, methods: tuple[str, ...], measures: tuple[str, ...], queries: tuple[str, ...]
) -> DataSummary:
    place = {query: at for at, query in enumerate(summary.query_ids)}
    places = (
        [summary.methods.index(method) for method in methods],
        [summary.measures.index(measure) for measure in measures],
        [place[query] for query in queries],
    )
    values = summary.values[np.ix_(*places)]
    return replace(summary, methods=methods, measures=measures, query_ids=queries, values=values)


def _only(
    labels: tuple[str, str],
    protocols: tuple[ComparisonProtocol, ComparisonProtocol],
    alone: Sequence[Sequence[DataSummary]],
) -> list[str]:
    lines = []
    lists = {
        "data sets": [[item.name for item in summaries] for summaries in alone],
        "methods": [list(item.methods) for item in protocols],
        "measures": [list(item.measures) for item in protocols],
    }
    for kind, (a, b) in lists.items():
        for label, listed, other in ((labels[0], a, b), (labels[1], b, a)):
            names = [name or "all queries" for name in listed if name not in other]
            if names:
                lines.append(f"{kind} only in {label}: {', '.join(names)}")
    return lines


def _changed(before: ResultsFolder, after: ResultsFolder) -> list[tuple[str, str, str]]:
    """What differs between two manifests: the protocol, versions, and the settings of methods and data of both."""
    changed: list[tuple[str, str, str]] = []
    a, b = _facts(before), _facts(after)
    for entry in (entry for entry in a if entry in b):  # others are only in one folder, which is said elsewhere
        keys = [key for key in dict.fromkeys([*a[entry], *b[entry]]) if a[entry].get(key) != b[entry].get(key)]
        changed += [(f"{entry}{key}", _text(a[entry].get(key)), _text(b[entry].get(key))) for key in keys]
    return changed


def _facts(results: ResultsFolder) -> dict[str, dict[str, Any]]:
    """The facts of a manifest by method, data set or neither, then by name, tables in it taken apart."""
    facts: dict[str, dict[str, Any]] = {"": {}}
    for key in _COMPARED:
        _put(facts[""], key, results.manifest.get(key))
    for kind, key in (("method", "methods"), ("data", "data")):
        for name, entry in results.entries(key).items():
            kept = {k: v for k, v in entry.items() if k != "name" and (kind == "method" or k in _FACTS)}
            of = facts.setdefault(f"{kind} {name}: ", {})
            for fact, value in kept.items():
                _put(of, fact.replace("_", " "), value)
    return facts


def _put(facts: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _put(facts, f"{name} {key}".replace("_", " "), inner)
    elif value is not None:
        facts[name] = value


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warnings(results: tuple[ResultsFolder, ResultsFolder], data: Sequence[Both]) -> list[str]:
    """Other definitions of a measure, or other data under the same name."""
    lines = []
    contents = [{name: entry.get("content") for name, entry in folder.entries("data").items()} for folder in results]
    defined = [_definitions(folder.manifest) for folder in results]
    for both in data:
        for measure in both.after.measures:
            a, b = (of.get((both.name, measure)) for of in defined)
            if a and b and a != b:
                lines.append(f"{both.name}: {measure} is defined differently ({a}; {b}): its values are not comparable")
        a, b = (of.get(both.name) for of in contents)
        if a and b and a != b:
            lines.append(f"{both.name}: the data differ, so differences need not come from the methods")
    return lines


def _definitions(manifest: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """By data set and measure."""
    listed = manifest.get("definitions")
    definitions = {}
    for data, lines in listed.items() if isinstance(listed, dict) else ():
        for line in lines if isinstance(lines, list) else ():
            measure, _, text = str(line).partition(": ")
            definitions[str(data), canonical(measure)] = text
    return definitions


def write_comparison(
    before: str | Path,
    after: str | Path,
    target_html: str | Path,
    *,
    title: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a comparison of two results folders as one HTML file: every method with itself, on the queries of both.

    Parameters
    ----------
    before, after : path
        The folders, such as the results of two versions or settings; see :func:`write_report`. Tests, correction and
        seed are those of the second.
    target_html : path
        The file to write; it appears only when complete.
    title : str, optional
        The heading. Default: the names of the folders.
    progress : callable, optional
        Called with the number of data sets done and the total.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> write_comparison("results-old", "results-new", "comparison.html")  # doctest: +SKIP
    """
    target = Path(target_html)
    for folder in (before, after):
        check_folder(Path(folder))
    check_target(target)
    versus = compare_folders(before, after, progress)
    return write_page(target, _page(versus, title))


def _page(versus: Versus, title: str | None) -> str:
    drawn = _drawn(versus)
    a, b = versus.labels
    queries = sum(len(both.after.query_ids) for both in versus.data)
    methods = len({method for both in versus.data for method in both.after.methods})
    facts = [
        counted(len(versus.data), "data set"),
        counted(methods, "method"),
        counted(queries, "shared query", "shared queries"),
    ]
    facts.append(f"before: {a}, after: {b}")
    changed = changes_table(versus.changed, versus.labels) if versus.changed else ""
    same = "<p>The manifests do not say of any difference in settings, versions or data.</p>"
    by_query = query_plot(drawn, "Difference on every query, largest gain first", "both rankings")
    sections = [
        ("summary", "Summary", _summary(versus)),
        ("differences", "Differences", _differences_section(versus)),
        ("queries", "Query by query", by_query),
        ("only", "Only in one folder", bullets(map(escape, versus.only))),
        ("run", "What was changed", (changed or same) + diff_list(_files(versus), versus.labels)),
    ]
    return document(title or f"{b} compared with {a}", facts, sections, drawn)


def _files(versus: Versus) -> tuple[str, str]:
    """The two experiment files; both empty if a folder has none."""
    a, b = (results.folder / EXPERIMENT for results in versus.results)
    try:
        return a.read_text(encoding="utf-8"), b.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "", ""


def _rows(versus: Versus, measure: str) -> list[tuple[Both, Difference]]:
    return [(both, row) for both in versus.data for row in both.differences.get(measure, ())]


def _summary(versus: Versus) -> str:
    measure = next(name for name in versus.protocol.measures if _rows(versus, name))
    test = versus.protocol.tests[0]
    parts = [f'<p class="lead">{_verdict(versus, measure)}</p>']
    parts += [f'<p class="warning">{escape(line)}.</p>' for line in versus.warnings]
    for both in versus.data:
        rows = both.differences.get(measure, [])
        lines = []
        groups = [
            ("Significantly better", [row for row in rows if verdict(row, test) > 0]),
            ("Significantly worse", [row for row in rows if verdict(row, test) < 0]),
            ("No significant difference", [row for row in rows if not verdict(row, test) and row.wins + row.losses]),
        ]
        for text, group in groups:
            listed = [f"{escape(row.system)} ({signed(row.difference)})" for row in group]
            lines += [f"<li>{text}: {', '.join(listed)}.</li>"] if listed else []
        equal = [escape(row.system) for row in rows if not row.wins + row.losses]
        lines += [f"<li>Equal on every query: {', '.join(equal)}.</li>"] if equal else []
        queries = counted(len(both.after.query_ids), "shared query", "shared queries")
        head = f"<h3>{escape(both.title)}, {escape(measure)}, {queries}</h3>"
        parts.append(f"{head}<ul>{''.join(lines)}</ul>")
    decided = (
        f"Significant: {TESTS[test][0]}, two-tailed over the queries that both folders have, p < {ALPHA:g}",
        f"Correction: {CORRECTIONS[versus.protocol.correction]}, for the methods of one data set in one measure",
        "A query tested in several splits counts once, with the mean of its values",
    )
    return "".join(parts) + how_decided(f"{linked(line)}." for line in decided)


def _verdict(versus: Versus, measure: str) -> str:
    """How many methods got significantly better and worse, and the largest change."""
    test, (a, b) = versus.protocol.tests[0], map(escape, versus.labels)
    rows = _rows(versus, measure)
    if all(row.wins == row.losses == 0 for _, row in rows):
        who = f"{_pairs(versus, rows)} {_be(len(rows))}"
        return f"<b>{b} and {a} have the same values</b> in {escape(measure)}: {who} equal on every query."
    if len(rows) == 1:
        row = rows[0][1]
        sign = verdict(row, test)
        how = f"is {SIGNIFICANTLY} {'better' if sign > 0 else 'worse'}" if sign else f"does not differ {SIGNIFICANTLY}"
        than = "than in" if sign else "from"
        return f"<b>{escape(row.system)} {how} in {b} {than} {a}</b>: {_figures(rows[0], versus)}."
    signs = [verdict(row, test) for _, row in rows]
    better, worse = signs.count(1), signs.count(-1)
    same = sum(row.wins == row.losses == 0 for _, row in rows)
    where = f"in {b} than in {a}"
    if better and worse:
        claim = f"Of {_pairs(versus, rows)}, {better:,} {_be(better)} {SIGNIFICANTLY} better {where}"
        claim += f", {worse:,} {_be(worse)} worse"
    elif better or worse:
        how, never = ("better", "worse") if better else ("worse", "better")
        changed = f"{better or worse:,} of {_pairs(versus, rows)} {_be(better or worse)}"
        claim = f"{changed} {SIGNIFICANTLY} {how} {where}, none is {never}"
    else:
        claim = f"No method is {SIGNIFICANTLY} better or worse {where}"
    equal = f"; {same:,} {_be(same)} equal on every query" if same else ""
    largest = max(rows, key=lambda pair: abs(pair[1].difference))
    who = f"{escape(largest[1].system)}{_where(largest, versus)}"
    chance = "" if verdict(largest[1], test) else " That may be chance."
    return f"<b>{claim}</b> in {escape(measure)}{equal}. Largest change: {who}: {_figures(largest, versus)}.{chance}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _pairs(versus: Versus, rows: Sequence[tuple[Both, Difference]]) -> str:
    if len(versus.data) == 1:
        return counted(len(rows), "method")
    return f"{len(rows):,} pairs of method and data set"


def _where(pair: tuple[Both, Difference], versus: Versus) -> str:
    return f" on {escape(pair[0].name)}" if len(versus.data) > 1 else ""


def _figures(pair: tuple[Both, Difference], versus: Versus) -> str:
    both, row = pair
    return figures_of(row, versus.protocol, len(both.differences[row.measure]))


def _differences_section(versus: Versus) -> str:
    a, b = versus.labels
    measures = versus.protocol.measures
    tables = [
        (place, measures.index(measure), versus_table(rows, measure, versus.protocol, versus.labels, both.title))
        for place, both in enumerate(versus.data)
        for measure, rows in both.differences.items()
        if rows
    ]
    return chosen_tables(tables, f"Mean of {b} minus {a}, with {versus.protocol.confidence:.0%} interval")


def _drawn(versus: Versus) -> dict[str, Any]:
    """What the plots show, in the form of a report's."""
    a, b = versus.labels
    test = versus.protocol.tests[0]
    nothing: dict[str, Any] = {key: [] for key in ("criteria", "paths", "health", "curves", "times")}
    data = [
        {
            **nothing,
            "name": both.title,
            "methods": list(both.after.methods),
            "measures": list(both.after.measures),
            "queries": query_rows(versus.results[1], both.name, both.after.query_ids),
            "relevant": [None] * len(both.after.query_ids),
            "before": embedded_values(both.before.values),
            "values": embedded_values(both.after.values),
            "differences": [[difference_row(row, test) for row in rows] for rows in both.differences.values()],
            "rankings": _rankings(versus, both),
        }
        for both in versus.data
    ]
    methods = list(dict.fromkeys(method for both in versus.data for method in both.after.methods))
    return {
        "methods": methods,
        "measures": list(versus.protocol.measures),
        "baseline": a,
        "before": a,
        "after": b,
        "test": TESTS[test][0],
        "confidence": versus.protocol.confidence,
        "data": data,
    }


def _rankings(versus: Versus, both: Both) -> dict[str, Any] | None:
    """The rankings of both folders, each method twice."""
    merged: dict[int, tuple[str, dict[str, Any]]] = {}
    for label, results, summary in zip(versus.labels, versus.results, (both.before, both.after), strict=True):
        for at, (_, ranked) in shown_rankings(results, summary).items():
            systems_here = {f"{method}, {label}": rows for method, rows in ranked.items()}
            merged.setdefault(at, ("", {}))[1].update(systems_here)
    gains = abs(both.after.values[:, 0] - both.before.values[:, 0])
    spread = gains.max(axis=0, initial=0.0, where=gains == gains)
    systems = [
        (f"{method}, {label}", at, side)
        for side, label in enumerate(versus.labels)
        for at, method in enumerate(both.after.methods)
    ]
    kept = by_spread(merged, spread)[: limit_for(len(versus.data))]
    return embedded(systems, merged, kept, len(both.after.query_ids))
