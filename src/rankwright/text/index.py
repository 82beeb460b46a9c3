"""The index: documents, words and postings on disk, mapped into memory, and the views made from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.container import Container
from rankwright.io.files import Progress
from rankwright.text.analysis import BUILT_IN, Analyzer, CustomAnalyzer, recalled, with_one_tokenizer
from rankwright.text.contents import (
    INDEX,
    Contents,
    Ids,
    View,
    Vocabulary,
    direct_view,
    load_contents,
    merged_view,
    stored_view,
)
from rankwright.text.documents import Documents, DocumentSource, Errors
from rankwright.text.numbers import GivenNumbers, located, write_numbers

__all__ = ["Index", "build_index"]

_SEGMENT_POSTINGS = 1 << 25
_MAX_ID_BYTES = 1 << 30


class IndexChanged(InputError):
    """Another process has changed the index on disk."""


class Index:
    """A searchable collection of documents.

    Created by :func:`build_index`, opened by :meth:`open`. Nothing is read into memory before it is used.

    Attributes
    ----------
    path : Path
        The folder.
    n_docs, n_tokens, n_terms, n_empty : int
        Number of documents, words, distinct words, and documents without words.
    fields : tuple of str
        The fields of the documents.
    analyzers : tuple of str
        The analysers whose terms are stored.
    has_text : bool
        Whether the texts are stored.
    ids : Ids
        The ids of the documents, by number.
    numbers : mapping of str to ndarray of float64
        Numbers of the documents, such as prices, by name; NaN where a document has none. See :meth:`set_numbers`.

    Examples
    --------
    >>> index = Index.open("wings.index")  # doctest: +SKIP
    >>> view = index.view("porter+stop")  # doctest: +SKIP
    >>> view.doc_counts[view.terms["wing"]]  # doctest: +SKIP
    167
    """

    def __init__(self, stored: Container, usable: dict[str, Analyzer]) -> None:
        header = stored.header
        self.path = stored.path
        self._container = stored
        self._usable = usable
        self._views: dict[tuple[str, str | None], View] = {}
        self.contents = load_contents(stored)
        self.ids = Ids(*self.contents.ids, self.path, header["arrays"]["doc_ids"]["crc32"])
        self.n_docs, self.n_tokens, self.n_terms, self.n_empty = (
            int(header[key]) for key in ("documents", "tokens", "terms", "empty")
        )
        self.fields = self.contents.fields
        self.numbers: Mapping[str, Array] = MappingProxyType(self.contents.numbers)
        self.analyzers = tuple(str(entry["name"]) for entry in header["analyzers"])
        different = set(self.analyzers)
        if not different or not different <= usable.keys() or len(different) < len(self.analyzers):
            raise stored.damaged(f"the analysers in index.json are {', '.join(self.analyzers)!r:.80}")
        self.has_text = bool(header["texts"])
        self.fixed_fields = bool(header["fixed_fields"])
        self.field_views = bool(header["field_views"])
        self._stored = {(view["analyzer"], view["field"]): str(view["file"]) for view in header["views"]}

    @classmethod
    def open(cls, path: str | Path, analyzers: Mapping[str, CustomAnalyzer] | None = None) -> Index:
        """Open an index.

        Presence and size of every file are checked, and the checksums of the small ones, which costs next to nothing;
        the postings of a term are checked when they are first used. :meth:`verify` compares all checksums.

        Parameters
        ----------
        path : path
            The folder.
        analyzers : mapping of str to Analyzer or callable, optional
            Analysers of your own by name: those the index was built with, and any others you want to use.
        """
        stored = Container.open(path, INDEX)
        with stored.understood():
            try:
                usable = recalled(stored.header, analyzers or {})
            except InputError as error:
                raise InputError(error.message, stored.path) from None
            return cls(stored, usable)

    def __repr__(self) -> str:
        sizes = f"{self.n_docs:,} documents, {self.n_tokens:,} tokens, {self.n_terms:,} terms"
        numbers = f", numbers {', '.join(self.numbers)}" if self.numbers else ""
        return f"<Index {str(self.path)!r}: {sizes}, fields {', '.join(self.fields)}{numbers}>"

    def __len__(self) -> int:
        return self.n_docs

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its path: the index that is there is opened again."""
        return _reopened, (self.path.absolute(), tuple(self._usable.values()))

    def __copy__(self) -> Index:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self  # nothing in it ever changes

    @property
    def chosen(self) -> tuple[Analyzer, ...]:
        """The analysers whose terms are stored."""
        return tuple(self._usable[name] for name in self.analyzers)

    @property
    def n_bytes(self) -> int:
        """Size on disk."""
        return self._container.n_bytes

    @cached_property
    def terms(self) -> Vocabulary:
        """The number of every plain word."""
        return Vocabulary(*self.contents.words)

    @cached_property
    def doc_ids(self) -> Array:
        """All document ids, as bytes in UTF-8."""
        data = self.contents.ids[0].tobytes()
        ids = (data if data.isascii() else self.ids.decoded(data).encode()).split(b"\n")[:-1]
        if len(ids) != self.n_docs:
            raise self._container.damaged(f"{len(ids):,} document ids; expected {self.n_docs:,}")
        longest = max(map(len, ids), default=0)
        if longest * len(ids) > max(_MAX_ID_BYTES, 16 * len(data)):  # they are kept in an array of equal sizes
            raise self._container.damaged(f"a document id has {longest:,} bytes")
        return np.array(ids, dtype=bytes)

    def doc_id(self, doc: int) -> str:
        """The id of a document, by number."""
        self._check(doc)
        return self.ids[doc]

    def find(self, doc_id: str) -> int | None:
        """The number of the document with this id, or None."""
        return self._places.get(doc_id)

    def text(self, doc: int, field: str | None = None) -> str:
        """The text of one field of a document; without ``field``, of all fields, separated by line ends."""
        self._check(doc)
        if self.contents.texts is None:
            raise InputError("has no texts; expected an index built with them", self.path)
        data, offsets = self.contents.texts
        numbers = range(len(self.fields)) if field is None else [self._field_number(field)]
        rows = [doc * len(self.fields) + number for number in numbers]
        texts = [self.ids.decoded(data[offsets[row] : offsets[row + 1]]) for row in rows]
        return "\n".join(text for text in texts if text)

    def view(self, analyzer: str = "porter+stop", field: str | None = None) -> View:
        """The postings of all fields or of one field under an analyser: what retrieval functions score.

        Parameters
        ----------
        analyzer : str
            One of the index, a built-in one, or one given to :meth:`open`. A view that is not stored is built and kept
            in memory.
        field : str, optional
            One field; by default all of them together.
        """
        key = (analyzer, field)
        if key not in self._views:
            try:
                self._views[key] = self._made_view(analyzer, field)
            except InputError as error:
                raise (error if error.path is not None else InputError(error.message, self.path)) from None
        return self._views[key]

    def verify(self) -> None:
        """Read every file and compare its checksum; raises on damage."""
        self._container.verify()

    def add(
        self,
        documents: Documents,
        *,
        format: str | None = None,
        errors: Errors = "strict",
        progress: Progress | None = None,
        segment_postings: int = _SEGMENT_POSTINGS,
    ) -> Index:
        """Add documents: a new index replaces this one once it is complete.

        Parameters
        ----------
        documents : path, list of Path, or iterable
            As for :func:`build_index`.
        format, errors, progress
            As for :func:`build_index`.

        Returns
        -------
        Index
            The new index, identical to one built from all documents at once.
        """
        from rankwright.text.writer import write_index  # compiled: only where an index is written

        write_index(
            DocumentSource(documents, format, errors, progress),
            self.path,
            self.chosen,
            self.fields if self.fixed_fields else None,
            store=self.has_text,
            field_views=self.field_views,
            old=self._unchanged,
            segment_postings=segment_postings,
        )
        return _reopened(self.path, self.chosen)

    def set_numbers(self, numbers: GivenNumbers) -> Index:
        """Set numbers of documents without indexing anything again; a new index replaces this one once it is complete.

        Numbers that are not mentioned stay unchanged: those of other names, and of documents without a row. A missing
        number (NaN, an empty cell) removes the old one. Documents that are not in the index are left out, with a
        warning. Files that do not change are shared, so this takes the time of writing the numbers.

        Parameters
        ----------
        numbers : path, data frame or mapping
            A table of documents, as a path (CSV or tab-separated with a header line, or JSON lines) or a data frame,
            whose column ``id`` names the documents; or, by name, ``{id: number}`` or one number per document in the
            order of the index.

        Returns
        -------
        Index
            The new index.

        Examples
        --------
        >>> index = index.set_numbers({"price": {"d1": 9.5, "d2": 12}})  # doctest: +SKIP
        >>> index.numbers["price"]  # doctest: +SKIP
        array([ 9.5, 12. ,  nan])
        """
        given = located(numbers, self.find, self.n_docs, self.fields)
        if given.unknown:
            n, first = len(given.unknown), shown(next(iter(given.unknown)))
            which = f"1 document is not in the index ({first})" if n == 1 else f"{n:,} documents are not in the index"
            warnings.warn(which if n == 1 else f"{which} (the first is {first})", InputWarning, stacklevel=2)
        write_numbers(self.path, self._current, given.over(self.numbers, self.n_docs))
        return _reopened(self.path, tuple(self._usable.values()))

    def _current(self) -> Container:
        """The container, if it is still the one on disk."""
        if Container.open(self.path, INDEX).header != self._container.header:
            raise IndexChanged("has changed since it was opened; expected it to be reopened before changing", self.path)
        return self._container

    def _unchanged(self) -> Contents:
        """The contents, if they are still those on disk, with their checksums compared: damage is not handed on."""
        self._current()
        self._container.verify([name for name in self._container.names if not name.startswith("view-")])
        with self._container.understood():
            _ = self.contents.checked_words, self.contents.checked_postings, self.contents.checked_texts
        return self.contents

    @cached_property
    def _places(self) -> dict[str, int]:
        ids = self.ids.decoded(self.contents.ids[0]).split("\n")[:-1]
        numbers = dict(zip(ids, range(len(ids)), strict=True))
        if not len(numbers) == len(ids) == self.n_docs:
            raise self._container.damaged(f"{len(numbers):,} different document ids; expected {self.n_docs:,}")
        return numbers

    def _made_view(self, name: str, field: str | None) -> View:
        if name not in self._usable:
            raise InputError(f"unknown analyser {name!r}; expected {', '.join(self._usable)}", self.path)
        analyzer, shown = self._usable[name], name if field is None else f"{name},{field}"
        fields = list(range(len(self.fields))) if field is None else [self._field_number(field)]
        contents = self.contents
        if (name, field) in self._stored:
            return stored_view(self._container, self._stored[name, field], analyzer, shown, self.n_docs, self.ids)
        if len(fields) == 1:
            if analyzer.keeps_words:
                return direct_view(analyzer, shown, contents, fields[0], self.ids)
            if field is not None and len(self.fields) == 1:
                return replace(self.view(name), name=shown)
        with self._container.understood():
            words, postings = self.terms.words(), contents.checked_postings
        return merged_view(analyzer, shown, words, postings, fields, self.n_docs, self.ids)

    def _field_number(self, field: str) -> int:
        if field not in self.fields:
            raise InputError(f"unknown field {field!r}; expected {', '.join(self.fields)}", self.path)
        return self.fields.index(field)

    def _check(self, doc: int) -> None:
        if not 0 <= doc < self.n_docs:
            raise IndexError(f"document number {doc} is out of range; the index has {self.n_docs:,} documents")


