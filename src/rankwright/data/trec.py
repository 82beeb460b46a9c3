"""TREC files: qrels (`query iteration document label`) and runs (`query Q0 document rank score tag`).

As in trec_eval, the iteration, Q0, rank and tag columns are ignored: the ranking is the order of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import gather_queries, query_of_row, sizes_to_indptr
from rankwright.data.columns import read_columns
from rankwright.data.data_display import DisplayedTable
from rankwright.data.files import Progress, Source, open_file, replace_file
from rankwright.data.judgements import TREC, judged_in, query_word
from rankwright.data.order import rank_order
from rankwright.data.roles import Columns
from rankwright.errors import InputError

__all__ = ["TrecTable", "match_queries", "read_qrels", "read_run", "write_qrels", "write_run"]

Array = npt.NDArray[Any]
_RUN = ("query", "Q0", "document", "rank", "score", "tag")


@dataclass(frozen=True, eq=False, repr=False)
class TrecTable(DisplayedTable):
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
        return _gathered(query, documents, np.asarray(values, np.float64), None, name, None)

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


def read_qrels(path: Source, progress: Progress | None = None, *, columns: Columns | None = None) -> TrecTable:
    """Read judgements; labels below 0 are kept and count as not relevant in every measure.

    Parameters
    ----------
    path : path
        TREC qrels; a table with a header line (CSV, tabs, semicolons), Parquet, or JSON with columns for query,
        document and rating; OpenSearch's judgement lists; LETOR lines whose comments name the document; a folder as
        BEIR has them; or ``ir_datasets:NAME``. Text may be gzip. A query that is named by its text gets the id that
        :func:`rankwright.read_queries` gives it, its words joined by ``_``.
    progress : callable, optional
        Called with (bytes read, total bytes).
    columns : mapping, optional
        Columns by role, ``qid`` or ``query``, ``docid`` and ``label``; by default found by name.

    Examples
    --------
    >>> qrels = read_qrels("qrels.txt")  # doctest: +SKIP
    >>> ratings = read_qrels("ratings.csv", columns={"label": "stars"})  # doctest: +SKIP
    """
    judged = judged_in(path, columns, progress)
    if judged is None:
        return _read(path, TREC, "label", progress)
    queries = np.char.encode(np.array(judged.queries), "utf-8")
    documents = np.char.encode(np.array(judged.documents), "utf-8")
    lines = np.array(judged.lines) if all(judged.lines) else None
    table = _gathered(queries, documents, np.array(judged.values), lines, Path(judged.path).name, judged.path)
    return replace(table, layout=judged.layout)


def match_queries(table: TrecTable, queries: Iterable[tuple[str, str]]) -> tuple[TrecTable, int]:
    """Give queries that are named by their text the ids that a file of queries has for them.

    Parameters
    ----------
    table : TrecTable
        Judgements or a run.
    queries : iterable of (id, text)
        Such as :func:`rankwright.read_queries` returns.

    Returns
    -------
    table : TrecTable
        Queries whose id is known keep it, and so do those that are unknown altogether.
    matched : int
        How many were found by their text.

    Examples
    --------
    >>> table = TrecTable.from_dict({"red_dress": {"d1": 2.0}, "q2": {"d1": 1.0}})
    >>> match_queries(table, [("q1", "red dress"), ("q2", "shoes")])[0].query_ids.tolist()
    ['q1', 'q2']
    """
    ids: set[str] = set()
    by_text: dict[str, str] = {}
    for query, text in queries:
        ids.add(query)
        by_text.setdefault(query_word(text), query)
    names = [str(query) for query in table.query_ids]
    new = [name if name in ids else by_text.get(name, name) for name in names]
    matched = sum(one != other for one, other in zip(names, new, strict=True))
    if not matched:
        return table, 0
    if len(set(new)) < len(new):
        name = next(one for one in new if new.count(one) > 1)
        raise InputError(f"{table.name or 'the judgements'}: the query {name!r} is named by its id and by its text")
    return replace(table, query_ids=np.array(new)), matched


def read_run(path: Source, progress: Progress | None = None) -> TrecTable:
    """Read a run; the rank column is ignored, as in trec_eval.

    Examples
    --------
    >>> run = read_run("bm25.run.gz")  # doctest: +SKIP
    """
    return _read(path, _RUN, "score", progress)


def _read(source: Source, names: tuple[str, ...], value: str, progress: Progress | None) -> TrecTable:
    with open_file(source) as file:
        path = file.path
        chunks = list(read_columns(file, names, ("query", "document", value), progress))
    values = np.concatenate([chunk.numbers(value) for chunk in chunks])
    query = np.concatenate([chunk.fields["query"] for chunk in chunks])
    documents = np.concatenate([chunk.fields["document"] for chunk in chunks])
    lines = np.concatenate([chunk.lines for chunk in chunks])
    hint = ", or `evaluate --subtopics` if the second column is the subtopic" if names == TREC else ""
    return _gathered(query, documents, values, lines, Path(path).name, path, f"once{hint}")


def _gathered(
    query: Array,
    documents: Array,
    values: Array,
    lines: Array | None,
    name: str,
    path: str | Path | None,
    expected: str = "once",
) -> TrecTable:
    rows, indptr, query_ids = gather_queries(query)
    if rows is not None:
        documents, values = documents[rows], values[rows]
        lines = None if lines is None else lines[rows]
    try:
        ids = np.char.decode(query_ids, "utf-8") if len(query_ids) else np.empty(0, "U1")
    except UnicodeDecodeError:
        raise InputError("query ids are not UTF-8 text", path) from None
    table = TrecTable(ids, indptr, documents, values, name)
    for q, (start, stop) in enumerate(zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)):
        block = table.documents[start:stop]
        if len(set(block)) < stop - start:
            _report_duplicate(block, start, str(ids[q]), lines, path, expected)
    return table


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


def write_qrels(table: TrecTable, path: str | Path) -> None:
    """Write judgements as ``query 0 document label``; gzip if the name ends in .gz."""
    with replace_file(path) as out:
        for query, start, stop in _blocks(table):
            rows = zip(table.doc_ids[start:stop].tolist(), table.values[start:stop].tolist(), strict=True)
            out.write(b"".join(b"%s 0 %s %s\n" % (query, document, _plain(label)) for document, label in rows))


def write_run(table: TrecTable, path: str | Path, tag: str = "rankwright") -> None:
    """Write a run in rank order (ties by the tie rule), ranks from 1, scores in full precision."""
    end = b" " + _word(tag, "tag") + b"\n"
    order = rank_order(table.values, table.indptr, table.doc_ids)
    documents, values = table.doc_ids[order], table.values[order]
    with replace_file(path) as out:
        for query, start, stop in _blocks(table):
            rows = enumerate(zip(documents[start:stop].tolist(), values[start:stop].tolist(), strict=True), 1)
            lines = (b"%s Q0 %s %d %s" % (query, document, rank, _plain(score)) for rank, (document, score) in rows)
            out.write(end.join([*lines, b""]))


def _blocks(table: TrecTable) -> list[tuple[bytes, int, int]]:
    queries = [_word(str(query), "query id") for query in table.query_ids]
    for word in table.doc_ids.tolist():
        if not word or len(word.split()) != 1:
            _check_word(word, "document id")
    return list(zip(queries, table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True))


def _word(text: str, what: str) -> bytes:
    word = text.encode("utf-8", "replace")  # half of a surrogate pair becomes a question mark
    _check_word(word, what)
    return word


def _check_word(word: bytes, what: str) -> None:
    if len(word.split()) != 1 or word != word.strip():
        text = word.decode("utf-8", "replace")
        raise InputError(f"{what} {text!r} cannot be written to a TREC file; expected one word without white space")


def _plain(number: float) -> bytes:
    return (b"%d" % number) if abs(number) < 1e15 and number == int(number) else repr(number).encode()
