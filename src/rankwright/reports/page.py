"""One self-contained HTML file, whose policy forbids network access; and the report of one results folder in it.

Style, script and data are inside. A report holds numbers, not pictures: tables and sentences are plain HTML, written
here, and the script draws the plots from the embedded JSON, to fit the window. The same files give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from rankwright.io.files import check_folder, replace_file
from rankwright.reports.figures import figures
from rankwright.reports.glossary import SIGNIFICANTLY, glossary, linked, word
from rankwright.reports.results import ResultsFolder, read_results
from rankwright.reports.sentences import (
    about_data,
    about_health,
    about_tests,
    about_useless,
    bullets,
    counted,
    opening_verdict,
    verdict_of,
)
from rankwright.reports.statistics import ComparisonProtocol, DataSummary, protocol_of, summaries
from rankwright.reports.tables import (
    all_pairs_table,
    differences_table,
    manifest_list,
    means_table,
    notes_list,
    runs_table,
)

CHOOSER = (
    '<div class="chooser" hidden><label>data <select id="choose-data"></select></label>'
    '<label>measure <select id="choose-measure"></select></label></div>'
)
"""The bar that selects data set and measure; it stands before the section ``differences``."""
_STYLES = ("page.css", "plots.css", "rankings.css", "media.css")
_SCRIPTS = ("svg.js", "plots.js", "lines.js", "queries.js", "rankings.js", "report.js")


def check_target(target: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    check_folder(target)


def write_page(target: Path, text: str) -> Path:
    """Write a page, which appears when it is complete."""
    with replace_file(target) as out:
        out.write(text.encode("utf-8", "replace"))
    return target


def document(heading: str, facts: Sequence[str], sections: Sequence[tuple[str, str, str]], drawn: Any) -> str:
    """The page: a heading, facts below it, and sections of a key, a name and HTML; empty ones are left out.

    `heading`, `facts`: plain text. `sections`: the sections. The words that they link to are explained in one more.
    `drawn`: what the script draws, as plain lists and numbers.
    """
    words = glossary("".join(content for _, _, content in sections))
    shown = [section for section in (*sections, ("words", "Words", words)) if section[2]]
    style = "\n".join([_asset("shared.css", "rankwright"), *map(_asset, _STYLES)])
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in shown)
    body = "".join(
        (CHOOSER if key == "differences" else "") + f'<section id="{key}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(name)}</h2>{content}</section>'
        for key, name, content in shown
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(heading)}</title>
<style>{style}</style>
</head>
<body>
<header>
<div><h1>{escape(heading)}</h1><p class="facts">{" · ".join(map(escape, facts))}</p></div>
<button type="button" id="theme" hidden>Theme: auto</button>
</header>
<div class="layout">
<nav aria-label="Contents"><details open><summary>Contents</summary><ul>{links}</ul></details></nav>
<main>
<noscript><p class="note">The plots need JavaScript. Sentences and tables do not.</p></noscript>
{body}
</main>
</div>
<div id="tip" role="status" aria-live="polite" hidden></div>
<script type="application/json" id="data">{_json(drawn)}</script>
<script>{script}</script>
</body>
</html>
"""


def figure(plot: str, caption: str, *, choose: str = "", numbers: bool = True) -> str:
    """The frame of a plot, with its buttons and the table of its numbers; filled by the script."""
    save = "".join(f'<button type="button" data-save="{kind}">{kind.upper()}</button>' for kind in ("svg", "png"))
    choice = (
        f'<label class="choice" hidden>{_CHOICES[choose]} <select data-choose="{choose}"></select></label>'
        if choose
        else ""
    )
    table = '<details class="numbers"><summary>Numbers</summary><div></div></details>' if numbers else ""
    return (
        f'<figure data-plot="{plot}"><figcaption><span>{escape(caption)}<span class="of"></span></span>'
        f'<span class="save">{save}</span>'
        f'</figcaption>{choice}<div class="canvas"></div>{table}</figure>'
    )


def query_plot(drawn: dict[str, Any], caption: str, rankings: str) -> str:
    """The plot of all queries and, if the data have any, the frame of two rankings of one; filled by the script.

    `rankings`: in words, those that a click on the plot shows.
    """
    plot = figure("queries", caption, choose="method")
    if not any(panel["rankings"] for panel in drawn["data"]):
        return plot
    click = f"Click a bar, or press Enter on it, to see {rankings} of the query."
    choices = "".join(
        f'<label class="choice">{name} <select data-choose="{key}"></select></label>'
        for key, name in (("query", "query"), ("left", "left"), ("right", "right"))
    )
    return (
        f'<p class="note screen">{click}</p>{plot}'
        '<div data-rankings hidden><h3 id="rankings" tabindex="-1">Rankings side by side</h3>'
        f'<div class="choices">{choices}</div><div class="sides" aria-live="polite"></div><p class="note"></p></div>'
    )


