"""Writing LETOR / SVMlight text, each number as the shortest text that reads back to the same value."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.io.files import replace_file
from rankwright.io.letor import NAMES

__all__ = ["write_letor"]

_NOT_AN_ID = re.compile(r"[\s#\0\ud800-\udfff]|^$")
_WRITE_ROWS = 512


def write_letor(data: RankingData, path: str | Path) -> None:
    """Write data as LETOR / SVMlight text, each number as the shortest text that reads back to the same value.

    Zeros are written for dense data and left out for sparse data; if the last column of sparse data is empty, the first
    line has a 0 there to keep the number of features. Feature names go into a comment on the first line,
    ``# features:``, separated by tabs.

    Parameters
    ----------
    data : RankingData
        The data, written in its own order.
    path : path
        The file; gzip if the name ends in ``.gz``.

    Examples
    --------
    >>> import tempfile
    >>> data = RankingData.from_arrays([[0.1, 0.0], [2.0, 3.5]], [0, 1], qid=["a", "a"], doc_ids=["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_letor(data, Path(folder) / "data.txt")
    ...     print((Path(folder) / "data.txt").read_text(), end="")
    0 qid:a 1:0.1 2:0 # docid = x
    1 qid:a 1:2 2:3.5 # docid = y
    """
    if any(isinstance(value, str) for values in data.categories.values() for value in values[:1]):
        data.check_numbers("LETOR text", "write Parquet or a .rank folder")
    query_ids = _checked_ids(data.query_ids, "query id")
    if len(set(query_ids)) < len(query_ids):
        raise InputError("query ids that differ only in type are the same in a text file")
    heads = [f" qid:{text} " for text in query_ids]
    queries = data.query_of_row()
    names = data.feature_names or ()
    if any(re.search(r"[\t\r\n]", name) for name in names):
        raise InputError("a feature name contains a tab or a line break; expected neither")
    with replace_file(path) as file:
        if names:
            file.write(NAMES + "\t".join(names).encode() + b"\n")
        for start in range(0, data.n_docs, _WRITE_ROWS):
            rows = slice(start, start + _WRITE_ROWS)
            texts = [
                [*map(repr, _shortest(data.labels[rows]))],
                [heads[query] for query in queries[rows].tolist()],
                _feature_texts(data, rows),
            ]
            if data.doc_ids is not None:
                doc_ids = _checked_ids(data.doc_ids[rows], "document id")
                texts.append([f"# docid = {doc}" if doc else "" for doc in doc_ids])
            file.write("".join(f"{''.join(line).rstrip()}\n" for line in zip(*texts, strict=True)).encode())


def _checked_ids(ids: Array, what: str) -> list[str]:
    texts = [*map(str, ids.tolist())]
    for text in texts:
        if _NOT_AN_ID.search(text) and not (text == "" and what == "document id"):
            raise InputError(f"{what} {text!r} cannot be written; expected no white space and no #")
    return texts


def _feature_texts(data: RankingData, rows: slice) -> list[str]:
    """``id:value id:value `` of each row."""
    X = data.X[rows]
    if not data.is_sparse:
        template = "".join(f"{column}:%r " for column in range(1, data.n_features + 1))
        return [template % tuple(row) for row in _shortest(X)]
    X = X.copy()
    X.eliminate_zeros()
    pairs: list[Any] = [None] * (2 * X.nnz)
    pairs[::2] = (X.indices.astype(np.int64) + 1).tolist()
    pairs[1::2] = _shortest(X.data)
    spans = pairwise((2 * X.indptr.astype(np.int64)).tolist())
    texts = ["%d:%r " * ((stop - start) // 2) % tuple(pairs[start:stop]) for start, stop in spans]
    if rows.start == 0 and data.n_features and not data.X.data[data.X.indices == data.n_features - 1].any():
        texts[0] += f"{data.n_features}:0 "
    return texts


def _shortest(values: Array) -> list[Any]:
    """Python numbers whose ``repr`` is the shortest text that reads back as the same value; int where possible."""
    exact = values.astype(np.float64)
    integers = (exact == np.rint(exact)) & (np.abs(exact) < 1e16)
    if values.dtype == np.float32:
        exact[~integers] = _short_decimals(exact[~integers])
    numbers = exact.astype(object)
    numbers[integers] = exact[integers].astype(np.int64)
    return numbers.tolist()


def _short_decimals(values: Array) -> Array:
    """The float64 nearest to the shortest decimal of each float32 value."""
    values = values.copy()
    unresolved = np.arange(len(values))
    for n_digits in range(6, 10):  # float32 keeps any 6 digits, and 9 tell any two float32 apart
        x = values[unresolved]
        shift = n_digits - 1 - np.floor(np.log10(np.abs(x)))
        # With an exact power there is one rounding only: this is the float64 nearest to a short decimal.
        power = 10.0 ** np.clip(np.abs(shift), 0, 22)
        short = np.where(shift >= 0, np.rint(x * power) / power, np.rint(x / power) * power)
        exact = (np.abs(shift) <= 22) & (short.astype(np.float32) == x)
        values[unresolved[exact]] = short[exact]
        unresolved = unresolved[~exact]
    values[unresolved] = [float(str(x)) for x in values[unresolved].astype(np.float32)]
    return values
