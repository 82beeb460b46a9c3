"""TREC judgements that say more than a label: by subtopic of the query, or with the stratum of a sampled pool.

by subtopic   query subtopic document label                    a line for every subtopic that was judged
with strata   query iteration document stratum label           a label below 0: in the pool, and not sampled
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import gather_queries, query_of_row, sizes_to_indptr
from rankwright.data.columns import read_columns
from rankwright.data.files import Progress, Source, open_file
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError

__all__ = ["read_strata", "read_subtopics"]

Array = npt.NDArray[Any]
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
    fields, labels, lines, name = _read(path, _SUBTOPICS, progress)
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
    fields, labels, lines, name = _read(path, _STRATA, progress)
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


def _read(
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