def chosen_tables(tables: Iterable[tuple[int, int, str]], caption: str) -> str:
    """The plot of differences, and tables of which the bar shows one, by the places of data set and measure."""
    chosen = (f'<div class="chosen" data-data="{data}" data-measure="{at}">{table}</div>' for data, at, table in tables)
    terms = f"{word('interval', 'Intervals')}, {word('effect', 'effect sizes')}, {word('p', 'p-values')}, {word('wtl')}"
    note = f'<p class="note">{terms} are explained at the end of the page.</p>'
    return figure("differences", caption, numbers=False) + note + "".join(chosen)


def how_decided(lines: Iterable[str]) -> str:
    """The folded list of how significance is decided; lines are HTML."""
    listed = bullets(lines)
    return f'<details class="how"><summary>How significance is decided</summary>{listed}</details>' if listed else ""


_CHOICES = {"method": "method", "line": "show"}


def _json(value: Any) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str, package: str = "rankwright.reports") -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


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


def _page(results: ResultsFolder, title: str | None, progress: Callable[[int, int], None] | None) -> str:
    protocol = protocol_of(results)
    data = summaries(results, protocol, progress)
    drawn = figures(results, protocol, data)
    heading = title or str(results.manifest.get("title") or results.manifest.get("name") or results.folder.name)
    sections = [
        ("summary", "Summary", _summary(results, data, protocol)),
        ("means", "Means", _means(data, protocol) + _definitions(results)),
        ("differences", "Against the baseline", _against(data, protocol)),
        ("pairs", "All pairs", _all_pairs(data)),
        ("queries", "Query by query", _by_query(drawn)),
        *_plots(drawn, {"health": _health_words(results, data)}),
        ("run", "What was run", _what_was_run(results)),
    ]
    facts = [
        counted(len(data), "data set"),
        counted(len(protocol.methods), "method"),
        counted(len(protocol.measures), "measure"),
        counted(sum(len(summary.query_ids) for summary in data), "test query", "test queries"),
        *_when(results),
    ]
    return document(heading, facts, sections, drawn)


def _when(results: ResultsFolder) -> list[str]:
    """When the experiment ended, if the manifest says."""
    times = results.manifest.get("times")
    for place in (results.manifest, times if isinstance(times, dict) else {}):
        date = place.get("finished") or place.get("started")
        if isinstance(date, str):
            return [_ISO.sub(r"\1 \2", date).replace("+00:00", " UTC")]
    return []


def _summary(results: ResultsFolder, data: Sequence[DataSummary], protocol: ComparisonProtocol) -> str:
    """The verdict first, then what a reader must know of the data, then the rest."""
    wrong = "".join(f'<p class="warning">{escape(line)}.</p>' for line in _about_data_sets(results, "warnings"))
    doubt = " The warning below puts these figures in doubt." if wrong else ""
    parts = [f'<p class="lead">{opening_verdict(data, protocol)}{doubt}</p>', _missing(results), wrong]
    caution = "Figures are not comparable with those on all documents."
    parts += [f'<p class="note">{escape(line)}. {caution}</p>' for line in _about_data_sets(results, "cleaning")]
    parts += [f'<p class="warning">{escape(line)}.</p>' for line in _left_out(data)]
    for summary in data:
        useless = about_useless(results.health, summary.name)
        line = f"{summary.title}: {useless}" if len(data) > 1 else useless
        parts.append(f'<p class="warning">{linked(line)}</p>' if useless else "")
    for summary in data:
        measure = summary.first_measure
        if measure is None:
            continue
        if len(data) > 1:
            parts.append(f"<h3>{escape(summary.title)}</h3><p>{verdict_of(summary)}</p>")
        parts.append(bullets(about_data(summary, measure)))
    return "".join(parts) + how_decided(about_tests(data, protocol))


def _left_out(data: Sequence[DataSummary]) -> list[str]:
    """What is not compared, because not every method has it."""
    return [f"{summary.title}: {note}" for summary in data for note in summary.notes]


def _missing(results: ResultsFolder) -> str:
    """A warning if cells failed or are missing."""
    cells = results.manifest.get("cells")
    counts = {k: v for k, v in cells.items() if isinstance(v, int)} if isinstance(cells, dict) else {}
    parts = [f"{counts[key]:,} {key}" for key in ("failed", "missing") if counts.get(key)]
    if not parts:
        return ""
    incomplete = f"of {counts.get('total', 0):,} {word('cell', 'cells')}, {' and '.join(parts)}"
    return f'<p class="warning">These results are incomplete: {incomplete}.</p>'


def _about_data_sets(results: ResultsFolder, key: str) -> list[str]:
    """What the manifest lists under a key of its data sets, such as queries that are both trained and tested on."""
    lines = [
        (name, line.get("text") if isinstance(line, dict) else line)
        for name, entry in results.entries("data").items()
        if isinstance(entry.get(key), list)
        for line in entry[key]
    ]
    return [f"{name}: {text}" for name, text in lines if isinstance(text, str)]


def _definitions(results: ResultsFolder) -> str:
    """The definitions of the measures; those that do not hold for all data sets have the name of theirs."""
    definitions = results.manifest.get("definitions")
    by_data = definitions if isinstance(definitions, dict) else {"": definitions}
    lists = {str(name): [str(x) for x in lines] for name, lines in by_data.items() if isinstance(lines, list)}
    lines = [
        line if all(line in other for other in lists.values()) else f"{name}: {line}"
        for name, values in lists.items()
        for line in values
    ]
    head = f'<p class="note">{word("definitions", "How the measures are defined")}:</p>'
    return head + bullets(map(escape, dict.fromkeys(lines)), "note") if lines else ""


