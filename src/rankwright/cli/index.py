"""`rankwright index`: from documents to an index that can be searched and turned into features."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.files import show_documents
from rankwright.cli.options import FILE, columns_option, output_option
from rankwright.cli.printing import counted, progress
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.text.documents import DocumentFiles
    from rankwright.text.index import Index

_ANALYZERS = ("plain", "porter", "porter+stop")


@click.command("index")
@click.argument("documents", metavar="DOCS...", nargs=-1, type=FILE)
@output_option("The index folder.", metavar="INDEX")
@click.option("--add", is_flag=True, help="Add the documents to INDEX instead of replacing it.")
@click.option(
    "--fields", metavar="NAME,NAME…", help="Fields to index, in this order.  [default: all, in the order of appearance]"
)
@click.option(
    "--number",
    "numbers",
    multiple=True,
    metavar="NAME,NAME…",
    help="Fields that hold numbers or dates (days since 1970), kept as features instead of being indexed as text.",
)
@click.option(
    "--set-numbers",
    "table",
    type=FILE,
    metavar="TABLE",
    help="Set numbers of documents in INDEX, without DOCS: CSV, tab-separated or JSON lines, with a column id.",
)
@click.option(
    "--analyzer",
    "analyzers",
    multiple=True,
    type=click.Choice(_ANALYZERS),
    help="Analyser whose terms to store; may be repeated.  [default: all three]",
)
@click.option("--split-identifiers", is_flag=True, help="Split camelCase and HTTPServer into two words each.")
@click.option("--field-views", is_flag=True, help="Also store the terms of each field by itself.")
@click.option("--no-text", is_flag=True, help="Do not store the texts; search then shows no snippets.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["csv", "jsonl", "json", "tsv", "parquet", "trec", "html", "markdown", "folder"]),
    help="Format of DOCS.  [default: from suffix or first bytes]",
)
@columns_option
@click.option("--html", metavar="NAME,NAME…", help="Fields that hold HTML: their text is indexed, without tags.")
@click.option(
    "--errors",
    type=click.Choice(["strict", "replace"]),
    default="strict",
    show_default=True,
    help="What to do about bytes that are not UTF-8: stop, or replace them and count the documents affected.",
)
def command(
    documents: tuple[Path, ...],
    target: Path,
    add: bool,
    fields: str | None,
    numbers: tuple[str, ...],
    table: Path | None,
    analyzers: tuple[str, ...],
    split_identifiers: bool,
    field_views: bool,
    no_text: bool,
    kind: str | None,
    columns: Columns | None,
    html: str | None,
    errors: Literal["strict", "replace"],
) -> None:
    """Index the documents in DOCS.

    DOCS are files, plain or gzip, or folders: CSV with a header (id, title, text, ...), JSON lines or an array
    ({"id": "d1", "title": "...", "text": "..."}), Parquet, tab-separated lines (id, text; or with a first line that
    names the columns), TREC SGML (<DOC><DOCNO>...), web pages and Markdown (title, headings, text), a folder in which
    every file is a document, a BEIR folder, or ir_datasets:NAME. INDEX appears once it is complete; an existing index
    is replaced.

    \b
    Example:
      rankwright index docs.jsonl.gz -o docs.index
      rankwright index site/ -o site.index
      rankwright index products.csv -o shop.index --columns id=sku,text=blurb --html text
      rankwright index docs.tsv -o docs.index --fields title,body --analyzer porter+stop
      rankwright index more.jsonl -o docs.index --add
      rankwright index shop.jsonl -o shop.index --number price,clicks
      rankwright index --set-numbers clicks.csv -o shop.index
    """
    has_settings = fields is not None or bool(numbers or analyzers) or split_identifiers or field_views or no_text
    if table is not None:
        if documents or add or has_settings or kind or columns or html:
            raise click.UsageError("--set-numbers changes an index; expected only -o INDEX with it, and no DOCS")
        _set_numbers(table, target)
        return
    if not documents:
        raise click.UsageError("Missing argument 'DOCS...'.")
    from rankwright.text.documents import DocumentFiles

    files = DocumentFiles(documents, columns, () if html is None else _names(html))
    if not add:
        asked = None if fields is None else _names(fields)
        stored = [name for one in numbers for name in _names(one)]
        show_documents(files, kind, None if asked is None else [*asked, *stored])
        index = _build(
            files,
            target,
            fields=asked,
            numbers=stored,
            analyzers=analyzers or _ANALYZERS,
            split_identifiers=split_identifiers,
            field_views=field_views,
            store=not no_text,
            format=kind,
            errors=errors,
        )
        click.echo(f"wrote {target}: {_summary(index)}", err=True)
        _tell_missing(index, index.numbers)
        return
    if has_settings:
        what = "no options for fields, numbers, analysers or texts"
        raise InputError(f"--add keeps the settings of the index; expected {what}")
    show_documents(files, kind, None)
    index, n_before = _add(files, target, format=kind, errors=errors)
    n_added = index.n_docs - n_before
    click.echo(f"added {counted(n_added, 'document')} to {target}: {_summary(index)}", err=True)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _build(documents: DocumentFiles, target: Path, **options: Any) -> Index:
    from rankwright.text.index import build_index

    with progress(f"indexing {documents.paths[0].name}") as update:
        return build_index(documents, target, progress=update, **options)


def _add(documents: DocumentFiles, path: Path, **options: Any) -> tuple[Index, int]:
    from rankwright.text.index import Index, IndexChanged

    while True:
        index = Index.open(path)
        try:
            with progress(f"indexing {documents.paths[0].name}") as update:
                return index.add(documents, progress=update, **options), index.n_docs
        except IndexChanged:  # another process was adding to it: start from what it has written
            continue


def _set_numbers(table: Path, path: Path) -> None:
    from rankwright.text.index import Index, IndexChanged

    while True:
        before = Index.open(path)
        try:
            index = before.set_numbers(table)
            break
        except IndexChanged:
            continue
    changed = [name for name in index.numbers if _differ(index, before, name)]
    new = [name for name in index.numbers if name not in before.numbers]
    shown = ", ".join(f"{name} (new)" if name in new else name for name in changed) or "nothing: all are as they were"
    click.echo(f"set in {path}: {shown}", err=True)
    _tell_missing(index, changed)


def _differ(index: Index, before: Index, name: str) -> bool:
    import numpy as np

    return name not in before.numbers or not np.array_equal(index.numbers[name], before.numbers[name], equal_nan=True)


def _tell_missing(index: Index, names: Iterable[str]) -> None:
    import numpy as np

    for name in names:
        n_missing = int(np.isnan(index.numbers[name]).sum())
        if n_missing:
            has = "has" if n_missing == 1 else "have"
            click.echo(f"note: {n_missing:,} of {index.n_docs:,} documents {has} no {name}", err=True)


def _summary(index: Index) -> str:
    empty = f" ({index.n_empty:,} empty)" if index.n_empty else ""
    counts = f"{index.n_docs:,} documents{empty}, {index.n_tokens:,} tokens, {index.n_terms:,} terms"
    numbers = f", numbers {', '.join(index.numbers)}" if index.numbers else ""
    return f"{counts}{numbers}, {_size(index.n_bytes)}"


def _size(n_bytes: int) -> str:
    if n_bytes < 1_000_000:
        return f"{n_bytes / 1_000:.1f} kB"
    return f"{n_bytes / 1_000_000:,.1f} MB"
