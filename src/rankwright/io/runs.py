"""Judgements and runs as other libraries hold them: data frames, ranx's Qrels and Run, ir_measures' lists.

Data frames may be of pandas, polars or pyarrow; their columns are found by name, as in every table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.trec import TrecTable, read_qrels, read_run
from rankwright.errors import InputError, shown
from rankwright.io.frames import is_frame
from rankwright.io.judgements import What, frame_columns

Source = TrecTable | str | Path | Mapping[Any, Mapping[Any, float]] | Iterable[Any]
"""A file, a table, ``{query: {document: number}}``, a data frame, or an object of ranx or ir_measures."""

_FORMS = "a file, a TrecTable, {query: {document: number}}, a data frame, or an object of ranx or ir_measures"


def trec_table(source: Source, what: What) -> TrecTable:
    """Judgements or a run in any form, as a table.

    Parameters
    ----------
    source : path, TrecTable, dict, data frame, or object of ranx or ir_measures
        The judgements or the run.
    what : {"run", "qrels"}
        Which of the two it is.

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
        return _of_rows(source, what)
    raise InputError(f"the {what} is a {type(source).__name__}; expected {_FORMS}")


def _of_mapping(source: Mapping[Any, Any], what: What) -> TrecTable:
    for query, row in source.items():
        if not isinstance(row, Mapping):
            raise InputError(f"the {what} has {shown(row)} for query {query!r}; expected {{document: number}}")
    return TrecTable.from_dict(source, what)


def _of_rows(rows: Iterable[Any], what: What) -> TrecTable:
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
