"""Sources of documents: files, folders, or any Python iterable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from rankwright.data.files import Progress
from rankwright.errors import InputError
from rankwright.text.reading.documents import read_records
from rankwright.text.reading.records import Errors, Tally, as_fields, check_id

__all__ = ["Documents", "Source", "paths_of", "records_of"]

Documents = str | Path | Iterable[Any]
"""A path, a list of ``Path``, or documents: ``(id, text)``, ``(id, {field: text})`` or ``{"id": …, field: text}``."""

Source = tuple[str, Mapping[str, Any], Path | None, int | None]
"""Id, fields, file and line; fields are text, those asked for as numbers anything."""

_EXPECTED = 'expected (id, text), (id, {field: text}) or {"id": …, field: text}'
_FOLDER_WEIGHT = 1 << 20


def paths_of(documents: Documents) -> list[Path] | None:
    """The files and folders given, or None if the documents themselves are given."""
    if isinstance(documents, str | Path):
        return [Path(documents)]
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
        assert not isinstance(documents, str | Path)
        yield from _from_python(documents, Tally(Path("the documents"), errors, wanted, numbers), progress)
        return
    weights = [path.stat().st_size if path.is_file() else _FOLDER_WEIGHT for path in paths]
    for k, path in enumerate(paths):
        one = None if progress is None else _share(progress, sum(weights[:k]), weights[k], sum(weights))
        yield from read_records(path, format=format, errors=errors, wanted=wanted, numbers=numbers, progress=one)


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
