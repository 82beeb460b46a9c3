"""Writes an index: turns a stream of documents into arrays on disk, in bounded memory.

Documents are gathered into batches; one call of the compiled tokeniser counts the words of a batch, and its text goes
to disk right away. Counts are kept document by document until a limit is reached, then inverted and written to disk as
a segment. At the end the segments are joined term by term, and the terms of every analyser are merged from the plain
ones. Only the words, the ids, and a few numbers per document stay in memory. The result does not depend on where
batches and segments end.

Adding documents works the same way, with the old postings as the first segment.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, InputWarning
from rankwright.io.container import ArrayFile, FolderWriter, write_folder
from rankwright.text.analysis import Analyzer, checked_words, prepared, recorded
from rankwright.text.contents import (
    INDEX,
    MAX_DOCS,
    MAX_FIELDS,
    Contents,
    Postings,
    as_lines,
    checked_number_names,
    header_of_numbers,
    write_view,
)
from rankwright.text.documents import DocumentSource, Record, paths_of
from rankwright.text.numbers import NumberGatherer
from rankwright.text.postings import LINES, WORDS, Batch, Lexicon, Segment, inverted, joined

Place = tuple[Path | None, int | None]

_BATCH_DOCS, _BATCH_CHARACTERS = 1 << 13, 1 << 20
_COPY_BYTES = 1 << 24


def _checked_fields(fields: Sequence[str]) -> list[str]:
    names = [fields] if isinstance(fields, str) else list(fields)
    if not names:
        raise InputError("no fields; expected at least one")
    for name in names:
        if not isinstance(name, str) or not name or "," in name or not name.isprintable():
            raise InputError(f"bad field name {name!r}; expected a printable name without commas")
        if names.count(name) > 1:
            raise InputError(f"duplicate field {name!r}")
    if len(names) > MAX_FIELDS:
        problem = f"more than {MAX_FIELDS} fields: {', '.join(names[:3])}, …"
        raise InputError(f"{problem}; expected the ones to index to be named (fields)")
    return names


def write_index(
    source: DocumentSource,
    path: Path,
    analyzers: tuple[Analyzer, ...],
    fields: Sequence[str] | None,
    *,
    numbers: Sequence[str] = (),
    store: bool,
    field_views: bool,
    old: Callable[[], Contents] | None = None,
    segment_postings: int,
) -> None:
    """Write an index of documents, after those of an old one if given; the folder appears once complete.

    The old one is asked for when nobody else can change it any more.
    """
    names = None if fields is None else _checked_fields(fields)
    gatherer = NumberGatherer(checked_number_names(numbers, names or ()))
    for given in paths_of(source.documents) or ():
        if given.is_dir() and path.resolve().is_relative_to(given.resolve()):
            raise InputError(f"is inside the folder of the documents, {given}; expected another place", path)
    with write_folder(path, INDEX) as folder, ExitStack() as files:
        texts = files.enter_context(folder.open("texts", np.uint8)) if store else None
        writer = IndexWriter(folder, texts, analyzers, names, field_views, segment_postings, gatherer)
        if old is not None:
            writer.resume(old())
        writer.take(source.records(names, gatherer.names))
        writer.finish()


class IndexWriter:
    """Turns documents into the arrays of an index.

    `writer`: where the arrays go. `texts`: where the texts go, if they are stored. `analyzers`: all with the same first
    stage. `fields`: the fields to index; None takes all, in order of appearance. `field_views`: also write the terms of
    every analyser for each field by itself. `segment_postings`: maximum number of postings held in memory. `numbers`:
    takes the numbers of documents.
    """

    def __init__(
        self,
        writer: FolderWriter,
        texts: ArrayFile | None,
        analyzers: tuple[Analyzer, ...],
        fields: list[str] | None,
        field_views: bool,
        segment_postings: int,
        numbers: NumberGatherer,
    ) -> None:
        self._writer, self._texts = writer, texts
        self._numbers = numbers
        self._analyzers = analyzers
        self._tokenize = analyzers[0].tokenize
        self._split = analyzers[0].split_identifiers
        self._fixed = fields is not None
        self._fields = dict.fromkeys(fields or ())
        self._others: dict[str, None] = {}
        self._field_views = field_views
        self._limit = segment_postings
        self._words = Lexicon(WORDS if self._tokenize is None else LINES, self._split)
        self._ids = Lexicon(LINES)
        self._batches: list[Batch] = []
        self._n_waiting = 0
        self._segments: list[Segment] = []
        self._lengths: list[Array] = []
        self._text_sizes: list[Array] = []
        self._aside: FolderWriter | None = None
        self._n_docs = 0

    def resume(self, old: Contents) -> None:
        """Start with the documents of an old index."""
        self._numbers.resume(old.numbers)
        self._fields = dict.fromkeys(old.fields)
        n_terms, n_docs = len(old.checked_words), len(old.ids[1]) - 1
        for kind, lexicon, lines, number in (
            ("words", self._words, old.words[0], n_terms),
            ("document ids", self._ids, old.ids[0], n_docs),
        ):
            lexicon.add_lines(lines.tobytes())
            if lexicon.n_terms != number:
                problem = f"{lexicon.n_terms:,} different {kind}; expected {number:,}"
                raise INDEX.damaged(self._writer.shown, problem)
        self._segments.append(Segment(np.arange(n_terms), *old.checked_postings))
        self._lengths.append(old.lengths.T)
        self._n_docs = n_docs
        if self._texts is not None and old.checked_texts is not None:
            data, offsets = old.checked_texts
            for start in range(0, len(data), _COPY_BYTES):
                self._texts.append(data[start : start + _COPY_BYTES])
            self._text_sizes.append(np.diff(offsets).reshape(self._n_docs, -1))

    def take(self, records: Iterable[Record]) -> None:
        ids: list[str] = []
        texts: list[str] = []
        places: list[Place] = []
        field_names, n_characters = self._fields.keys(), 0
        for doc_id, fields, path, line in records:
            if self._numbers.names:
                fields = self._numbers.take(doc_id, fields, path, line)
            if not fields.keys() <= field_names:
                if not self._fixed:
                    self._count(ids, texts, places)
                    ids, texts, places, n_characters = [], [], [], 0
                self._add_fields(fields, path, line)
            ids.append(doc_id)
            places.append((path, line))
            for name in field_names:
                text = fields.get(name, "")
                texts.append(text)
                n_characters += len(text)
            if n_characters > _BATCH_CHARACTERS or len(ids) == _BATCH_DOCS:
                self._count(ids, texts, places)
                ids, texts, places, n_characters = [], [], [], 0
        self._count(ids, texts, places)

    def _add_fields(self, fields: Mapping[str, str], path: Path | None, line: int | None) -> None:
        if self._fixed:
            self._others.update(dict.fromkeys(fields))
            return
        self._fields.update(dict.fromkeys(fields))
        try:
            _checked_fields(list(self._fields))
        except InputError as error:
            raise InputError(error.message, path, line) from None

    def _count(self, ids: list[str], texts: list[str], places: list[Place]) -> None:
        """Count the words of a batch of documents; in ``texts`` the fields of a document are adjacent."""
        if not ids:
            return
        n_docs, n_fields = len(ids), len(self._fields)
        if self._n_docs + n_docs > MAX_DOCS:
            raise InputError(f"more than {MAX_DOCS:,} documents; expected them in several indexes")
        self._number(ids, places)
        try:
            data, ends = _encoded(texts)
            if self._texts is not None:
                self._texts.append(data)
                self._text_sizes.append(np.diff(ends, prepend=0).reshape(n_docs, n_fields))
            if self._tokenize is not None:
                name = self._analyzers[0].name
                words = (checked_words(self._tokenize(text), name) for text in texts)
                data, ends = _encoded(["".join(f"{word}\n" for word in words_of_text) for words_of_text in words])
            elif not data.isascii():
                data, ends = _encoded([text if text.isascii() else prepared(text, self._split) for text in texts])
        except UnicodeEncodeError:
            self._refuse_surrogates(ids, texts, places)
            raise
        counted = self._words.count(data, ends)
        self._lengths.append(counted.lengths.reshape(n_docs, n_fields))
        if n_fields:
            self._batches.append((self._n_docs, n_fields, counted))
        self._n_docs += n_docs
        self._n_waiting += len(counted.terms)
        if self._n_waiting >= self._limit:
            self._put_aside()

    def _number(self, ids: list[str], places: list[Place]) -> None:
        """Number documents; a known id is an error."""
        try:
            data, ends = _encoded([doc_id + "\n" for doc_id in ids])
        except UnicodeEncodeError as error:
            raise InputError(f"the document id {error.object[:-1]!r} is not valid Unicode") from None
        numbers = self._ids.count(data, ends).terms
        wrong = np.flatnonzero(numbers != self._n_docs + np.arange(len(ids)))
        if len(wrong):
            at, first = int(wrong[0]), int(numbers[wrong[0]]) + 1
            raise InputError(f"duplicate document {ids[at]!r} (first as document {first:,})", *places[at])

    def _refuse_surrogates(self, ids: list[str], texts: list[str], places: list[Place]) -> None:
        for row, text in enumerate(texts):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                at = row // len(self._fields)
                problem = f"the text of document {ids[at]!r} contains a lone surrogate, {text[error.start]!r}"
                raise InputError(f"{problem}; expected Unicode text", *places[at]) from None

    def _order(self) -> tuple[list[str], Array]:
        """The words by number, and their numbers in byte order."""
        words = self._words.words()
        return words, np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)

    def _put_aside(self) -> None:
        """Write the counts to disk as a segment."""
        if self._aside is None:
            self._aside = self._writer.part("segments")
        segment = inverted(self._batches, len(self._fields), self._order()[1])
        k = len(self._segments)
        parts = {"terms": segment.terms, "indptr": segment.indptr, "docs": segment.docs, "counts": segment.counts}
        for name, array in parts.items():
            self._aside.save(f"{k}.{name}", array)
        loaded = (self._aside.load(f"{k}.{name}") for name in parts)
        self._segments.append(Segment(*loaded))
        self._batches, self._n_waiting = [], 0

    def finish(self) -> None:
        """Write everything that is left, the header last."""
        if not self._fields:
            self._fields = {"text": None}
        lengths = _padded(self._lengths, len(self._fields)).T
        self._check_fields(lengths)
        if self._numbers.names:
            self._writer.save("numbers", self._numbers.rows())
        words, order = self._order()
        words = [words[i] for i in order.tolist()]
        postings = self._write_postings(order)
        self._writer.save("lengths", np.ascontiguousarray(lengths, np.int32))
        for name, (data, offsets) in {"term": as_lines(words), "doc_id": self._ids.lines()}.items():
            self._writer.save(f"{name}s", data)
            self._writer.save(f"{name}_offsets", offsets)
        if self._texts is not None:
            self._texts.close()
            sizes = _padded(self._text_sizes, len(self._fields)).reshape(-1)
            self._writer.save("text_offsets", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
        views = self._write_views(words, postings)
        if self._aside is not None:
            shutil.rmtree(self._aside.folder)
        header = {
            **header_of_numbers(self._numbers.names),
            "documents": self._n_docs,
            "empty": int((lengths.sum(axis=0) == 0).sum()),
            "tokens": int(lengths.sum(dtype=np.int64)),
            "terms": len(words),
            "fields": list(self._fields),
            "fixed_fields": self._fixed,
            "field_views": self._field_views,
            "texts": self._texts is not None,
            **recorded(self._analyzers),
            "views": views,
        }
        self._writer.finish(header)

    def _check_fields(self, lengths: Array) -> None:
        """Reject requested fields that no document has."""
        missing = [name for name, row in zip(self._fields, lengths, strict=True) if not row.any()]
        if not self._fixed or not missing:
            return
        problem = f"no document has words in {', '.join(missing)}"
        others = [name for name in self._others if name not in self._fields]
        if others:
            problem += f"; other fields: {', '.join(others)}"
        if len(missing) == len(self._fields):
            raise InputError(problem)
        warnings.warn(problem, InputWarning, stacklevel=4)

    def _write_postings(self, order: Array) -> Postings:
        if self._batches:
            self._segments.append(inverted(self._batches, len(self._fields), order))
            self._batches = []
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        indptr, blocks = joined(self._segments, place, len(self._fields))
        with self._writer.open("docs", np.int32) as docs, self._writer.open("counts", np.int32) as counts:
            for some_docs, some_counts in blocks:
                docs.append(some_docs)
                counts.append(some_counts)
        self._writer.save("indptr", indptr)
        self._segments = []
        return indptr, self._writer.load("docs"), self._writer.load("counts")

    def _write_views(self, words: list[str], postings: Postings) -> list[dict[str, Any]]:
        """Write the views that are not simply part of the postings."""
        choices: list[tuple[str | None, list[int]]] = [(None, list(range(len(self._fields))))]
        if self._field_views and len(self._fields) > 1:
            choices += [(name, [number]) for number, name in enumerate(self._fields)]
        views: list[dict[str, Any]] = []
        for analyzer in self._analyzers:
            for field, numbers in choices:
                if not (analyzer.keeps_words and len(numbers) == 1):
                    file = f"view-{len(views)}"
                    write_view(self._writer, file, analyzer, words, postings, numbers, self._n_docs)
                    views.append({"analyzer": analyzer.name, "field": field, "file": file})
        return views


def _encoded(texts: Sequence[str]) -> tuple[bytes, Array]:
    """Texts as UTF-8 back to back, and where each ends."""
    data = "".join(texts)
    if data.isascii():
        return data.encode(), np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    parts = [text.encode() for text in texts]
    return b"".join(parts), np.cumsum(np.fromiter(map(len, parts), np.int64, len(texts)))


def _padded(tables: list[Array], n_columns: int) -> Array:
    """Stack tables; earlier ones may lack the last columns."""
    made = np.zeros((sum(map(len, tables)), n_columns), np.int64)
    at = 0
    for table in tables:
        made[at : at + len(table), : table.shape[1]] = table
        at += len(table)
    return made
