"""`rankwright index`: documents in, an index to search and to make features from out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.index import Index

__all__ = ["command"]

_ANALYZERS = ("plain", "porter", "porter+stop")


@click.command("index")
@click.argument("documents", metavar="DOCS...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), metavar="INDEX", help="The folder to make.")
@click.option(
    "--add", type=click.Path(path_type=Path), metavar="INDEX", help="Add the documents to this index instead."
)
@click.option(
    "--fields", metavar="NAME,NAME…", help="Fields to index, in this order.  [default: all, in the order of appearance]"
)
@click.option(
    "--analyzer",
    "analyzers",
    multiple=True,
    type=click.Choice(_ANALYZERS),
    help="Whose terms to keep ready on disk; may be given several times.  [default: all three]",
)
@click.option("--split-identifiers", is_flag=True, help="Cut camelCase and HTTPServer into two words each.")
@click.option("--field-views", is_flag=True, help="Keep the terms of each single field ready on disk too.")
@click.option("--no-text", is_flag=True, help="Leave the texts out; results of a search then have no snippets.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "tsv", "trec", "folder"]),
    help="What DOCS are.  [default: found from suffix and first bytes]",
)
@click.option(
    "--errors",
    type=click.Choice(["strict", "replace"]),
    default="strict",
    show_default=True,
    help="What to do about bytes that are not UTF-8: stop, or replace them and say how many documents had some.",
)
def command(
    documents: tuple[Path, ...],
    target: Path | None,
    add: Path | None,
    fields: str | None,
    analyzers: tuple[str, ...],
    split_identifiers: bool,
    field_views: bool,
    no_text: bool,
    kind: str | None,
    errors: Literal["strict", "replace"],
) -> None:
    """Index the documents of DOCS.

    DOCS are files, plain or gzip, or folders: JSON lines ({"id": "d1", "title": "...", "text": "..."}), tab-separated
    lines (id, text; or with a first line that names the columns), TREC SGML (<DOC><DOCNO>...), or a folder in which
    every file is a document. INDEX appears only when it is complete; an index of that name is replaced.

    \b
    Example:
      rankwright index docs.jsonl.gz -o docs.index
      rankwright index docs.tsv -o docs.index --fields title,body --analyzer porter+stop
      rankwright index more.jsonl --add docs.index
    """
    if (target is None) == (add is None):
        raise InputError("expected either -o INDEX, to make an index, or --add INDEX, to add to one")
    if target is not None:
        index = _build(
            list(documents),
            target,
            fields=None if fields is None else [name.strip() for name in fields.split(",")],
            analyzers=analyzers or _ANALYZERS,
            split_identifiers=split_identifiers,
            field_views=field_views,
            store=not no_text,
            format=kind,
            errors=errors,
        )
        click.echo(f"wrote {target}: {_summary(index)}", err=True)
        return
    assert add is not None
    if fields is not None or analyzers or split_identifiers or field_views or no_text:
        raise InputError("--add keeps the fields, analysers and texts as they are; expected no options about them")
    index, n_before = _add(list(documents), add, format=kind, errors=errors)
    click.echo(f"added {index.n_docs - n_before:,} documents to {add}: {_summary(index)}", err=True)


def _build(documents: list[Path], target: Path, **options: Any) -> Index:
    from rankwright.cli.progress import progress
    from rankwright.text.index.index import build_index

    with progress(f"indexing {documents[0].name}") as update:
        return build_index(documents, target, progress=update, **options)


def _add(documents: list[Path], path: Path, **options: Any) -> tuple[Index, int]:
    from rankwright.cli.progress import progress
    from rankwright.text.index.index import Index

    index = Index.open(path)
    with progress(f"indexing {documents[0].name}") as update:
        return index.add(documents, progress=update, **options), index.n_docs


def _summary(index: Index) -> str:
    empty = f" ({index.n_empty:,} empty)" if index.n_empty else ""
    counts = f"{index.n_docs:,} documents{empty}, {index.n_tokens:,} tokens, {index.n_terms:,} terms"
    return f"{counts}, {_size(index.n_bytes)}"


def _size(n_bytes: int) -> str:
    if n_bytes < 1_000_000:
        return f"{n_bytes / 1_000:.1f} kB"
    return f"{n_bytes / 1_000_000:,.1f} MB"
