"""Sources of documents: files, folders, or any Python iterable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.data.files import Progress
from rankwright.data.roles import Columns
from rankwright.errors import InputError
from rankwright.text.reading.documents import read_records
from rankwright.text.reading.pages import html_text
from rankwright.text.reading.records import Errors, Tally, as_fields, check_id

__all__ = ["DocumentFiles", "Documents", "Source", "paths_of", "records_of"]


@dataclass(frozen=True)
class DocumentFiles:
    """Files of documents, and what their columns hold.

    Attributes
    ----------
    paths : sequence of Path
        Files and folders.
    columns : mapping, optional
        Columns by role, ``id``, ``title`` and ``text``, where their names do not tell; ``skip`` leaves columns out.
    html : sequence of str
        Fields that hold HTML, of which the text is kept.
    """

    paths: Sequence[Path]
    columns: Columns | None = None
    html: Sequence[str] = ()


Documents = str | Path | DocumentFiles | Iterable[Any]
"""A path, a list of ``Path``, or documents: ``(id, text)``, ``(id, {field: text})`` or ``{"id": …, field: text}``."""

Source = tuple[str, Mapping[str, Any], Path | None, int | None]
"""Id, fields, file and line; fields are text, those asked for as numbers anything."""

_EXPECTED = 'expected (id, text), (id, {field: text}) or {"id": …, field: text}'
_FOLDER_WEIGHT = 1 << 20


def paths_of(documents: Documents) -> list[Path] | None:
    """The files and folders given, or None if the documents themselves are given."""
    if isinstance(documents, str | Path):
        return [Path(documents)]
    if isinstance(documents, DocumentFiles):
        return list(documents.paths)
    if isinstance(documents, list | tuple) and documents and all(isinstance(item, Path) for item in documents):
        return list(documents)
    return None


def records_of(
    documents: Documents,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    wanted: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Source]:
    """Iterate over documents from any source."""
    paths = paths_of(documents)
    if paths is None:
        assert not isinstance(documents, str | Path | DocumentFiles)
        yield from _from_python(documents, Tally(Path("the documents"), errors, wanted, numbers), progress)
        return
    files = documents if isinstance(documents, DocumentFiles) else DocumentFiles(paths)
    columns, html = files.columns, tuple(files.html)
    weights = [path.stat().st_size if path.is_file() else _FOLDER_WEIGHT for path in paths]
    for k, path in enumerate(paths):
        one = None if progress is None else _share(progress, sum(weights[:k]), weights[k], sum(weights))
        options: dict[str, Any] = {"format": format, "errors": errors, "wanted": wanted, "numbers": numbers}
        records = read_records(path, columns=columns, progress=one, **options)
        yield from _without_tags(records, html) if html else records


def _without_tags(records: Iterator[Source], html: tuple[str, ...]) -> Iterator[Source]:
    """Documents with the text of fields that hold HTML; a field that no document has is an error."""
    met: set[str] = set()
    for doc_id, fields, path, line in records:
        texts = {name: html_text(fields[name]) for name in html if isinstance(fields.get(name), str)}
        met |= texts.keys()
        yield doc_id, {**fields, **texts}, path, line
    for name in html:
        if name not in met:
            raise InputError(f"no document has the field {name!r}; expected a field that holds HTML")


def _share(progress: Progress, before: int, weight: int, total: int) -> Progress:
    def update(done: int, of: int) -> None:
        progress(before + (weight * done // of if of else weight), total)

    return update


def _from_python(documents: Iterable[Any], tally: Tally, progress: Progress | None) -> Iterator[Source]:
    total = len(documents) if isinstance(documents, Sized) else None
    n = 0
    for n, item in enumerate(documents, 1):
        try:
            doc_id, fields = _document(item, tally)
            check_id(doc_id)
        except InputError as error:
            raise InputError(f"document {n}: {error.message}") from None
        yield doc_id, fields, None, None
        if progress is not None and total is not None:
            progress(n, total)
    if n == 0:
        raise InputError("no documents; expected at least one")
    tally.tell()


def _document(item: Any, tally: Tally) -> tuple[str, dict[str, Any]]:
    if isinstance(item, Mapping):
        return as_fields(item, tally)
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"{_short(item)} is not a document; {_EXPECTED}")
    doc_id, text = item
    if isinstance(text, str):
        if isinstance(doc_id, str):
            return doc_id, {"text": text}
        return as_fields({"id": doc_id, "text": text}, tally)
    if not isinstance(text, Mapping):
        raise InputError(f"{_short(text)} is not text; {_EXPECTED}")
    return as_fields({"id": doc_id}, tally)[0], as_fields({"id": "", **text}, tally)[1]


def _short(item: Any) -> str:
    shown = repr(item)
    return shown if len(shown) <= 60 else shown[:57] + "…"
