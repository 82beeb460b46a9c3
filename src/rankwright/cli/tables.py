"""What commands that read tables share: a line on what the columns of each table were taken for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rankwright.data.trec_table import TrecTable
    from rankwright.io.detect import Detected
    from rankwright.io.files import Source
    from rankwright.io.roles import Columns
    from rankwright.text.reading.documents import DocumentFiles
    from rankwright.text.reading.queries import Queries


def tell_layout(found: Detected, columns: Columns | None = None) -> None:
    """Say what the columns of a table of features are taken for."""
    from rankwright.io.detect import layout_of

    layout = layout_of(found, columns)
    if layout is None:
        return
    as_written = (layout.qid, layout.label) == ("qid", "label") and layout.docid in (None, "docid")
    if found.kind == "csv" or layout.skipped or not as_written:  # not of what Rankwright itself writes
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
    if found.kind in ("csv", "parquet") and found.doubt:
        click.echo(f"note: {found.path}: {found.doubt}", err=True)


def read_judgements(source: Source, columns: Columns | None = None) -> TrecTable:
    """The judgements of a file, with a line on what the columns of a table were taken for."""
    from rankwright.cli.printing import reading
    from rankwright.io.files import OpenFile
    from rankwright.io.trec import read_qrels

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
    from rankwright.io.trec import match_queries

    new, number = match_queries(table, queries)
    if number:
        click.echo(f"note: {number:,} of {table.n_queries:,} queries of {path} matched by their text", err=True)
    return new
