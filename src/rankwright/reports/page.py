"""The report of one results folder. Tables and sentences are plain HTML, written here; the script draws the plots."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rankwright.reports.figures import figures
from rankwright.reports.opening import first_measure, opening, verdict_of
from rankwright.reports.results import Results, read_results
from rankwright.reports.sentences import about_data, about_health, about_tests, about_useless, counted
from rankwright.reports.shell import check_target, document, figure, side_by_side, write_page
from rankwright.reports.statistics import DataSummary, Protocol, protocol_of, summaries
from rankwright.reports.tables import differences_table, manifest_list, means_table, notes_list, runs_table
from rankwright.reports.words import about_differences, linked, word

__all__ = ["when", "write_report"]

_LINES = ("paths", "health", "curves")  # plots of one line per method, of which one can be chosen
_ISO = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::[\d.]+)?")


def write_report(
    results_folder: str | Path,
    target_html: str | Path,
    *,
    title: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the report of an experiment's results as one HTML file.

    Parameters
    ----------
    results_folder : path
        The folder with ``per_query.csv`` and optionally ``manifest.json``, ``runs.csv``, ``queries.csv``,
        ``paths.csv``, ``rounds.csv``, ``health.csv`` and ``rankings.csv``.
    target_html : path
        The file to write; it appears only when complete.
    title : str, optional
        The heading. Default: the name in the manifest.
    progress : callable, optional
        Called with the number of comparisons done and the total: many methods on many queries take seconds.

    Returns
    -------
    Path
        The file written.
    """
    results = read_results(results_folder)
    target = Path(target_html)
    check_target(target)
    return write_page(target, _page(results, title, progress))


def _page(results: Results, title: str | None, progress: Callable[[int, int], None] | None) -> str:
    protocol = protocol_of(results)
    data = summaries(results, protocol, progress)
    drawn = figures(results, protocol, data)
    names = [_data_name(one, results) for one in data]
    for one, name in zip(drawn["data"], names, strict=True):
        one["name"] = name
    heading = title or str(results.manifest.get("title") or results.manifest.get("name") or results.folder.name)
    sections = [
        ("summary", "Summary", _summary(results, data, names, protocol)),
        ("means", "Means", _means(data, names, protocol) + _definitions(results)),
        ("differences", "Against the baseline", _against(data, names, protocol)),
        ("queries", "Query by query", _by_query(drawn)),
        *_plots(drawn, {"health": _health_words(results, data, names)}),
        ("run", "What was run", _what_was_run(results)),
    ]
    return document(heading, _facts(data, protocol, results), sections, drawn)


def _data_name(one: DataSummary, results: Results) -> str:
    named = results.manifest.get("data")
    return one.name or (named if isinstance(named, str) and named else "all queries")


def _facts(data: Sequence[DataSummary], protocol: Protocol, results: Results) -> list[str]:
    queries = sum(len(one.query_ids) for one in data)
    return [
        counted(len(data), "data set"),
        counted(len(protocol.methods), "method"),
        counted(len(protocol.measures), "measure"),
        counted(queries, "test query", "test queries"),
        *when(results),
    ]


def when(results: Results) -> list[str]:
    """When the experiment ended, if the manifest says."""
    times = results.manifest.get("times")
    for place in (results.manifest, times if isinstance(times, dict) else {}):
        found = place.get("finished") or place.get("started")
        if isinstance(found, str):
            return [_ISO.sub(r"\1 \2", found).replace("+00:00", " UTC")]
    return []


def _summary(results: Results, data: Sequence[DataSummary], names: Sequence[str], protocol: Protocol) -> str:
    """The verdict first, then what a reader must know of the data, then the rest."""
    doubt = " The warning below puts these figures in doubt." if _wrong(results) else ""
    parts = [f'<p class="lead">{opening(data, protocol)}{doubt}</p>', _warnings(results, data, names)]
    for one, name in zip(data, names, strict=True):
        measure = first_measure(one, protocol)
        if measure is None:
            continue
        if len(data) > 1:
            parts.append(f"<h3>{escape(name)}</h3><p>{verdict_of(one, protocol)}</p>")
        rest = "".join(f"<li>{sentence}</li>" for sentence in about_data(one, measure, protocol))
        parts.append(f"<ul>{rest}</ul>" if rest else "")
    how = "".join(f"<li>{line}</li>" for line in about_tests(data, protocol))
    if how:
        parts.append(f'<details class="how"><summary>How significance is decided</summary><ul>{how}</ul></details>')
    return "".join(parts)


