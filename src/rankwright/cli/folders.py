"""What `info` does with folders whose checksums are all compared: indexes, and data folders where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankwright.cli.printing import styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.formats import Detected

__all__ = ["show_index", "verify_folder"]

_MARGIN = 13


def show_index(path: Path, as_json: bool) -> None:
    """Describe an index, all of which is read."""
    from rankwright.text.index.index import Index

    index = Index.open(path)
    index.verify()
    facts = {
        "documents": index.n_docs,
        "tokens": index.n_tokens,
        "terms": len(index.terms),
        "fields": list(index.fields),
        **({"numbers": list(index.numbers)} if index.numbers else {}),
        "analysers": list(index.analyzers),
        "texts kept": index.has_text,
        "bytes": index.n_bytes,
    }
    if as_json:
        click.echo(json.dumps({"path": str(path), "format": "index", **facts}, ensure_ascii=False))
        return
    click.echo(f"{styled(str(path), bold=True)}  Rankwright index\n")
    for name, value in facts.items():
        shown = (
            ", ".join(value)
            if isinstance(value, list)
            else ("yes" if value else "no")
            if value in (True, False)
            else f"{value:,}"
        )
        click.echo(f"  {name:<{_MARGIN}}{shown}")


def verify_folder(file: Detected) -> None:
    """Read all of a data folder and compare its checksums."""
    from rankwright.data.container import Container
    from rankwright.data.folder import FOLDER

    if file.kind != "folder":
        raise InputError("has no checksums; expected parts or a data folder with --verify", file.path)
    Container.open(Path(file.path), FOLDER).verify()
