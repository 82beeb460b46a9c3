"""One number for every pair of a query and a document: judgements or a run, in memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data import display
from rankwright.data.order import gather_queries, query_of_row, sizes_to_indptr
from rankwright.errors import InputError

__all__ = ["TrecTable"]

Duplicates = Literal["error", "keep-first", "keep-best"]
"""What to do with a document that a query has more than once."""


@dataclass(frozen=True, eq=False, repr=False)
class TrecTable(display.Displayed):
    """One number per (query, document): the judgements of a qrels file or the scores of a run.

    Attributes
    ----------
    query_ids : ndarray of str
        One id per query, in the order of first appearance.
    indptr : ndarray
        Query ``q`` owns the rows ``indptr[q]:indptr[q+1]``.
    doc_ids : ndarray of bytes
        One id per row, UTF-8.
    values : ndarray
        Label or score per row.
    name : str
        Where it came from, for messages and tables.
    layout : str
        Of judgements in a table: what its columns were taken for, and which were skipped.
    strata : ndarray of int or None
        Of judgements of a sampled pool: the number of each row's stratum.
    subtopics : ndarray of shape (rows, subtopics) or None
        Of judgements by subtopic: the label for every subtopic of the query, 0 if there is none.
    """

    query_ids: Array
    indptr: Array
    doc_ids: Array
    values: Array
    name: str = ""
    layout: str = ""
    strata: Array | None = None
    subtopics: Array | None = None

    @cached_property
    def documents(self) -> list[bytes]:
        """The document ids as a list, for dictionaries and sets."""
        documents: list[bytes] = self.doc_ids.tolist()
        return documents

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.values)

    @classmethod
    def from_dict(cls, table: Mapping[Any, Mapping[Any, float]], name: str = "") -> TrecTable:
        """Make a table from ``{query: {document: number}}`` (pytrec_eval's form).

        Examples
        --------
        >>> TrecTable.from_dict({"1": {"d1": 0.5, "d2": 0.25}})
        TrecTable(1 queries, 2 documents)
        """
        sizes = np.array([len(row) for row in table.values()], np.int64)
        documents = [str(document).encode() for row in table.values() for document in row]
        try:
            values = np.array([number for row in table.values() for number in row.values()], np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{name or 'the table'} contains a non-numeric value") from None
        if not np.isfinite(values).all():
            raise InputError(f"{name or 'the table'} contains nan or inf; expected finite numbers")
        query_ids = np.array([str(query) for query in table], dtype=str)
        return cls(query_ids, sizes_to_indptr(sizes), np.array(documents, dtype=bytes), values, name)

    @classmethod
    def from_columns(
        cls, qid: npt.ArrayLike, doc_ids: npt.ArrayLike, values: npt.ArrayLike, name: str = ""
    ) -> TrecTable:
        """Make a table from three columns, rows in any order; a document may occur once per query."""
        query = np.char.encode(np.asarray(qid).astype(str), "utf-8")
        documents = np.char.encode(np.asarray(doc_ids).astype(str), "utf-8")
        return gathered_table(query, documents, np.asarray(values, np.float64), None, name, None)

    def select(self, query_ids: Iterable[Any]) -> TrecTable:
        """The rows of some queries, in this table's order; ids that it does not have are ignored.

        Examples
        --------
        >>> table = TrecTable.from_dict({"1": {"d1": 0.5}, "2": {"d1": 0.25, "d7": 1.0}})
        >>> table.select([2, 3]).documents
        [b'd1', b'd7']
        """
        wanted = {str(query) for query in query_ids}
        chosen = np.array([query in wanted for query in self.query_ids.tolist()], bool)
        rows = chosen[query_of_row(self.indptr)]
        indptr = sizes_to_indptr(np.diff(self.indptr)[chosen])
        return TrecTable(
            self.query_ids[chosen],
            indptr,
            self.doc_ids[rows],
            self.values[rows],
            self.name,
            strata=None if self.strata is None else self.strata[rows],
            subtopics=None if self.subtopics is None else self.subtopics[rows],
        )

    @property
    def _query_of_rows(self) -> Array:
        return np.repeat(self.query_ids, np.diff(self.indptr))

    def _shown_table(self) -> display.Tabled:
        n = min(display.SHOWN_ROWS, self.n_docs)
        queries, values = self._query_of_rows[:n].tolist(), self.values[:n].tolist()
        documents = [display.decoded(document) for document in self.doc_ids[:n].tolist()]
        integers = bool((self.values == np.rint(self.values)).all())
        texts = [f"{value:g}" if integers else display.cell(value) for value in values]
        rows = tuple(zip(queries, documents, texts, strict=True))
        if len(np.unique(self.values)) <= display.FEW_LABELS:
            content = display.counted(self.values)
        else:
            content = f"from {display.cell(float(self.values.min()))} to {display.cell(float(self.values.max()))}"
        notes = (*display.note_of_more(self.n_docs - n), f"values: {content}")
        return display.Tabled(("query", "document", "value"), rows, notes, 2, title=repr(self))

    def to_frame(self) -> Any:
        """All rows as a pandas data frame with the columns query, document and value."""
        documents = [display.decoded(document) for document in self.doc_ids.tolist()]
        columns = {"query": self._query_of_rows, "document": documents, "value": self.values}
        return importlib.import_module("pandas").DataFrame(columns)

    def _drawing(self) -> Callable[[], Any]:
        return lambda: display.draw_values(self.values, self.indptr, "value")

    def __repr__(self) -> str:
        name = f"{self.name!r}: " if self.name else ""
        return f"TrecTable({name}{self.n_queries} queries, {self.n_docs} documents)"


def gathered_table(
    query: Array,
    documents: Array,
    values: Array,
    lines: Array | None,
    name: str,
    path: str | Path | None,
    expected: str = "once",
    duplicates: Duplicates = "error",
) -> TrecTable:
    """A table from columns, rows in any order; a document that occurs twice in a query is an error by default."""
    if duplicates not in ("error", "keep-first", "keep-best"):
        raise InputError(f"duplicates is {duplicates!r}; expected 'error', 'keep-first' or 'keep-best'")
    if duplicates != "error":
        kept = _distinct(query, documents, values, by_value=duplicates == "keep-best")
        if len(kept) < len(values):
            query, documents, values = query[kept], documents[kept], values[kept]
            lines = None if lines is None else lines[kept]
    rows, indptr, query_ids = gather_queries(query)
    if rows is not None:
        documents, values = documents[rows], values[rows]
        lines = None if lines is None else lines[rows]
    ids = decoded_ids(query_ids, "query", path)
    table = TrecTable(ids, indptr, documents, values, name)
    for q, (start, stop) in enumerate(zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)):
        block = table.documents[start:stop]
        if len(set(block)) < stop - start:
            _report_duplicate(block, start, str(ids[q]), lines, path, expected)
    return table


def _distinct(query: Array, documents: Array, values: Array, *, by_value: bool) -> Array:
    """The rows of distinct pairs, in order: of each the first, or the first of those with the highest value."""
    order = np.lexsort((-values, documents, query) if by_value else (documents, query))  # which keeps ties in order
    query, documents = query[order], documents[order]
    is_first = np.append(True, (query[1:] != query[:-1]) | (documents[1:] != documents[:-1]))
    return np.sort(order[is_first])


def decoded_ids(ids: Array, what: str, path: str | Path | None = None) -> Array:
    try:
        return np.char.decode(ids, "utf-8") if len(ids) else np.empty(0, "U1")
    except UnicodeDecodeError:
        raise InputError(f"{what} ids are not UTF-8 text", path) from None


def _report_duplicate(
    block: list[bytes], start: int, query: str, lines: Array | None, path: str | Path | None, expected: str
) -> None:
    seen: dict[bytes, int] = {}
    for i, document in enumerate(block):
        if document in seen:
            text = document.decode("utf-8", "replace")
            first = "" if lines is None else f" (first on line {lines[start + seen[document]]})"
            line = None if lines is None else int(lines[start + i])
            raise InputError(f"duplicate document {text!r} in query {query!r}{first}; expected {expected}", path, line)
        seen[document] = i