def _missing(results: Results) -> str:
    """A warning if cells failed or are missing."""
    cells = results.manifest.get("cells")
    counts = {k: v for k, v in cells.items() if isinstance(v, int)} if isinstance(cells, dict) else {}
    parts = [f"{counts[key]:,} {key}" for key in ("failed", "missing") if counts.get(key)]
    if not parts:
        return ""
    some = f"of {counts.get('total', 0):,} {word('cell', 'cells')}, {' and '.join(parts)}"
    return f'<p class="warning">These results are incomplete: {some}.</p>'


def _warnings(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    """What a reader must know before any other figure: what is missing, wrong, or learnt nothing."""
    return _missing(results) + _wrong(results) + _cleaned(results) + _useless(results, data, names)


def _useless(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    """A warning where methods are no better than an untrained model."""
    found = [(name, about_useless(results.health, one.name)) for one, name in zip(data, names, strict=True)]
    lines = [f"{name}: {text}" if len(data) > 1 else text for name, text in found if text]
    return "".join(f'<p class="warning">{linked(line)}</p>' for line in lines)


def _entries(results: Results) -> list[dict[str, Any]]:
    """What the manifest says of the data sets."""
    listed = results.manifest.get("data")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _cleaned(results: Results) -> str:
    """What was dropped from the data, on which no other figures are comparable."""
    lines = [
        f"{one.get('name', '')}: {found['text']}"
        for one in _entries(results)
        if isinstance(one.get("cleaning"), list)
        for found in one["cleaning"]
        if isinstance(found, dict) and isinstance(found.get("text"), str)
    ]
    rest = ". Figures are not comparable with those on all documents."
    return "".join(f'<p class="note">{escape(line)}{rest}</p>' for line in lines)


def _wrong(results: Results) -> str:
    """What makes the results of a data set wrong, such as queries that are both trained and tested on."""
    lines = [
        f"{one.get('name', '')}: {line}"
        for one in _entries(results)
        if isinstance(one.get("warnings"), list)
        for line in one["warnings"]
    ]
    return "".join(f'<p class="warning">{escape(line)}.</p>' for line in lines)


def _definitions(results: Results) -> str:
    """The definitions of the measures; those that do not hold for all data sets have the name of theirs."""
    found = results.manifest.get("definitions")
    by_data = found if isinstance(found, dict) else {"": found}
    lists = {str(name): [str(x) for x in lines] for name, lines in by_data.items() if isinstance(lines, list)}
    lines = [
        line if all(line in other for other in lists.values()) else f"{name}: {line}"
        for name, own in lists.items()
        for line in own
    ]
    items = "".join(f"<li>{escape(line)}</li>" for line in dict.fromkeys(lines))
    head = f'<p class="note">{word("definitions", "How the measures are defined")}:</p>'
    return f'{head}<ul class="note">{items}</ul>' if items else ""


def _means(data: Sequence[DataSummary], names: Sequence[str], protocol: Protocol) -> str:
    tables = [means_table(one, protocol, name) for one, name in zip(data, names, strict=True) if one.measures]
    if not any(one.comparisons for one in data):
        return "".join(tables)
    base = escape(protocol.baseline)
    legend = (
        f'<p class="note"><b>Bold</b>: best in column. <span class="mark better">▲</span> and '
        f'<span class="mark worse">▼</span>: {word("significant", "significantly")} better and worse than {base}. '
        f"{word('wtl')}: queries on which a method is better, equal or worse. "
        '<span class="screen">Click a heading to sort.</span></p>'
    )
    return legend + "".join(tables)


def _against(data: Sequence[DataSummary], names: Sequence[str], protocol: Protocol) -> str:
    """The chooser of data and measure, which applies to everything below, and the first plot."""
    if not any(one.comparisons for one in data):
        return ""
    shown = []
    for place, (one, name) in enumerate(zip(data, names, strict=True)):
        for measure in one.comparisons:
            at = protocol.measures.index(measure)
            made = differences_table(one, measure, protocol, name)
            shown.append(f'<div class="chosen" data-data="{place}" data-measure="{at}">{made}</div>')
    caption = f"Mean difference from {protocol.baseline}, with {protocol.confidence:.0%} interval"
    return figure("differences", caption, numbers=False) + about_differences() + "".join(shown)


def _by_query(drawn: dict[str, Any]) -> str:
    if not any(rows for one in drawn["data"] for rows in one["differences"]):
        return ""
    has_rankings = any(one["rankings"] for one in drawn["data"])
    plot = figure("queries", "Difference from the baseline on every query, largest gain first", choose="method")
    click = '<p class="note screen">Click a bar, or press Enter on it, to see the rankings of the query.</p>'
    plot = (click if has_rankings else "") + plot
    kinds = any(len({query[2] for query in one["queries"]}) > 1 for one in drawn["data"])
    by_kind = '<h3>By kind of query</h3><div data-table="kinds"></div>' if kinds else ""
    lowest = f"Lowest mean over all methods, of the queries that have a {word('relevant')} document."
    hardest = f'<h3>Hardest queries</h3><p class="note">{lowest}</p><div data-table="hardest"></div>'
    return plot + (side_by_side() if has_rankings else "") + by_kind + hardest


def _health_words(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    found = [(name, about_health(results, one.name, one.methods)) for one, name in zip(data, names, strict=True)]
    lines = [f"<li><b>{escape(name)}</b>: {text}</li>" for name, text in found if text]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _plots(drawn: dict[str, Any], sentences: dict[str, str]) -> list[tuple[str, str, str]]:
    """The sections of plots that at least one data set has data for, with their sentences."""
    notes = {
        "criteria": f"What a method is {word('trained-for')} need not be what it is best in.",
        "paths": f"Settings are chosen on {word('validation')}, never on test queries; so is the number of "
        f"{word('rounds')}.",
        "health": f"Each line should fall as {word('C')} grows: the {word('loss')} on the training queries, alone and "
        f"with the {word('penalty')}. A line that stays at 1 is that of an {word('untrained')}. The other panels: size "
        f"of the {word('weights')}, {word('passes')} over the training queries, proven {word('gap')}.",
        "curves": "Do more training queries help? A line that still rises at its end suggests that they would.",
        "time": "Up and left is better: a higher mean, less time.",
    }
    sections = (
        (
            "criteria",
            "Trained for, tested on",
            "criteria",
            "Mean of every measure (columns) by the measure trained for (rows)",
        ),
        ("paths", "Choosing parameters", "paths", "Mean value on validation data along each parameter"),
        ("health", "Training health", "health", "How training went for every C tried"),
        ("curves", "Learning curves", "curves", "Mean on test queries against the number of training queries"),
        ("time", "Time and quality", "times", "Mean on test queries against seconds of training"),
    )
    return [
        (
            key,
            name,
            f'<p class="note">{notes[key]}</p>{sentences.get(key, "")}'
            + figure(key, caption, choose="line" if key in _LINES else ""),
        )
        for key, name, field, caption in sections
        if any(one[field] for one in drawn["data"])
    ]


def _what_was_run(results: Results) -> str:
    notes = notes_list(results.runs)
    parts = [f"<h3>Notes</h3>{notes}" if notes else "", manifest_list(results)]
    if results.runs:
        summary = f"Every training ({counted(len(results.runs), 'run')})"
        parts.append(f"<details><summary>{summary}</summary>{runs_table(results.runs)}</details>")
    return "".join(parts)
