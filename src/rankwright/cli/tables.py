"""What commands that read tables share: `--columns`, and a line on what the columns of a table were taken for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.formats import Detected
    from rankwright.data.roles import Columns
    from rankwright.data.trec import TrecTable

__all__ = ["columns_option", "matched", "tell_layout"]

_HELP = (
    "Columns of a table where their names do not tell; roles are id, title, text, qid, query, docid, label, skip and "
    "categorical."
)


def columns_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--columns``, of commands that read tables."""
    return click.option("--columns", metavar="ROLE=NAME,…", help=_HELP)(function)


def tell_layout(found: Detected, columns: Columns | None = None) -> None:
    """Say what the columns of feature data in text are taken for."""
    if found.kind != "csv":
        return
    from rankwright.data.csv_features import feature_layout
    from rankwright.data.delimited import open_table, utf8_lines
    from rankwright.data.files import OpenFile

    assert isinstance(found.source, OpenFile)
    try:
        layout = feature_layout(open_table(utf8_lines(found.source), found.path).names, columns)
    except InputError:  # reading it will say what is wrong
        return
    if layout is not None:
        click.echo(f"reading {found.path}: {layout}", err=True)


def matched(table: TrecTable, queries: Iterable[tuple[str, str]], path: Path) -> TrecTable:
    """Judgements with the ids of the queries that they name by text, and a line that says how many."""
    from rankwright.data.trec import match_queries

    new, number = match_queries(table, queries)
    if number:
        click.echo(f"note: {number:,} of {table.n_queries:,} queries of {path} matched by their text", err=True)
    return new
