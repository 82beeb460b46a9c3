"""The page that compares two results folders: what got better and worse, query by query, and what was changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import TESTS
from rankwright.reports.figures import difference_row, embedded_values, query_rows
from rankwright.reports.opening import distance, tested_by
from rankwright.reports.rankings import by_spread, embedded, limit_for, shown_rankings
from rankwright.reports.results import check_folder
from rankwright.reports.sentences import counted, p_text, signed
from rankwright.reports.shell import check_target, document, figure, side_by_side, write_page
from rankwright.reports.statistics import ALPHA, verdict
from rankwright.reports.tables import changes_table, versus_table
from rankwright.reports.versus import Both, Versus, compare_folders
from rankwright.reports.words import about_differences, linked, word

__all__ = ["write_comparison"]


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
    names = [both.name or "all queries" for both in versus.data]
    drawn = _drawn(versus, names)
    a, b = versus.labels
    queries = sum(len(both.query_ids) for both in versus.data)
    methods = len({method for both in versus.data for method in both.methods})
    facts = [
        counted(len(names), "data set"),
        counted(methods, "method"),
        counted(queries, "shared query", "shared queries"),
    ]
    facts.append(f"before: {a}, after: {b}")
    only = "".join(f"<li>{escape(line)}</li>" for line in versus.only)
    changed = changes_table(versus.changed, versus.labels) if versus.changed else ""
    same = "<p>The manifests do not say of any difference in settings, versions or data.</p>"
    sections = [
        ("summary", "Summary", _summary(versus, names)),
        ("differences", "Differences", _differences(versus, names)),
        ("queries", "Query by query", _by_query(drawn)),
        ("only", "Only in one folder", f"<ul>{only}</ul>" if only else ""),
        ("run", "What was changed", changed or same),
    ]
    return document(title or f"{b} compared with {a}", facts, sections, drawn)


def _rows(versus: Versus, measure: str) -> list[tuple[Both, Difference]]:
    return [(both, row) for both in versus.data for row in both.differences.get(measure, ())]


def _summary(versus: Versus, names: Sequence[str]) -> str:
    measure = next(name for name in versus.protocol.measures if _rows(versus, name))
    test = versus.protocol.tests[0]
    parts = [f'<p class="lead">{_verdict(versus, measure)}</p>']
    parts += [f'<p class="warning">{escape(line)}.</p>' for line in versus.warnings]
    for both, name in zip(versus.data, names, strict=True):
        rows = both.differences.get(measure, [])
        lines = []
        groups = [
            ("Significantly better", [row for row in rows if verdict(row, test) > 0]),
            ("Significantly worse", [row for row in rows if verdict(row, test) < 0]),
            ("No significant difference", [row for row in rows if not verdict(row, test) and row.wins + row.losses]),
        ]
        for text, some in groups:
            listed = [f"{escape(row.system)} ({signed(row.difference)})" for row in some]
            lines += [f"<li>{text}: {', '.join(listed)}.</li>"] if listed else []
        equal = [escape(row.system) for row in rows if not row.wins + row.losses]
        lines += [f"<li>Equal on every query: {', '.join(equal)}.</li>"] if equal else []
        queries = counted(len(both.query_ids), "shared query", "shared queries")
        head = f"<h3>{escape(name)}, {escape(measure)}, {queries}</h3>"
        parts.append(f"{head}<ul>{''.join(lines)}</ul>")
    decided = (
        f"Significant: {TESTS[test][0]}, two-tailed over the queries that both folders have, p < {ALPHA:g}",
        f"Correction: {versus.protocol.correction}, for the methods of one data set in one measure",
        "A query tested in several splits counts once, with the mean of its values",
    )
    how = "".join(f"<li>{linked(line)}.</li>" for line in decided)
    parts.append(f'<details class="how"><summary>How significance is decided</summary><ul>{how}</ul></details>')
    return "".join(parts)


def _verdict(versus: Versus, measure: str) -> str:
    """How many methods got significantly better and worse, and the largest change."""
    test, (a, b) = versus.protocol.tests[0], map(escape, versus.labels)
    rows = _rows(versus, measure)
    sure = word("significant", "significantly")
    if all(row.wins == row.losses == 0 for _, row in rows):
        who = f"{_pairs(versus, rows)} {_be(len(rows))}"
        return f"<b>{b} and {a} have the same values</b> in {escape(measure)}: {who} equal on every query."
    if len(rows) == 1:
        row = rows[0][1]
        sign = verdict(row, test)
        how = {1: f"is {sure} better", -1: f"is {sure} worse", 0: f"does not differ {sure}"}[sign]
        than = "than in" if sign else "from"
        return f"<b>{escape(row.system)} {how} in {b} {than} {a}</b>: {_told(rows[0], versus)}."
    signs = [verdict(row, test) for _, row in rows]
    better, worse = signs.count(1), signs.count(-1)
    same = sum(row.wins == row.losses == 0 for _, row in rows)
    where = f"in {b} than in {a}"
    if better and worse:
        told = f"Of {_pairs(versus, rows)}, {better:,} {_be(better)} {sure} better {where}"
        told += f", {worse:,} {_be(worse)} worse"
    elif better or worse:
        how, never = ("better", "worse") if better else ("worse", "better")
        some = f"{better or worse:,} of {_pairs(versus, rows)} {_be(better or worse)}"
        told = f"{some} {sure} {how} {where}, none is {never}"
    else:
        told = f"No method is {sure} better or worse {where}"
    equal = f"; {same:,} {_be(same)} equal on every query" if same else ""
    largest = max(rows, key=lambda pair: abs(pair[1].difference))
    who = f"{escape(largest[1].system)}{_where(largest, versus)}"
    chance = "" if verdict(largest[1], test) else " That may be chance."
    return f"<b>{told}</b> in {escape(measure)}{equal}. Largest change: {who}: {_told(largest, versus)}.{chance}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _pairs(versus: Versus, rows: Sequence[tuple[Both, Difference]]) -> str:
    if len(versus.data) == 1:
        return counted(len(rows), "method")
    return f"{len(rows):,} pairs of method and data set"


def _where(pair: tuple[Both, Difference], versus: Versus) -> str:
    return f" on {escape(pair[0].name)}" if len(versus.data) > 1 else ""


def _told(pair: tuple[Both, Difference], versus: Versus) -> str:
    both, row = pair
    p = word("p", p_text(row.p_corrected[versus.protocol.tests[0]]))
    compared = len(both.differences[row.measure])
    return f"{distance(row, versus.protocol)} ({p} by the {tested_by(versus.protocol, compared)})"


def _differences(versus: Versus, names: Sequence[str]) -> str:
    a, b = versus.labels
    shown = []
    for place, (both, name) in enumerate(zip(versus.data, names, strict=True)):
        for measure, rows in both.differences.items():
            if rows:
                at = versus.protocol.measures.index(measure)
                made = versus_table(rows, measure, versus.protocol, versus.labels, name)
                shown.append(f'<div class="chosen" data-data="{place}" data-measure="{at}">{made}</div>')
    caption = f"Mean of {b} minus {a}, with {versus.protocol.confidence:.0%} interval"
    return figure("differences", caption, numbers=False) + about_differences() + "".join(shown)


def _by_query(drawn: dict[str, Any]) -> str:
    has_rankings = any(one["rankings"] for one in drawn["data"])
    click = '<p class="note screen">Click a bar, or press Enter on it, to see both rankings of the query.</p>'
    plot = figure("queries", "Difference on every query, largest gain first", choose="method")
    return (click if has_rankings else "") + plot + (side_by_side() if has_rankings else "")


def _drawn(versus: Versus, names: Sequence[str]) -> dict[str, Any]:
    """What the plots show, in the form of a report's."""
    a, b = versus.labels
    test = versus.protocol.tests[0]
    nothing: dict[str, Any] = {key: [] for key in ("criteria", "paths", "health", "curves", "times")}
    data = [
        {
            **nothing,
            "name": name,
            "methods": list(both.methods),
            "measures": list(both.measures),
            "queries": query_rows(versus.results[1], both.name, both.query_ids),
            "relevant": [None] * len(both.query_ids),
            "before": embedded_values(both.before),
            "values": embedded_values(both.after),
            "differences": [[difference_row(row, test) for row in both.differences[m]] for m in both.measures],
            "rankings": _rankings(versus, both),
        }
        for both, name in zip(versus.data, names, strict=True)
    ]
    methods = list(dict.fromkeys(method for both in versus.data for method in both.methods))
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
    place = {query: at for at, query in enumerate(both.query_ids)}
    merged: dict[int, tuple[str, dict[str, Any]]] = {}
    for label, results, one in zip(versus.labels, versus.results, both.summaries, strict=True):
        for at, (_, ranked) in shown_rankings(results, one).items():
            query = place.get(one.query_ids[at])
            if query is not None:
                own = {f"{method}, {label}": rows for method, rows in ranked.items() if method in both.methods}
                merged.setdefault(query, ("", {}))[1].update(own)
    gains = abs(both.after[:, 0] - both.before[:, 0])
    spread = gains.max(axis=0, initial=0.0, where=gains == gains)
    systems = [
        (f"{method}, {label}", at, side)
        for side, label in enumerate(versus.labels)
        for at, method in enumerate(both.methods)
    ]
    kept = by_spread(merged, spread)[: limit_for(len(versus.data))]
    return embedded(systems, {at: one for at, one in merged.items() if one[1]}, kept, len(both.query_ids))
