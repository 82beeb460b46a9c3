"""What commands that read tables share: `--columns`, and a line on what the columns of each table were taken for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.files import Source
    from rankwright.data.formats import Detected
    from rankwright.data.roles import Columns
    from rankwright.data.trec import TrecTable
    from rankwright.text.reading.queries import Queries
    from rankwright.text.reading.sources import DocumentFiles

__all__ = [
    "columns_option",
    "matched",
    "read_judgements",
    "tell_documents",
    "tell_doubt",
    "tell_layout",
    "tell_queries",
]

_HELP = (
    "Columns of a table where their names do not tell; roles are id, title, text, qid, query, docid, label, feature, "
    "skip and categorical."
)


def columns_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--columns``, of commands that read tables."""
    return click.option("--columns", metavar="ROLE=NAME,…", callback=_parsed, help=_HELP)(function)


def _parsed(_: click.Context, __: click.Parameter, text: str | None) -> Columns | None:
    from rankwright.data.roles import parse_columns

    return parse_columns(text)


def tell_layout(found: Detected, columns: Columns | None = None) -> None:
    """Say what the columns of feature data in text are taken for."""
    if found.kind != "csv":
        return
    from rankwright.data.csv_features import feature_layout
    from rankwright.data.delimited import HEADER_BYTES, open_table, utf8_lines
    from rankwright.data.files import OpenFile

    assert isinstance(found.source, OpenFile)
    try:
        header = open_table(utf8_lines(found.source, size=HEADER_BYTES), found.path)
        layout = feature_layout(header.names, columns)
    except InputError:  # reading it will say what is wrong
        return
    if layout is not None:
        click.echo(f"reading {found.path}: {layout}", err=True)


def tell_documents(files: DocumentFiles, kind: str | None, used: Sequence[str] | None) -> None:
    """Say what the columns of files of documents are taken for; only the fields ``used`` are, None for all."""
    from rankwright.data.categories import named
    from rankwright.text.reading.documents import document_columns

    for path in files.paths:
        found = document_columns(path, kind, files.columns)
        if found is None:
            continue
        fields = [name for name in found.values() if name and name != "id" and (used is None or name in used)]
        key = next(name for name, field in found.items() if field == "id")
        skipped = [name for name, field in found.items() if field not in fields and name != key]
        left = f"; skipped {named(skipped)}" if skipped else ""
        click.echo(f"reading {path}: ids {key!r}, fields {named(fields) or 'none'}{left}", err=True)


def tell_queries(queries: Queries, path: str | Path) -> None:
    """Say what the columns of a table of queries were taken for."""
    if queries.layout:
        number = "1 query" if len(queries) == 1 else f"{len(queries):,} queries"
        click.echo(f"read {path}: {number}; {queries.layout}", err=True)


def tell_doubt(found: Detected) -> None:
    """Say that a table could hold features as well as judgements, where either will do."""
    if found.kind == "csv" and found.doubt:
        click.echo(f"note: {found.path}: {found.doubt}", err=True)


def read_judgements(source: Source, columns: Columns | None = None) -> TrecTable:
    """The judgements of a file, with a line on what the columns of a table were taken for."""
    from rankwright.cli.progress import reading
    from rankwright.data.files import OpenFile
    from rankwright.data.trec import read_qrels

    path = source.path if isinstance(source, OpenFile) else source
    with reading(path) as progress:
        table = read_qrels(source, progress, columns=columns)
    if table.layout:
        queries = "1 query" if table.n_queries == 1 else f"{table.n_queries:,} queries"
        what = f"{table.n_docs:,} judgement{'s' if table.n_docs > 1 else ''} of {queries}"
        click.echo(f"read {path}: {what}; {table.layout}", err=True)
    return table


def matched(table: TrecTable, queries: Iterable[tuple[str, str]], path: Path) -> TrecTable:
    """Judgements with the ids of the queries that they name by text, and a line that says how many."""
    from rankwright.data.trec import match_queries

    new, number = match_queries(table, queries)
    if number:
        click.echo(f"note: {number:,} of {table.n_queries:,} queries of {path} matched by their text", err=True)
    return new
