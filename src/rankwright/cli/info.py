"""`rankwright info`: what is in a file, for people or (``--json``) for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

    from rankwright.data.summary import FeatureSummary, QrelsSummary, RunSummary, ScoresSummary, Spread

    Summary = FeatureSummary | QrelsSummary | RunSummary | ScoresSummary

__all__ = ["command"]

_TITLES = {
    "letor": "LETOR text",
    "parquet": "Parquet table",
    "folder": "Rankwright data folder",
    "qrels": "TREC judgements",
    "run": "TREC run",
    "scores": "scores, one per line",
}
_MARGIN = 17
_BAR = 30
_SHOWN = 12  # names listed for people; --json lists all
_SHOWN_EQUAL = 4
_SHOWN_LABELS = 12


@click.command("info")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--group", type=click.Path(path_type=Path), metavar="FILE", help="Documents per query, for text without qid."
)
@click.option("--negative-as-zero", is_flag=True, help="Take labels below 0 as not relevant instead of as an error.")
def command(path: Path, as_json: bool, group: Path | None, negative_as_zero: bool) -> None:
    """Show what is in FILE: features, TREC judgements, a TREC run or scores.

    For features this includes what tends to go wrong: constant features, features that are copies of others, and
    queries from which nothing can be learnt because all their documents are relevant or none is.

    \b
    Example:
      rankwright info train.txt.gz
      rankwright info qrels.txt --json
    """
    kind, summary = _summary(path, group, "zero" if negative_as_zero else "error")
    if as_json:
        click.echo(json.dumps({"path": str(path), "format": kind, **summary.to_dict()}, ensure_ascii=False))
        return
    from rich.console import Console

    _show(Console(highlight=False, soft_wrap=True), path, kind, summary)


def _summary(path: Path, group: Path | None, negative: Literal["error", "zero"]) -> tuple[str, Summary]:
    from rankwright.cli.progress import reading
    from rankwright.data import summary as summaries
    from rankwright.data.columns import read_columns
    from rankwright.data.formats import detect, read_data
    from rankwright.data.trec import read_qrels, read_run

    kind = detect(path)
    with reading(path) as progress:
        if kind == "qrels":
            return kind, summaries.summarize_qrels(read_qrels(path, progress))
        if kind == "run":
            return kind, summaries.summarize_run(read_run(path, progress))
        if kind == "scores":
            chunks = [part.numbers("score") for part in read_columns(path, ("score",), ("score",), progress)]
            return kind, summaries.summarize_scores(np.concatenate(chunks))
        # Text is read as float64: float32 could make two features or two values look the same.
        dtype = "float64" if kind == "letor" else None
        data = read_data(path, dtype=dtype, group=group, negative=negative, progress=progress)
    return kind, summaries.summarize(data)


def _show(console: Console, path: Path, kind: str, found: Summary) -> None:
    from rankwright.data.summary import FeatureSummary, QrelsSummary, RunSummary, ScoresSummary

    console.print(f"[bold]{_escape(str(path))}[/]  [dim]{_TITLES[kind]}[/]\n")
    if isinstance(found, ScoresSummary):
        _line(console, "scores", f"{found.documents:,}, {found.distinct:,} of them distinct")
        _line(console, "values", _spread(found.scores))
        return
    _line(console, "queries", f"{found.queries:,}")
    _line(console, "judgements" if isinstance(found, QrelsSummary) else "documents", f"{found.documents:,}")
    _line(console, "per query", _spread(found.documents_per_query))
    if isinstance(found, RunSummary):
        _line(console, "scores", f"{_number(found.score_min)} to {_number(found.score_max)}")
        _line(console, "tied scores", f"{found.tied_share:.1%} of the documents share their score with another")
        return
    if isinstance(found, FeatureSummary):
        _show_features(console, found, None if kind == "letor" else found.dtype)
    _show_labels(console, found.labels)
    _line(console, "no relevant", _share(found.queries_without_relevant, found.queries))
    _line(console, "all relevant", _share(found.queries_without_non_relevant, found.queries))


def _show_features(console: Console, found: FeatureSummary, dtype: str | None) -> None:
    _line(console, "document ids", "yes" if found.document_ids else "none")
    stored = found.kind if dtype is None else f"{found.kind} {dtype}"
    _line(console, "features", f"{found.features:,} {stored}, {found.density:.1%} of the values not 0")
    _line(console, "values", f"{_number(found.feature_min)} to {_number(found.feature_max)}")
    _line(console, "constant", _listed(found.constant_features))
    _line(console, "duplicates", _listed([_equation(group) for group in found.duplicate_features]))


def _show_labels(console: Console, labels: Sequence[tuple[float, int]]) -> None:
    rows = _label_rows(labels)
    total, most = sum(count for _, count in rows), max(count for _, count in rows)
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    width, digits = max(len(text) for text, _ in rows), len(f"{most:,}")
    room = max(10, min(_BAR, console.width - _MARGIN - width - digits - 12))
    for at, (text, count) in enumerate(rows):
        bar = block * max(1, round(room * count / most)) if count else ""
        head = f"{'labels' if at == 0 else '':<{_MARGIN - 2}}"
        numbers = f"{text:>{width}}  {count:>{digits},}  {count / total:>6.1%}"
        console.print(f"  [dim]{head}[/]{numbers}  [cyan]{bar}[/]".rstrip())


def _label_rows(labels: Sequence[tuple[float, int]]) -> list[tuple[str, int]]:
    """Labels with their counts; very many different ones are put into ranges."""
    if len(labels) <= _SHOWN_LABELS:
        return [(_number(label), count) for label, count in labels]
    values, counts = np.array(labels).T
    sums, edges = np.histogram(values, bins=10, weights=counts)
    ranges = [f"{_number(low)} to {_number(high)}" for low, high in pairwise(edges)]
    return list(zip(ranges, sums.astype(int).tolist(), strict=True))


def _line(console: Console, name: str, text: str) -> None:
    """One entry; on a terminal long ones go on under their beginning, in a pipe they stay one line."""
    width = max(40, console.width - _MARGIN) if console.is_terminal else 10**9
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    body = f"\n{' ' * _MARGIN}".join(lines)
    console.print(f"  [dim]{name:<{_MARGIN - 2}}[/]{_escape(body)}")


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"


def _spread(spread: Spread) -> str:
    names: dict[str, Any] = {"mean": spread.mean, "median": spread.median, "min": spread.min, "max": spread.max}
    return ", ".join(f"{name} {_number(value)}" for name, value in names.items())


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,} queries ({count / total:.1%})" if count else "0 queries"


def _equation(group: Sequence[str]) -> str:
    if len(group) <= _SHOWN_EQUAL:
        return " = ".join(group)
    return f"{' = '.join(group[: _SHOWN_EQUAL - 1])} = {len(group) - _SHOWN_EQUAL + 1} others"


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _SHOWN:,} more (--json lists all)" if len(names) > _SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:_SHOWN])}{more}"
