"""Tables for people and programs: terminal text, Markdown, LaTeX (booktabs), CSV and JSON from the same rows."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from rankwright.data.display import Tabled
from rankwright.errors import InputError
from rankwright.evaluation.comparison import ALPHA, Comparison, Difference, Pair, comparison_rows
from rankwright.evaluation.evaluate import Evaluation, shared_notes

FORMATS = ("text", "markdown", "latex", "csv", "json")
_SHORT = {"t": "t-test", "wilcoxon": "Wilcoxon", "sign": "sign", "randomization": "random."}


def render(
    result: Sequence[Evaluation] | Comparison,
    kind: str = "text",
    *,
    per_query: bool = False,
    compared: Sequence[Evaluation] = (),
) -> str:
    """Render evaluations or a comparison in one of the ``FORMATS``.

    `per_query`: of evaluations: show every query. `compared`: with a comparison: the evaluations that it compares, the
    baseline first, to show every query.
    """
    if kind not in FORMATS:
        raise InputError(f"unknown format {kind!r}; expected one of {', '.join(FORMATS)}")
    if isinstance(result, Comparison):
        if kind == "json":
            more = {"per_query": _differences_dict(compared)} if compared else {}
            return json.dumps(plain({**dataclasses.asdict(result), **more}), indent=2, ensure_ascii=False) + "\n"
        if kind == "csv":
            records = pairs_records(result.pairs) if result.pairs else _comparison_records(result)
            return csv_text(*(_difference_records(compared) if compared else records))
        tables = [comparison_table(result), *([pairs_table(result.pairs)] if result.pairs else [])]
        tables += [_differences_table(compared)] if compared else []
        return "\n".join(map(_DRAW[kind], tables))
    if kind == "json":
        return json.dumps(plain(_evaluation_dict(result, per_query)), indent=2, ensure_ascii=False) + "\n"
    if kind == "csv":
        return csv_text(*_evaluation_records(result, per_query))
    return _DRAW[kind](evaluation_table(result, per_query))


def evaluation_table(evaluations: Sequence[Evaluation], per_query: bool = False) -> Tabled:
    """One row per system (and per query on request), one column per measure."""
    measures = tuple(map(str, evaluations[0].measures))
    rows: list[tuple[str, ...]] = []
    rules, of_means = set(), []
    for evaluation in evaluations:
        means = tuple(figure(mean) for mean in evaluation.means.values())
        if per_query:
            rules.add(len(rows))
            for query, values in _counted(evaluation):
                rows.append((evaluation.name, str(query), *map(figure, values)))
            rules.add(len(rows))
            rows.append((evaluation.name, "mean", *means))
        else:
            rows.append((evaluation.name, *means))
        of_means.append(len(rows) - 1)
    notes = (*evaluations[0].definitions, *shared_notes(evaluations))
    header = ("system", "query", *measures) if per_query else ("system", *measures)
    n_names = 2 if per_query else 1
    best = [cell for column in range(n_names, len(header)) for cell in _best(rows, of_means, column)]
    return Tabled(header, tuple(rows), notes, n_names, frozenset(rules - {0}), frozenset(best))


def _counted(evaluation: Evaluation) -> list[tuple[Any, list[float]]]:
    """The queries that count for at least one measure, with their values."""
    rows = zip(evaluation.query_ids.tolist(), evaluation.values.tolist(), strict=True)
    return [(query, values) for query, values in rows if not all(map(math.isnan, values))]


def _best(rows: Sequence[Sequence[str]], among: Sequence[int], column: int) -> list[tuple[int, int]]:
    """The cells with the highest number of a column, as far as digits are shown; none if there is only one."""
    shown = {at: float(rows[at][column]) for at in among if rows[at][column] not in ("", "–")}
    if len(shown) < 2:
        return []
    return [(at, column) for at, number in shown.items() if number == max(shown.values())]


def comparison_table(comparison: Comparison) -> Tabled:
    """For each measure, the row of the baseline, then a row per system."""
    tests = tuple(f"p {_SHORT[test]}" for test in comparison.tests)
    interval = f"{comparison.confidence:.0%} interval"
    needed = ("queries needed",) if comparison.power is not None else ()
    header = ("measure", "system", "mean", "diff", "diff %", interval, "effect", "w/t/l", *tests, *needed)
    rows: list[tuple[str, ...]] = []
    rules, best = set(), []
    for measure, mean in comparison.baseline_means.items():
        first = len(rows)
        rules.add(first)
        rows.append((measure, f"{comparison.baseline} (baseline)", figure(mean), *("",) * (len(header) - 3)))
        rows.extend(_difference_row(row)[: len(header)] for row in comparison.differences if row.measure == measure)
        best += _best(rows, range(first, len(rows)), 2)
    marks = f"* p < {ALPHA:g}" + ("" if comparison.correction == "none" else " after the correction")
    notes = (*comparison.definitions, *comparison.method, marks, *comparison.disagreements, *comparison.notes)
    return Tabled(header, tuple(rows), notes, 2, frozenset(rules - {0}), frozenset(best))


def pairs_table(pairs: Sequence[Pair]) -> Tabled:
    """A row for every pair of systems on every measure."""
    rows = [
        (
            pair.measure,
            pair.system,
            pair.other,
            f"{pair.queries:,}",
            f"{pair.difference:+.4f}",
            effect(pair.effect_size),
            _p(pair.p),
        )
        for pair in pairs
    ]
    header = ("measure", "system", "other", "queries", "diff", "effect", "p Tukey")
    notes = (f"* p < {ALPHA:g} for all pairs of a measure together, by Tukey's test by randomisation",)
    return Tabled(header, tuple(rows), notes, 3, group_starts(rows))


def _differences_table(evaluations: Sequence[Evaluation]) -> Tabled:
    """For each measure a row per query: the values of all systems, and their differences from the baseline."""
    names = [evaluation.name for evaluation in evaluations]
    apart = [f"{name} − {names[0]}" if len(names) > 2 else "diff" for name in names[1:]]
    rows: list[tuple[str, ...]] = []
    rules = set()
    for measure in map(str, evaluations[0].measures):
        rules.add(len(rows))
        for query, values, gains in _query_differences(evaluations, measure):
            shown = [*map(figure, values), *("–" if math.isnan(gain) else f"{gain:+.4f}" for gain in gains)]
            rows.append((measure, str(query), *shown))
    return Tabled(("measure", "query", *names, *apart), tuple(rows), (), 2, frozenset(rules - {0}))


def _difference_row(row: Difference) -> tuple[str, ...]:
    relative = f"{100 * row.difference / row.baseline_mean:+.1f}" if row.baseline_mean else "–"
    low, high = row.interval
    p_values = (_p(p) for p in row.p_corrected.values())
    counts = f"{row.wins}/{row.ties}/{row.losses}"
    interval = f"[{low:+.4f}, {high:+.4f}]"
    needed = "–" if row.queries_needed is None else f"{row.queries_needed:,}"
    figures = figure(row.mean), f"{row.difference:+.4f}", relative, interval, effect(row.effect_size), counts
    return ("", row.system, *figures, *p_values, needed)


def effect(value: float) -> str:
    """An effect size with two digits; a dash for nan."""
    return "–" if math.isnan(value) else f"{value:+.2f}"


def figure(value: float) -> str:
    """A value with four digits; a dash for nan."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def _p(p: float) -> str:
    shown = "<0.0001" if p < 0.0001 else f"{p:.4f}"
    return shown + ("*" if p < ALPHA else " ")


