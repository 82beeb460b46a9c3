"""TREC files: qrels (`query iteration document label`) and runs (`query Q0 document rank score tag`).

As in trec_eval, the iteration, Q0, rank and tag columns are ignored: the ranking is the order of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.columns import read_columns
from rankwright.data.files import OpenFile, Progress, Source, open_file, replace_file
from rankwright.data.order import rank_order
from rankwright.data.trec_table import TrecTable, gathered_table
from rankwright.errors import InputError
from rankwright.io.catalogue import is_catalogued
from rankwright.io.judgements import TREC, Judged, catalogued, in_folder, judged_in, query_word
from rankwright.io.roles import Columns

__all__ = ["match_queries", "read_qrels", "read_run", "write_qrels", "write_run"]

Array = npt.NDArray[Any]
_RUN = ("query", "Q0", "document", "rank", "score", "tag")


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
    if not isinstance(path, OpenFile) and is_catalogued(path):
        return _of_rows(catalogued(path))
    with open_file(in_folder(path)) as file:  # once: it may be a pipe
        judged = judged_in(file, columns, progress)
        return _read(file, TREC, "label", progress) if judged is None else _of_rows(judged)


def _of_rows(judged: Judged) -> TrecTable:
    queries = np.char.encode(np.array(judged.queries), "utf-8")
    documents = np.char.encode(np.array(judged.documents), "utf-8")
    lines = np.array(judged.lines) if all(judged.lines) else None
    table = gathered_table(queries, documents, np.array(judged.values), lines, Path(judged.path).name, judged.path)
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


def read_run(path: Source, progress: Progress | None = None, *, columns: Columns | None = None) -> TrecTable:
    """Read a run; the rank column is ignored, as in trec_eval.

    Parameters
    ----------
    path : path
        A TREC run; or a table (CSV, JSON, Parquet) with columns for query, document and score.
    progress : callable, optional
        Called with (bytes read, total bytes).
    columns : mapping, optional
        Columns by role, ``qid`` or ``query``, ``docid`` and ``score``; by default found by name.

    Examples
    --------
    >>> run = read_run("bm25.run.gz")  # doctest: +SKIP
    """
    with open_file(path) as file:
        scored = judged_in(file, columns, progress, "run")
        return _read(file, _RUN, "score", progress) if scored is None else _of_rows(scored)


def _read(source: Source, names: tuple[str, ...], value: str, progress: Progress | None) -> TrecTable:
    with open_file(source) as file:
        path = file.path
        chunks = list(read_columns(file, names, ("query", "document", value), progress))
    values = np.concatenate([chunk.numbers(value) for chunk in chunks])
    query = np.concatenate([chunk.fields["query"] for chunk in chunks])
    documents = np.concatenate([chunk.fields["document"] for chunk in chunks])
    lines = np.concatenate([chunk.lines for chunk in chunks])
    hint = ", or `evaluate --subtopics` if the second column is the subtopic" if names == TREC else ""
    return gathered_table(query, documents, values, lines, Path(path).name, path, f"once{hint}")


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
