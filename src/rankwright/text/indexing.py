"""Making an index, and adding to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwright.data.files import Progress, replace_folder
from rankwright.errors import InputError
from rankwright.text.analysis import BUILT_IN, Analyzer, with_one_tokenizer
from rankwright.text.arrays import HEADER, ArrayWriter
from rankwright.text.builder import Builder, checked_fields
from rankwright.text.documents import Errors
from rankwright.text.sources import Documents, paths_of, records_of

if TYPE_CHECKING:
    from rankwright.text.index import Index

__all__ = ["SEGMENT_POSTINGS", "add_documents", "build_index"]

SEGMENT_POSTINGS = 1 << 25


def build_index(
    documents: Documents,
    path: str | Path,
    *,
    fields: Sequence[str] | None = None,
    analyzers: Sequence[str | Analyzer] | str | Analyzer = BUILT_IN,
    store: bool = True,
    split_identifiers: bool = False,
    field_views: bool = False,
    format: str | None = None,
    errors: Errors = "strict",
    progress: Progress | None = None,
    segment_postings: int = SEGMENT_POSTINGS,
) -> Index:
    """Index documents.

    Parameters
    ----------
    documents : path, list of Path, or iterable
        Files or folders as :func:`~rankwright.text.documents.read_documents` takes them, or documents: ``(id, text)``,
        ``(id, {field: text})`` or ``{"id": id, field: text}``.
    path : path
        The folder to make. It appears when it is complete; an index that is there is replaced.
    fields : sequence of str, optional
        The fields to index, in this order; unless given all, as they come. A document without a field is empty there.
    analyzers : sequence of str or Analyzer
        Whose terms to keep ready on disk. Rankwright's own can be used with every index; others are then made when
        they are first used.
    store : bool, default=True
        Keep the texts.
    split_identifiers : bool, default=False
        Cut ``camelCase`` and ``HTTPServer`` into two words each (``snake_case`` always is).
    field_views : bool, default=False
        Keep the terms of every analyser for each single field ready on disk too.
    format, errors
        For files, see :func:`~rankwright.text.documents.read_documents`.
    progress : callable, optional
        Called with (done, in all): bytes of files, or documents of a list.
    segment_postings : int
        How much is held in memory, about 16 bytes for each.

    Returns
    -------
    Index
        The index, opened.

    Examples
    --------
    >>> index = build_index([("d1", "A wing in a slipstream")], "wings.index")  # doctest: +SKIP
    >>> index.view("porter").terms["wing"]  # doctest: +SKIP
    3
    """
    path = Path(path)
    chosen = with_one_tokenizer(analyzers, split_identifiers)
    names = None if fields is None else checked_fields(fields)
    _check_target(path, documents)
    with replace_folder(path, HEADER) as folder:
        builder = Builder(ArrayWriter(folder, path), chosen, names, store, field_views, segment_postings)
        with builder:
            builder.take(records_of(documents, format=format, errors=errors, wanted=names, progress=progress))
            builder.finish()
    return _opened(path, chosen)


def add_documents(
    index: Index,
    documents: Documents,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    progress: Progress | None = None,
    segment_postings: int = SEGMENT_POSTINGS,
) -> Index:
    """See :meth:`rankwright.text.index.Index.add`."""
    path = index.path
    chosen = index.chosen
    names = list(index.fields) if index.fixed_fields else None
    _check_target(path, documents)
    with replace_folder(path, HEADER) as folder:
        builder = Builder(ArrayWriter(folder, path), chosen, names, index.has_text, index.field_views, segment_postings)
        with builder:
            builder.resume(index)
            builder.take(records_of(documents, format=format, errors=errors, wanted=names, progress=progress))
            builder.finish()
    return _opened(path, chosen)


def _opened(path: Path, analyzers: Sequence[Analyzer]) -> Index:
    from rankwright.text.index import Index

    return Index.open(
        path, {one.name: one for one in analyzers if one.name not in BUILT_IN or one.tokenize is not None}
    )


def _check_target(path: Path, documents: Documents) -> None:
    """Refuse early to replace what is not ours, or to write among the documents."""
    for source in paths_of(documents) or ():
        if source.is_dir() and path.resolve().is_relative_to(source.resolve()):
            raise InputError(f"lies in the folder of the documents, {source}; expected another place", path)
    if (path / HEADER).is_file():
        others = sorted(entry.name for entry in path.iterdir() if entry.name != HEADER and entry.suffix != ".npy")
        if others:
            raise InputError(f"holds files that are not part of an index ({others[0]}); expected a new name", path)
