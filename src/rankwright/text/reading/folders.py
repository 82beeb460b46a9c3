"""A folder in which every file is a document: text, web pages, Markdown."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rankwright.data.files import Progress, Source, line_chunks
from rankwright.errors import InputError, InputWarning
from rankwright.text.reading.pages import SUFFIXES, decoded, html_fields, markdown_fields
from rankwright.text.reading.records import Record, Tally

__all__ = ["page_record", "read_folder"]

_TEXT = (".txt", ".text")
_NAMED = 5  # kinds of files in a message


def read_folder(path: Path, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Read every file that is not hidden; if some are pages, only pages and text files, and say what is skipped."""
    if not path.is_dir():
        raise InputError("not a folder; expected one that contains text files", path)
    files = sorted(_files_below(path))
    if any(_kind_of(name) for name in files):
        others = [name for name in files if not _kind_of(name) and Path(name).suffix.lower() not in _TEXT]
        _tell_skipped(others, path)
        skipped = frozenset(others)
        files = [name for name in files if name not in skipped]
    for done, name in enumerate(files, 1):
        kind = _kind_of(name)
        yield _text_record(path / name, name, tally) if kind is None else page_record(path / name, name, kind)
        if progress is not None:
            progress(done, len(files))


def page_record(source: Source, name: str, kind: str) -> Record:
    """A web page or Markdown file as a document."""
    path = Path(name) if not isinstance(source, str | Path) else Path(source)
    text = decoded(b"".join(line_chunks(source)))
    return "_".join(name.split()), html_fields(text) if kind == "html" else markdown_fields(text), path, None


def _text_record(file: Path, name: str, tally: Tally) -> Record:
    parts = [(text, is_bad) for text, _, is_bad in tally.chunks(file, None)]
    text = "".join(part for part, _ in parts)
    if any(is_bad for _, is_bad in parts):
        text = tally.clean(text)
    return name, {"text": text}, file, None


def _kind_of(name: str) -> str | None:
    return SUFFIXES.get(Path(name.removesuffix(".gz")).suffix.lower())


def _tell_skipped(names: list[str], path: Path) -> None:
    if not names:
        return
    kinds = Counter(Path(name).suffix.lower() or "no suffix" for name in names)
    listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(_NAMED))
    more = ", …" if len(kinds) > _NAMED else ""
    files = "1 file that is not a page" if len(names) == 1 else f"{len(names):,} files that are not pages"
    warnings.warn(f"{path}: skipped {files} ({listed}{more})", InputWarning, stacklevel=4)


def _files_below(path: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename)

    for folder, folders, names in os.walk(path, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file():
                yield file.relative_to(path).as_posix()
