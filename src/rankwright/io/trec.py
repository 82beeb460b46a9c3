"""TREC files: qrels (`query iteration document label`) and runs (`query Q0 document rank score tag`).

As in trec_eval, the iteration, Q0, rank and tag columns are ignored: the ranking is the order of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.order import gather_queries, query_of_row, rank_order, sizes_to_indptr
from rankwright.data.trec_table import TrecTable, gathered_table
from rankwright.errors import InputError, shown
from rankwright.io.columns import read_columns
from rankwright.io.files import OpenFile, Progress, Source, open_file, replace_file
from rankwright.io.frames import is_frame
from rankwright.io.judgements import (
    TREC,
    Judged,
    What,
    catalogued,
    frame_columns,
    in_folder,
    is_catalogued,
    judged_in,
    query_word,
)
from rankwright.io.roles import Columns

__all__ = ["read_qrels", "read_run", "read_strata", "read_subtopics", "write_qrels", "write_run"]

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

    `table`: judgements or a run. `queries`: such as :func:`rankwright.read_queries` returns. Returns `table`: queries
    whose id is known keep it, and so do those that are unknown altogether. `matched`: how many were found by their
    text.

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


# TREC judgements that say more than a label: by subtopic of the query, or with the stratum of a sampled pool.
#
# by subtopic   query subtopic document label                    a line for every subtopic that was judged
# with strata   query iteration document stratum label           a label below 0: in the pool, and not sampled


_SUBTOPICS = ("query", "subtopic", "document", "label")
_STRATA = ("query", "iteration", "document", "stratum", "label")


def read_subtopics(path: Source, progress: Progress | None = None) -> TrecTable:
    """Read judgements by subtopic, for measures of diversity.

    Parameters
    ----------
    path : path
        Four columns, as TREC's web tracks have them: query, subtopic, document, label.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Returns
    -------
    TrecTable
        A row for every document of a query, ordered by id from the highest; its value is the highest label that it has
        for a subtopic.

    Examples
    --------
    >>> qrels = read_subtopics("qrels.diversity.txt")  # doctest: +SKIP
    """
    fields, labels, lines, name = _read_pooled(path, _SUBTOPICS, progress)
    rows, indptr, queries = gather_queries(fields["query"])
    if rows is not None:
        fields, labels, lines = {key: part[rows] for key, part in fields.items()}, labels[rows], lines[rows]
    query = query_of_row(indptr)
    order = np.lexsort((fields["subtopic"], fields["document"], query))
    order = order[np.lexsort((-np.arange(len(order)), query[order]))]  # ids descending within a query
    query, document, subtopic = query[order], fields["document"][order], fields["subtopic"][order]
    labels, lines = labels[order], lines[order]
    same = (query[1:] == query[:-1]) & (document[1:] == document[:-1])
    twice = np.flatnonzero(same & (subtopic[1:] == subtopic[:-1]))
    if len(twice):
        first, second = sorted(lines[[twice[0], twice[0] + 1]].tolist())
        what = f"duplicate document {_text(document[twice[0]])!r} for subtopic {_text(subtopic[twice[0]])!r}"
        raise InputError(f"{what} (first on line {first}); expected once", name, second)
    start = np.flatnonzero(np.append(True, ~same))
    row = np.cumsum(np.append(True, ~same)) - 1
    numbers = _numbered(query, subtopic)
    table = np.zeros((len(start), int(numbers.max(initial=0)) + 1))
    table[row, numbers] = labels
    sizes = np.bincount(query[start], minlength=len(queries))
    values = np.maximum.reduceat(labels, start)
    ids = np.array([_text(one) for one in queries.tolist()], dtype=str)
    return TrecTable(ids, sizes_to_indptr(sizes), document[start], values, Path(name).name, subtopics=table)


def read_strata(path: Source, progress: Progress | None = None) -> TrecTable:
    """Read judgements of a sampled pool, for xinfAP.

    Parameters
    ----------
    path : path
        Five columns, as NIST's sample_eval reads them: query, iteration, document, stratum, label. Documents of the
        pool that were not sampled have a label below 0.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> qrels = read_strata("qrels.sampled.txt")  # doctest: +SKIP
    """
    fields, labels, lines, name = _read_pooled(path, _STRATA, progress)
    rows, indptr, queries = gather_queries(fields["query"])
    if rows is not None:
        fields, labels, lines = {key: part[rows] for key, part in fields.items()}, labels[rows], lines[rows]
    query, document = query_of_row(indptr), fields["document"]
    order = np.lexsort((document, query))
    twice = np.flatnonzero((query[order][1:] == query[order][:-1]) & (document[order][1:] == document[order][:-1]))
    if len(twice):
        first, second = sorted(lines[order[[twice[0], twice[0] + 1]]].tolist())
        what = f"duplicate document {_text(document[order[twice[0]]])!r} (first on line {first})"
        raise InputError(f"{what}; expected once", name, second)
    ids = np.array([_text(one) for one in queries.tolist()], dtype=str)
    return TrecTable(ids, indptr, document, labels, Path(name).name, strata=_numbered(query, fields["stratum"]))


def _read_pooled(
    source: Source, names: tuple[str, ...], progress: Progress | None
) -> tuple[dict[str, Array], Array, Array, str]:
    """The columns of a file, its labels, and the line of every row."""
    wanted = [name for name in names if name != "iteration"]
    with open_file(source) as file:
        chunks = list(read_columns(file, names, wanted, progress))
        path = str(file.path)
    fields = {key: np.concatenate([chunk.fields[key] for chunk in chunks]) for key in wanted}
    labels = np.concatenate([chunk.numbers("label") for chunk in chunks])
    return fields, labels, np.concatenate([chunk.lines for chunk in chunks]), path


def _numbered(query: Array, names: Array) -> Array:
    """For every row the number of its name among those of its query, from 0."""
    order = np.lexsort((names, query))
    new_query = np.append(True, query[order][1:] != query[order][:-1])
    new_name = np.append(True, names[order][1:] != names[order][:-1]) | new_query
    running = np.cumsum(new_name) - 1
    found = np.empty(len(query), np.int64)
    found[order] = running - running[new_query][np.cumsum(new_query) - 1]
    return found


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


# Judgements and runs as other libraries hold them: data frames, ranx's Qrels and Run, ir_measures' lists.
#
# Data frames may be of pandas, polars or pyarrow; their columns are found by name, as in every table.


TrecSource = TrecTable | str | Path | Mapping[Any, Mapping[Any, float]] | Iterable[Any]
"""A file, a table, ``{query: {document: number}}``, a data frame, or an object of ranx or ir_measures."""

_FORMS = "a file, a TrecTable, {query: {document: number}}, a data frame, or an object of ranx or ir_measures"


def trec_table(source: TrecSource, what: What) -> TrecTable:
    """Judgements or a run in any form, as a table.

    `source`: the judgements or the run. `what` ({"run", "qrels"}): which of the two it is.

    Examples
    --------
    >>> trec_table({"1": {"d1": 0.5, "d2": 0.25}}, "run").n_docs
    2
    """
    if isinstance(source, TrecTable):
        return source
    if isinstance(source, str | Path):
        return read_run(source) if what == "run" else read_qrels(source)
    if is_frame(source):
        return _of_columns(*frame_columns(source, what), what)
    if type(source).__module__.partition(".")[0] == "ranx":
        name = str(getattr(source, "name", None) or what)
        return TrecTable.from_dict(source.to_dict(), name)  # type: ignore[union-attr]
    if isinstance(source, Mapping):
        return _of_mapping(source, what)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _of_frame(source, what)
    raise InputError(f"the {what} is a {type(source).__name__}; expected {_FORMS}")


def _of_mapping(source: Mapping[Any, Any], what: What) -> TrecTable:
    for query, row in source.items():
        if not isinstance(row, Mapping):
            raise InputError(f"the {what} has {shown(row)} for query {query!r}; expected {{document: number}}")
    return TrecTable.from_dict(source, what)


def _of_frame(rows: Iterable[Any], what: What) -> TrecTable:
    """Rows with the attributes ``query_id``, ``doc_id`` and ``score`` or ``relevance``, as ir_measures has them."""
    value = "score" if what == "run" else "relevance"
    found = []
    for row in rows:
        try:
            found.append((row.query_id, row.doc_id, float(getattr(row, value))))
        except (AttributeError, TypeError, ValueError):
            raise InputError(
                f"the {what} has {shown(row)}; expected query_id, doc_id and {value} in every row, or {_FORMS}"
            ) from None
    if not found:
        raise InputError(f"the {what} is empty; expected at least one document (an iterator can be read only once)")
    queries, documents, values = zip(*found, strict=True)
    return _of_columns(queries, documents, values, what)


def _of_columns(queries: Any, documents: Any, values: Any, what: What) -> TrecTable:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"the {what} contains nan or inf; expected finite numbers")
    return TrecTable.from_columns(queries, documents, numbers, what)