def _means(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> str:
    tables = [means_table(summary) for summary in data if summary.measures]
    if not any(summary.differences for summary in data):
        return "".join(tables)
    base = escape(protocol.baseline)
    legend = (
        f'<p class="note"><b>Bold</b>: best in column. <span class="mark better">▲</span> and '
        f'<span class="mark worse">▼</span>: {SIGNIFICANTLY} better and worse than {base}. '
        f"{word('wtl')}: queries on which a method is better, equal or worse. "
        + (f"±: spread over {word('seeds')}. " if any(s.seed_means is not None for s in data) else "")
        + '<span class="screen">Click a heading to sort.</span></p>'
    )
    return legend + "".join(tables)


def _against(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> str:
    """The chooser of data and measure, which applies to everything below, and the first plot."""
    if not any(summary.differences for summary in data):
        return ""
    tables = [
        (place, protocol.measures.index(measure), differences_table(summary, measure))
        for place, summary in enumerate(data)
        for measure in summary.differences
    ]
    return chosen_tables(tables, f"Mean difference from {protocol.baseline}, with {protocol.confidence:.0%} interval")


def _all_pairs(data: Sequence[DataSummary]) -> str:
    """All pairs of methods in the first measure of each data set, if there are more than the baseline's."""
    compared = [summary for summary in data if summary.measures and len(summary.ranked(summary.measures[0])) > 2]
    tables = [all_pairs_table(summary.title, summary.pairs(summary.measures[0])) for summary in compared]
    note = (
        f"Every method with every other: {word('effect', 'effect sizes')}, and Tukey's test by randomisation, which is "
        f"for all pairs at once. Its {word('p', 'p-values')} need no {word('correction')}."
    )
    return f'<p class="note">{note}</p>{"".join(tables)}' if tables else ""


def _by_query(drawn: dict[str, Any]) -> str:
    if not any(rows for panel in drawn["data"] for rows in panel["differences"]):
        return ""
    plot = query_plot(drawn, "Difference from the baseline on every query, largest gain first", "the rankings")
    kinds = any(len({query[2] for query in panel["queries"]}) > 1 for panel in drawn["data"])
    by_kind = '<h3>By kind of query</h3><div data-table="kinds"></div>' if kinds else ""
    lowest = f"Lowest mean over all methods, of the queries that have a {word('relevant')} document."
    hardest = f'<h3>Hardest queries</h3><p class="note">{lowest}</p><div data-table="hardest"></div>'
    return plot + by_kind + hardest


def _health_words(results: ResultsFolder, data: Sequence[DataSummary]) -> str:
    sentences = [(summary.title, about_health(results, summary.name, summary.methods)) for summary in data]
    return bullets(f"<b>{escape(title)}</b>: {text}" for title, text in sentences if text)


def _plots(drawn: dict[str, Any], sentences: dict[str, str]) -> list[tuple[str, str, str]]:
    """The sections of plots that at least one data set has data for, with their sentences."""
    health = (
        f"Each line should fall as {word('C')} grows: the {word('loss')} on the training queries, alone and with the "
        f"{word('penalty')}. A line that stays at 1 is that of an {word('untrained')}. The other panels: size of the "
        f"{word('weights')}, {word('passes')} over the training queries, proven {word('gap')}."
    )
    plots = (  # key, its data, heading, caption, note
        (
            "criteria",
            "criteria",
            "Trained for, tested on",
            "Mean of every measure (columns) by the measure trained for (rows)",
            f"What a method is {word('trained-for')} need not be what it is best in.",
        ),
        (
            "paths",
            "paths",
            "Choosing parameters",
            "Mean value on validation data along each parameter",
            f"Settings are chosen on {word('validation')}, never on test queries; so is the number of "
            f"{word('rounds')}.",
        ),
        ("health", "health", "Training health", "How training went for every C tried", health),
        (
            "curves",
            "curves",
            "Learning curves",
            "Mean on test queries against the number of training queries",
            "Do more training queries help? A line that still rises at its end suggests that they would.",
        ),
        (
            "time",
            "times",
            "Time and quality",
            "Mean on test queries against seconds of training",
            "Up and left is better: a higher mean, less time.",
        ),
    )
    return [
        (
            key,
            name,
            f'<p class="note">{note}</p>{sentences.get(key, "")}'
            + figure(key, caption, choose="line" if key in _LINES else ""),
        )
        for key, field, name, caption, note in plots
        if any(panel[field] for panel in drawn["data"])
    ]


def _what_was_run(results: ResultsFolder) -> str:
    notes = notes_list(results.runs)
    parts = [f"<h3>Notes</h3>{notes}" if notes else "", manifest_list(results)]
    if results.runs:
        summary = f"Every training ({counted(len(results.runs), 'run')})"
        parts.append(f"<details><summary>{summary}</summary>{runs_table(results.runs)}</details>")
    return "".join(parts)
