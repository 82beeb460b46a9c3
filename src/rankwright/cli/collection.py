"""`rankwright collection`: write a test collection that needs no download."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from rankwright.cli.options import output_option
from rankwright.cli.printing import progress
from rankwright.errors import InputError


@click.command("collection")
@click.argument("name", metavar="NAME", type=click.Choice(["python-docs"]))
@output_option("Folder for docs.jsonl, queries.jsonl and qrels.txt; other files in it are kept.", metavar="FOLDER")
def command(name: str, target: Path) -> None:
    """Write the documents, queries and judgements of the collection NAME to a folder.

    python-docs consists of the docstrings of Python's standard library, read from its sources: documents are classes,
    functions and methods without the first sentence of their docstrings; queries are those first sentences, of objects
    (navigational) and of modules (informational). The same Python version gives the same collection.

    \b
    Example:
      rankwright collection python-docs -o python-docs
    """
    if target.exists() and not target.is_dir():
        raise InputError("is a file; expected a folder, or a new name", target)
    from rankwright.datasets import python_docs

    with progress("reading the standard library") as moved:
        made = python_docs(progress=moved)
    made.write(target)
    kinds = Counter(made.kinds.values())
    queries = " and ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    facts = f"{len(made.documents):,} documents, {queries} queries, {made.qrels.n_docs:,} judgements"
    click.echo(f"wrote {target}: {facts}", err=True)
