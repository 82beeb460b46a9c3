"""The tables of a report as HTML. Text from the data is escaped; cells carry the number to sort by."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from rankwright.evaluation.comparison import Difference, Pair
from rankwright.reports.glossary import linked
from rankwright.reports.results import ResultsFolder, RunRow
from rankwright.reports.sentences import bullets, counted, signed
from rankwright.reports.statistics import ALPHA, ComparisonProtocol, DataSummary, verdict

_MARKS = {1: ("▲", "better", "significantly better than"), -1: ("▼", "worse", "significantly worse than")}
_SHORT = {"t": "t-test", "wilcoxon": "Wilcoxon", "sign": "sign test", "randomization": "randomisation"}
_ELSEWHERE = ("format", "definitions")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_FIRST_KEYS = ("name", "title", "description", "command", "started", "finished", "seconds", "times", "seed", "seeds")


def _cell(text: str, value: float | None = None) -> str:
    """A cell with a figure; ``text`` is HTML, ``value`` the number to sort by."""
    sort = "" if value is None or not math.isfinite(value) else f' data-value="{value:.10g}"'
    return f'<td class="number"{sort}>{text}</td>'


def _figure_cell(value: float, shape: str = "{:.4f}") -> str:
    return _cell(_figure(value, shape), value)


def _text_cell(text: str) -> str:
    """A cell with text, which is HTML."""
    return f'<td class="text">{text}</td>'


def _row_head(text: str) -> str:
    """The cell that names its row, which is HTML."""
    return f'<th class="text" scope="row">{text}</th>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, *, text_columns: int = 1) -> str:
    """A sortable table; header and caption are plain text, rows are cells."""
    heads = "".join(
        f'<th scope="col" class="{"text" if at < text_columns else "number"}">'
        f'<button type="button" class="sort">{escape(name)}</button></th>'
        for at, name in enumerate(header)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="sortable">'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def means_table(summary: DataSummary) -> str:
    """Means of all measures, with marks against the baseline, and wins and losses on the first measure."""
    first = summary.measures[0]
    compared = bool(summary.differences.get(first))
    header = ["method", *summary.measures, *([f"w/t/l in {first}"] if compared else [])]
    best = {measure: _best(summary, measure) for measure in summary.measures}
    rows = []
    for method in summary.methods:
        row = [_name(method, summary)]
        for measure in summary.measures:
            mean = summary.mean(method, measure)
            text = f"<b>{_figure(mean)}</b>" if _figure(mean) == best[measure] else _figure(mean)
            if summary.seed_means is not None and math.isfinite(mean):
                text += f" ±{_figure(summary.seeds(method, measure).std(ddof=1))}"
            mark = _mark(summary.verdict(method, measure), summary.protocol.baseline)
            row.append(_cell(text + mark, mean))
        if compared:
            row.append(_wins(summary.difference(method, first)))
        rows.append(row)
    queries = counted(len(summary.query_ids), "query", "queries")
    splits = f", {counted(summary.splits, 'split')}" if summary.splits > 1 else ""
    splits += f", {len(summary.seed_means)} seeds" if summary.seed_means is not None else ""
    size = f", trained on {summary.train_size:,} queries" if summary.train_size else ""
    return table(header, rows, f"{summary.title}: means over {queries}{splits}{size}")


def all_pairs_table(title: str, pairs: Sequence[Pair]) -> str:
    """All pairs of methods in one measure."""
    rows = [
        [
            *map(_row_head, map(escape, (pair.system, pair.other))),
            _cell(signed(pair.difference), pair.difference),
            _effect(pair.effect_size),
            _p(pair.p),
        ]
        for pair in pairs
    ]
    caption = f"{title}, {pairs[0].measure}: all pairs, on {counted(pairs[0].queries, 'query', 'queries')}"
    return table(["method", "other", "difference", "effect", "p, Tukey"], rows, caption, text_columns=2)


def differences_table(summary: DataSummary, measure: str) -> str:
    """Details of one measure: difference, interval, wins, p-values."""
    protocol = summary.protocol
    compared = _compared_header(protocol)
    rows = []
    for method in summary.methods:
        difference = summary.difference(method, measure)
        blank = [_cell("")] * len(compared)
        cells = blank if difference is None else _compared(difference, protocol, protocol.baseline)
        rows.append([_name(method, summary), _figure_cell(summary.mean(method, measure)), *cells])
    return table(["method", "mean", *compared], rows, f"{summary.title}, {measure}: compared with {protocol.baseline}")


def versus_table(
    differences: Sequence[Difference], measure: str, protocol: ComparisonProtocol, labels: tuple[str, str], title: str
) -> str:
    """Methods in two results folders, in one measure."""
    rows = [
        [
            _row_head(escape(row.system)),
            *map(_figure_cell, (row.baseline_mean, row.mean)),
            *_compared(row, protocol, labels[0]),
        ]
        for row in differences
    ]
    header = ["method", *labels, *_compared_header(protocol)]
    return table(header, rows, f"{title}, {measure}: {labels[1]} compared with {labels[0]}")


def diff_list(texts: tuple[str, str], labels: tuple[str, str]) -> str:
    """The lines that differ between two experiment files, with those around them; empty if none do."""
    before, after = (text.splitlines() for text in texts)
    lines = list(difflib.unified_diff(before, after, *labels, lineterm=""))
    kinds = {"+": "ins", "-": "del"}
    shown = [
        f"<{kinds[line[0]]}>{escape(line)}</{kinds[line[0]]}>" if line[0] in kinds and at > 1 else escape(line)
        for at, line in enumerate(lines)
    ]
    return f'<h3>The experiment files</h3><pre class="diff">{chr(10).join(shown)}</pre>' if lines else ""


def changes_table(changed: Sequence[tuple[str, str, str]], labels: tuple[str, str]) -> str:
    """What differs in what was run."""
    rows = [[_row_head(escape(name)), *(_text_cell(escape(value)) for value in values)] for name, *values in changed]
    return table(["setting", *labels], rows, "What differs in what was run", text_columns=3)


def _compared_header(protocol: ComparisonProtocol) -> list[str]:
    tests = [f"p, {_SHORT[test]}" for test in protocol.tests]
    return ["difference", "in %", f"{protocol.confidence:.0%} interval", "w/t/l", *tests, "effect"]


def _compared(difference: Difference, protocol: ComparisonProtocol, against: str) -> list[str]:
    """Cells: difference, in %, interval, wins, p-values, effect."""
    share = 100 * difference.difference / difference.baseline_mean if difference.baseline_mean else math.nan
    low, high = difference.interval
    mark = _mark(verdict(difference, protocol.tests[0]), against)
    return [
        _cell(signed(difference.difference) + mark, difference.difference),
        _cell("–" if math.isnan(share) else f"{share:+.1f}".replace("-", "−"), share),
        _cell(f"{signed(low)} … {signed(high)}", low),
        _wins(difference),
        *(_p(difference.p_corrected[test]) for test in protocol.tests),
        _effect(difference.effect_size),
    ]


def runs_table(runs: Sequence[RunRow]) -> str:
    """One row per training."""
    header = ["data", "split", "method", "parameters", "validation", "training", "s train", "s tune", "queries", "note"]
    rows = []
    for run in runs:
        parameters = ", ".join(f"{name} = {_text(value)}" for name, value in run.parameters.items())
        rows.append(
            [
                *(_text_cell(escape(text)) for text in (run.data, run.split, run.method, parameters)),
                *map(_figure_cell, (run.validation, run.training)),
                *(_cell(_seconds(value), value) for value in (run.seconds_train, run.seconds_tune)),
                _figure_cell(run.n_train_queries, "{:,.0f}"),
                _text_cell(escape(run.note)),
            ]
        )
    return table(header, rows, "Every training", text_columns=4)


def notes_list(runs: Sequence[RunRow]) -> str:
    """The notes of all trainings, by method; notes that differ only in numbers share a line."""
    by_kind: dict[str, dict[str, list[list[str]]]] = {run.method: defaultdict(list) for run in runs}
    for run in runs:
        for note in run.note.replace("\0", " ").split("; ") if run.note else ():  # which marks the numbers below
            by_kind[run.method][_NUMBER.sub("\0", note)].append(_NUMBER.findall(note))
    return bullets(
        f"{escape(method)}: {linked(_filled(words, numbers))} ({counted(len(numbers), 'run')})"
        for method, notes in by_kind.items()
        for words, numbers in notes.items()
    )


def _filled(words: str, numbers: Sequence[Sequence[str]]) -> str:
    """A note with its numbers, or their ranges."""
    first, *rest = words.split("\0")
    for column, text in zip(zip(*numbers, strict=True), rest, strict=True):
        low, high = min(column, key=float), max(column, key=float)
        first += (low if float(low) == float(high) else f"{low} to {high}") + text
    return first


def manifest_list(results: ResultsFolder) -> str:
    """The manifest as a list of names and values, without empty ones and those shown elsewhere."""
    keys = [key for key in _FIRST_KEYS if key in results.manifest]
    keys += [key for key in results.manifest if key not in keys]
    entries = _entries({key: results.manifest[key] for key in keys if key not in _ELSEWHERE}, _value)
    return f'<dl class="facts">{entries}</dl>' if entries else "<p>The results folder has no manifest.</p>"


def _entries(values: Mapping[str, Any], shown: Callable[[Any], str]) -> str:
    """Names and values as the entries of a list, without empty ones; ``shown``: a value as HTML."""
    return "".join(
        f"<dt>{escape(_words(key))}</dt><dd>{shown(value)}</dd>"
        for key, value in values.items()
        if value not in _NOTHING
    )


def _value(value: Any) -> str:
    """A value as HTML: a table of names and values, a list, or a single item."""
    if isinstance(value, dict):
        return f'<dl class="inner">{_entries(value, _inline)}</dl>'
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return bullets(map(_inline, value))
    return _inline(value)


def _inline(value: Any) -> str:
    """A value in one line: its name in bold, then the rest."""
    if isinstance(value, dict):
        entries = {str(key): item for key, item in value.items() if item not in _NOTHING}
        name = entries.pop("name", None)
        plain = {key: item for key, item in entries.items() if not _is_table(item)}
        parts = [f"{escape(_words(key))} {_nested(item)}" for key, item in plain.items()]
        tables = "".join(_folded(key, item) for key, item in entries.items() if key not in plain)
        return (f"<b>{escape(_text(name))}</b>: " if name is not None else "") + "; ".join(parts) + tables
    if isinstance(value, list):
        return ", ".join(map(_nested, value))
    text = escape(_text(value))
    return f"<code>{text}</code>" if isinstance(value, str) else text


def _is_table(value: Any) -> bool:
    """Whether a value maps names to tables, such as the files of a data set."""
    return isinstance(value, dict) and len(value) > 0 and all(isinstance(row, dict) and row for row in value.values())


def _folded(key: str, value: dict[str, dict[str, Any]]) -> str:
    """A table that is folded away at first."""
    header = list(dict.fromkeys(name for row in value.values() for name in row))
    rows = [
        [_row_head(escape(row_name)), *(_text_cell(_inline(row.get(name))) for name in header)]
        for row_name, row in value.items()
    ]
    folded = table(["name", *map(_words, header)], rows, _words(key), text_columns=1 + len(header))
    return f"<details><summary>{escape(_words(key))} ({len(rows)})</summary>{folded}</details>"


def _nested(value: Any) -> str:
    """A value in one line, in parentheses if it has parts."""
    if isinstance(value, dict):
        parts = [f"{escape(str(key))} = {_nested(item)}" for key, item in value.items() if item not in _NOTHING]
        return f"({', '.join(parts)})"
    return _inline(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _name(method: str, summary: DataSummary) -> str:
    tag = ' <span class="tag">baseline</span>' if method == summary.protocol.baseline else ""
    return _row_head(escape(method) + tag)


def _best(summary: DataSummary, measure: str) -> str:
    ranked = summary.ranked(measure)
    return _figure(summary.mean(ranked[0], measure)) if len(ranked) > 1 else ""


def _mark(sign: int, baseline: str) -> str:
    """A triangle, with its meaning for screen readers; an empty mark of the same width if there is none."""
    if sign not in _MARKS:
        return '<span class="mark"></span>'
    symbol, kind, words = _MARKS[sign]
    text = f"{words} {escape(baseline)}"
    spoken = f'<span aria-hidden="true">{symbol}</span><span class="unseen"> {text}</span>'
    return f'<span class="mark {kind}" title="{text}">{spoken}</span>'


def _wins(row: Difference | None) -> str:
    return _cell("") if row is None else _cell(f"{row.wins}/{row.ties}/{row.losses}", row.wins - row.losses)


def _p(p: float) -> str:
    shown = "&lt;0.0001" if p < 0.0001 else f"{p:.4f}"
    return _cell(f"<b>{shown}</b>" if p < ALPHA else shown, p)


def _figure(value: float, shape: str = "{:.4f}") -> str:
    return shape.format(value) if math.isfinite(value) else "–"


def _effect(size: float) -> str:
    return _cell(f"{size:+.2f}".replace("-", "−") if math.isfinite(size) else "–", size)


def _seconds(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
