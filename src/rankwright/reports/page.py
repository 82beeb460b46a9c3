"""One self-contained HTML file: style, script and data are inside, and its policy forbids network access.

Tables and sentences are plain HTML, written here. The script draws the plots from the embedded JSON, to fit the window.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from rankwright.data.files import replace_file
from rankwright.errors import InputError
from rankwright.reports.figures import figures
from rankwright.reports.results import Results, read_results
from rankwright.reports.sentences import about_data, about_health, about_tests, about_useless, counted, overall
from rankwright.reports.statistics import DataSummary, Protocol, protocol_of, summaries
from rankwright.reports.tables import differences_table, manifest_list, means_table, notes_list, runs_table

__all__ = ["write_report"]

_ISO = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::[\d.]+)?")
_CHOOSER = (
    '<div class="chooser" hidden><label>data <select id="choose-data"></select></label>'
    '<label>measure <select id="choose-measure"></select></label></div>'
)
_STYLES = ("page.css", "plots.css", "media.css")
_SCRIPTS = ("svg.js", "plots.js", "lines.js", "queries.js", "report.js")


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
        ``paths.csv``, ``rounds.csv`` and ``health.csv``.
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
    if not target.parent.is_dir():
        raise InputError("cannot be written: No such file or directory", target)
    text = _page(results, title, progress)
    with replace_file(target) as out:
        out.write(text.encode("utf-8", "replace"))
    return target


def _page(results: Results, title: str | None, progress: Callable[[int, int], None] | None) -> str:
    protocol = protocol_of(results)
    data = summaries(results, protocol, progress)
    drawn = figures(results, protocol, data)
    names = [_data_name(one, results) for one in data]
    for one, name in zip(drawn["data"], names, strict=True):
        one["name"] = name
    heading = title or str(results.manifest.get("title") or results.manifest.get("name") or results.folder.name)
    sections = [
        ("summary", "Summary", _said_first(results, data, names) + _summary(data, names, protocol)),
        ("means", "Means", _means(data, names, protocol) + _definitions(results)),
        ("differences", "Against the baseline", _against(data, names, protocol)),
        ("queries", "Query by query", _by_query(drawn)),
        *_plots(drawn, {"health": _health_words(results, data, names)}),
        ("run", "What was run", _what_was_run(results)),
    ]
    sections = [section for section in sections if section[2]]
    style, script = "\n".join([_asset("shared.css", "rankwright"), *map(_asset, _STYLES)]), _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    links = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name, _ in sections)
    body = "".join(
        (_CHOOSER if key == "differences" else "") + f'<section id="{key}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(name)}</h2>{content}</section>'
        for key, name, content in sections
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
<div><h1>{escape(heading)}</h1><p class="facts">{_facts(data, protocol, results)}</p></div>
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


def _data_name(one: DataSummary, results: Results) -> str:
    named = results.manifest.get("data")
    return one.name or (named if isinstance(named, str) and named else "all queries")


def _facts(data: Sequence[DataSummary], protocol: Protocol, results: Results) -> str:
    queries = sum(len(one.query_ids) for one in data)
    facts = [
        counted(len(data), "data set"),
        counted(len(protocol.methods), "method"),
        counted(len(protocol.measures), "measure"),
        counted(queries, "test query", "test queries"),
    ]
    times = results.manifest.get("times")
    for place in (results.manifest, times if isinstance(times, dict) else {}):
        when = place.get("finished") or place.get("started")
        if isinstance(when, str):
            facts.append(_ISO.sub(r"\1 \2", when).replace("+00:00", " UTC"))
            break
    return " · ".join(map(escape, facts))


def _summary(data: Sequence[DataSummary], names: Sequence[str], protocol: Protocol) -> str:
    parts = []
    together = overall(data, protocol)
    if together:
        parts.append(f'<p class="lead">{" ".join(together)}</p>')
    for one, name in zip(data, names, strict=True):
        sentences = about_data(one, protocol)
        if sentences:
            head = f"<h3>{escape(name)}</h3>" if len(data) > 1 else ""
            kind = "" if together else ' class="lead"'
            rest = "".join(f"<li>{sentence}</li>" for sentence in sentences[1:])
            parts.append(f"{head}<p{kind}>{sentences[0]}</p>" + (f"<ul>{rest}</ul>" if rest else ""))
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
    some = f"of {counts.get('total', 0):,} cells, {' and '.join(parts)}"
    return f'<p class="warning">These results are incomplete: {some}.</p>'


def _said_first(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    """What a reader must know before any figure: what is missing, wrong, or learnt nothing."""
    return _missing(results) + _wrong(results) + _cleaned(results) + _useless(results, data, names)


def _useless(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    """A warning where methods are no better than zero weights."""
    found = [(name, about_useless(results.health, one.name)) for one, name in zip(data, names, strict=True)]
    lines = [f"{name}: {text}" if len(data) > 1 else text for name, text in found if text]
    return "".join(f'<p class="warning">{escape(line)}</p>' for line in lines)


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
    return f'<ul class="note">{items}</ul>' if items else ""


def _means(data: Sequence[DataSummary], names: Sequence[str], protocol: Protocol) -> str:
    tables = [means_table(one, protocol, name) for one, name in zip(data, names, strict=True) if one.measures]
    base = escape(protocol.baseline)
    legend = (
        f'<p class="note"><b>Bold</b>: best in column. <span class="mark better">▲</span> and '
        f'<span class="mark worse">▼</span>: significantly better and worse than {base}. w/t/l: queries on which a '
        'method is better, equal or worse. <span class="screen">Click a heading to sort.</span></p>'
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
    return _figure("differences", caption, numbers=False) + "".join(shown)


def _by_query(drawn: dict[str, Any]) -> str:
    if not any(rows for one in drawn["data"] for rows in one["differences"]):
        return ""
    plot = _figure("queries", "Difference from the baseline on every query, largest gain first", choose="method")
    kinds = any(len({query[2] for query in one["queries"]}) > 1 for one in drawn["data"])
    by_kind = '<h3>By kind of query</h3><div data-table="kinds"></div>' if kinds else ""
    hardest = (
        '<h3>Hardest queries</h3><p class="note">Lowest mean over all methods.</p><div data-table="hardest"></div>'
    )
    return plot + by_kind + hardest


def _health_words(results: Results, data: Sequence[DataSummary], names: Sequence[str]) -> str:
    found = [(name, about_health(results, one.name, one.methods)) for one, name in zip(data, names, strict=True)]
    lines = [f"<li><b>{escape(name)}</b>: {text}</li>" for name, text in found if text]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _plots(drawn: dict[str, Any], words: dict[str, str]) -> list[tuple[str, str, str]]:
    """The sections of plots that at least one data set has data for, with their sentences."""
    sections = (
        (
            "criteria",
            "Trained for, tested on",
            "criteria",
            "Mean of every measure (columns) by the measure trained for (rows)",
        ),
        ("paths", "Choosing parameters", "paths", "Mean value on validation data along each parameter"),
        ("health", "Training health", "health", "State of training as C grows"),
        ("curves", "Learning curves", "curves", "Mean on test queries against the number of training queries"),
        ("time", "Time and quality", "times", "Mean on test queries against seconds of training"),
    )
    return [
        (key, name, words.get(key, "") + _figure(key, caption))
        for key, name, field, caption in sections
        if any(one[field] for one in drawn["data"])
    ]


def _figure(plot: str, caption: str, *, choose: str = "", numbers: bool = True) -> str:
    """The frame of a plot, with its buttons and the table of its numbers; filled by the script."""
    save = "".join(f'<button type="button" data-save="{kind}">{kind.upper()}</button>' for kind in ("svg", "png"))
    choice = f'<label class="choice">{choose} <select data-choose="{choose}"></select></label>' if choose else ""
    table = '<details class="numbers"><summary>Numbers</summary><div></div></details>' if numbers else ""
    return (
        f'<figure data-plot="{plot}"><figcaption><span>{escape(caption)}<span class="of"></span></span>'
        f'<span class="save">{save}</span>'
        f'</figcaption>{choice}<div class="canvas"></div>{table}</figure>'
    )


def _what_was_run(results: Results) -> str:
    notes = notes_list(results.runs)
    parts = [f"<h3>Notes</h3>{notes}" if notes else "", manifest_list(results)]
    if results.runs:
        summary = f"Every training ({counted(len(results.runs), 'run')})"
        parts.append(f"<details><summary>{summary}</summary>{runs_table(results.runs)}</details>")
    return "".join(parts)


def _json(value: Any) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"


def _asset(name: str, package: str = "rankwright.reports") -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