def _text(table: Tabled) -> str:
    columns = list(zip(table.header, *table.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [_aligned(table.header, widths, table.text_columns), "─" * (sum(widths) + 2 * (len(widths) - 1))]
    for i, row in enumerate(table.rows):
        if i in table.rules:
            lines.append("")
        lines.append(_aligned(row, widths, table.text_columns))
    return "\n".join([*lines, "", *table.notes]) + "\n"


def _aligned(row: Sequence[str], widths: Sequence[int], text_columns: int) -> str:
    cells = [
        cell.ljust(width) if i < text_columns else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _markdown(table: Tabled) -> str:
    def escaped(text: str) -> str:
        return text.strip().replace("|", "\\|").replace("*", "\\*")

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(escaped, cells)) + " |"

    ruler = ["---"] * table.text_columns + ["---:"] * (len(table.header) - table.text_columns)
    rows = [line(table.header), "|" + "|".join(ruler) + "|", *map(line, table.rows)]
    return "\n".join(rows) + "\n\n" + "".join(f"- {escaped(note)}\n" for note in table.notes)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "<": "$<$", ">": "$>$", "–": "--", "*": "$^{*}$",
}  # fmt: skip

_NEGATIVE = re.compile(r"(?<![\w.-])-(?=\d+\.\d)")


def _latex(table: Tabled) -> str:
    def escaped(text: str) -> str:
        signed = _NEGATIVE.sub("−", text.strip())  # a hyphen is too short for a minus sign
        return "".join(_LATEX.get(character, character) for character in signed)

    layout = "l" * table.text_columns + "r" * (len(table.header) - table.text_columns)
    lines = [f"% {note}" for note in (*table.notes, *(["bold: the best of its column"] if table.best else []))]
    lines += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", " & ".join(map(escaped, table.header)) + r" \\"]
    lines += [r"\midrule"]
    for i, row in enumerate(table.rows):
        cells = [
            rf"\textbf{{{escaped(cell)}}}" if (i, j) in table.best else escaped(cell) for j, cell in enumerate(row)
        ]
        lines += [r"\midrule"] * (i in table.rules) + [" & ".join(cells) + r" \\"]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


_DRAW = {"text": _text, "markdown": _markdown, "latex": _latex}


def group_starts(rows: Sequence[Sequence[str]]) -> frozenset[int]:
    """The rows whose first cell differs from that of the row before: where a line is drawn."""
    return frozenset(at for at in range(1, len(rows)) if rows[at][0] != rows[at - 1][0])


def draw(table: Tabled, kind: str = "text") -> str:
    """A table as terminal text, Markdown or LaTeX."""
    return _DRAW[kind](table)


def rendered(table: Tabled, records: tuple[Sequence[str], Iterable[Sequence[Any]]], facts: Any, kind: str) -> str:
    """One of the ``FORMATS`` of a result: its table, its records for CSV under their header, its facts for JSON."""
    if kind not in FORMATS:
        raise InputError(f"unknown format {kind!r}; expected one of {', '.join(FORMATS)}")
    if kind == "csv":
        return csv_text(*records)
    if kind == "json":
        return json.dumps(plain(facts), indent=2, ensure_ascii=False) + "\n"
    return draw(table, kind)


def csv_text(header: Sequence[str], records: Iterable[Sequence[Any]]) -> str:
    """CSV with all digits; nan is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([["" if isinstance(x, float) and math.isnan(x) else x for x in record] for record in records])
    return out.getvalue()


def _evaluation_records(evaluations: Sequence[Evaluation], per_query: bool) -> tuple[list[str], list[list[Any]]]:
    measures = list(map(str, evaluations[0].measures))
    if not per_query:
        return ["system", *measures], [[e.name, *e.means.values()] for e in evaluations]
    records = [[e.name, query, *values] for e in evaluations for query, values in _counted(e)]
    return ["system", "query", *measures], records


def _comparison_records(comparison: Comparison) -> tuple[list[str], list[list[Any]]]:
    header = ["measure", "system", "baseline", "queries", "mean", "baseline_mean", "difference", "low", "high"]
    header += ["effect_size", "wins", "ties", "losses"]
    header += [f"{kind}_{test}" for kind in ("p", "p_corrected") for test in comparison.tests]
    header += ["queries_needed"] * (comparison.power is not None)
    return header, [[row[name] for name in header] for row in comparison_rows(comparison)]


def pairs_records(pairs: Sequence[Pair]) -> tuple[list[str], list[list[Any]]]:
    """A header, and a record for every pair of systems on every measure."""
    return [field.name for field in dataclasses.fields(Pair)], [list(dataclasses.astuple(pair)) for pair in pairs]


def _evaluation_dict(evaluations: Sequence[Evaluation], per_query: bool) -> dict[str, Any]:
    systems = []
    for evaluation in evaluations:
        system: dict[str, Any] = {"name": evaluation.name, "means": evaluation.means, **evaluation.facts}
        system["notes"] = list(evaluation.notes)
        if per_query:
            names = list(map(str, evaluation.measures))
            system["per_query"] = {
                str(query): dict(zip(names, values, strict=True)) for query, values in _counted(evaluation)
            }
        systems.append(system)
    return {"definitions": list(evaluations[0].definitions), "systems": systems}


def plain(value: Any) -> Any:
    """A value as plain JSON, with null for numbers that are not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _query_differences(
    evaluations: Sequence[Evaluation], measure: str
) -> Iterator[tuple[Any, list[float], list[float]]]:
    """The queries that count for the baseline, which comes first, and for at least one other system.

    Yields `query`: its id. Yields `values`: the value of every system; nan if it does not have the query. Yields
    `gains`: the difference of every system but the first from the first.
    """
    columns = [dict(zip(e.query_ids.tolist(), e.column(measure).tolist(), strict=True)) for e in evaluations]
    for query in columns[0]:
        values = [column.get(query, math.nan) for column in columns]
        gains = [value - values[0] for value in values[1:]]
        if not all(map(math.isnan, gains)):
            yield query, values, gains


def _difference_records(evaluations: Sequence[Evaluation]) -> tuple[list[str], list[list[Any]]]:
    """A header, and a record for every measure, query and system but the baseline."""
    base, *others = evaluations
    records = [
        [str(measure), query, system.name, base.name, value, values[0], gain]
        for measure in base.measures
        for query, values, gains in _query_differences(evaluations, str(measure))
        for system, value, gain in zip(others, values[1:], gains, strict=True)
    ]
    return ["measure", "query", "system", "baseline", "value", "baseline_value", "difference"], records


def _differences_dict(evaluations: Sequence[Evaluation]) -> dict[str, dict[str, dict[str, float]]]:
    names = [evaluation.name for evaluation in evaluations]
    return {
        str(measure): {
            str(query): dict(zip(names, values, strict=True))
            for query, values, _ in _query_differences(evaluations, str(measure))
        }
        for measure in evaluations[0].measures
    }