def build_index(
    documents: Documents,
    path: str | Path,
    *,
    fields: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    analyzers: Sequence[str | Analyzer] | str | Analyzer = BUILT_IN,
    store: bool = True,
    split_identifiers: bool = False,
    field_views: bool = False,
    format: str | None = None,
    errors: Errors = "strict",
    progress: Progress | None = None,
    segment_postings: int = _SEGMENT_POSTINGS,
) -> Index:
    """Index documents.

    Parameters
    ----------
    documents : path, list of Path, or iterable
        Files or folders, as for :func:`~rankwright.text.documents.read_documents`, or documents:
        ``(id, text)``, ``(id, {field: text})`` or ``{"id": id, field: text}``.
    path : path
        The folder to create. It appears once it is complete; an existing index is replaced.
    fields : sequence of str, optional
        The fields to index, in this order; by default all, in order of appearance. A missing field counts as empty.
    numbers : sequence of str
        Fields that hold numbers (a price, a number of clicks, a date), kept as such instead of being indexed as text:
        numbers, text that is a decimal number, or ISO dates, which count in days since 1970. A missing one is NaN.
    analyzers : sequence of str or Analyzer
        Analysers whose terms to store. Built-in analysers work with every index; the terms of those not stored are
        computed on first use.
    store : bool, default=True
        Store the texts.
    split_identifiers : bool, default=False
        Split ``camelCase`` and ``HTTPServer`` into two words each (``snake_case`` always is).
    field_views : bool, default=False
        Also store the terms of every analyser for each field by itself.
    format, errors
        For files, see :func:`~rankwright.text.documents.read_documents`.
    progress : callable, optional
        Called with (done, total): bytes of files, or documents of a list.
    segment_postings : int
        Maximum number of postings held in memory, at about 16 bytes each.

    Returns
    -------
    Index
        The index, open.

    Examples
    --------
    >>> index = build_index([("d1", "A wing in a slipstream")], "wings.index")  # doctest: +SKIP
    >>> index.view("porter").terms["wing"]  # doctest: +SKIP
    3
    """
    from rankwright.text.writer import write_index

    path = Path(path)
    chosen = with_one_tokenizer(analyzers, split_identifiers)
    write_index(
        DocumentSource(documents, format, errors, progress),
        path,
        chosen,
        fields,
        numbers=numbers,
        store=store,
        field_views=field_views,
        segment_postings=segment_postings,
    )
    return _reopened(path, chosen)


def _reopened(path: Path, analyzers: Sequence[Analyzer]) -> Index:
    """Open the index just written, with the analysers it cannot load by itself."""
    custom = {
        analyzer.name: analyzer
        for analyzer in analyzers
        if analyzer.name not in BUILT_IN or analyzer.tokenize is not None
    }
    return Index.open(path, custom)
