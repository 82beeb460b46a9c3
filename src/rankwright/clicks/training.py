"""Training data from a log: a query for every page, its documents with their features, and clicks as labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.clicks.log import ClickLog
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError

__all__ = ["ClickPages", "click_pages"]

COLUMNS = ("position", "pair")
_EXACT = 1 << 24  # whole numbers that float32 can tell apart


@dataclass(frozen=True, eq=False)
class ClickPages:
    """Pages to train on.

    Attributes
    ----------
    data : RankingData
        A query for every page, a row for every document that was shown there, clicks as labels.
    position : ndarray
        The position of every row, from 1.
    pair : ndarray
        A number for every row, the same on all pages that show the same document for the same query.
    n_impressions : int
        How many impressions the log has; those without features, and alone on their page, are left out.
    """

    data: RankingData
    position: Array
    pair: Array
    n_impressions: int

    @property
    def table(self) -> RankingData:
        """The data with the columns ``position`` and ``pair`` after the features, as it is written to files."""
        data = self.data
        exact = data.X.dtype if self.pair.max(initial=0) < _EXACT else np.float64
        added = np.stack([self.position, self.pair], axis=1).astype(exact)
        names = None if data.feature_names is None else (*data.feature_names, *COLUMNS)
        X = sparse.hstack([data.X, added], "csr") if data.is_sparse else np.hstack([data.X, added])
        return RankingData.from_arrays(
            X, data.labels, data.qid, doc_ids=data.doc_ids, feature_names=names, allow_missing=True,
            categories=data.categories,
        )  # fmt: skip


def click_pages(log: ClickLog, data: RankingData, query_ids: Sequence[str] | None = None) -> ClickPages:
    """The pages of a log, with the features that their documents have in some data.

    Pages without a click are kept: they say how often a document was shown where.

    Parameters
    ----------
    log : ClickLog
        One row per impression, with sessions or pages.
    data : RankingData
        Features of queries and documents, with their ids; labels do not matter.
    query_ids : sequence of str, optional
        The ids that the queries of the log have in the data, if these are others.

    Examples
    --------
    >>> log = ClickLog.from_columns(["q"] * 4, ["a", "b", "b", "a"], [1, 2, 1, 2], [0, 1, 0, 0], page=[7, 7, 8, 8])
    >>> features = RankingData.from_arrays([[0.5], [2.0]], [0, 0], ["q", "q"], doc_ids=["a", "b"])
    >>> pages = click_pages(log, features)
    >>> pages.data.qid.tolist(), pages.data.X.ravel().tolist(), pages.data.labels.tolist(), pages.position.tolist()
    (['q:1', 'q:1', 'q:2', 'q:2'], [0.5, 2.0, 2.0, 0.5], [0.0, 1.0, 0.0, 0.0], [1, 2, 1, 2])
    """
    if log.page is None or (log.shown > 1).any():
        problem = "is counted" if log.page is not None else "has neither sessions nor pages"
        raise InputError(f"the log {problem}; expected a row per impression, with a column session, user or page")
    if data.doc_ids is None:
        raise InputError("the features have no document ids; expected those of the log")
    row_of_pair = _rows(log, data, log.query_ids if query_ids is None else query_ids)
    order = np.lexsort((log.position, log.page))
    order = order[row_of_pair[log.pair[order]] >= 0]
    if not len(order):
        names = f"query {log.query_ids[0]!r} and document {log.doc_ids[0]!r}"
        raise InputError(f"no query and document of the log is among the features; expected such as {names}")
    sizes = np.bincount(log.page[order], minlength=int(log.page.max()) + 1)
    order = order[sizes[log.page[order]] > 1]
    if not len(order):
        raise InputError("no page of the log shows two documents that have features; expected some")
    first = np.flatnonzero(np.diff(log.page[order], prepend=-1))
    pair = log.pair[order]
    rows = row_of_pair[pair]
    page = np.repeat(_page_ids(log.pair_query[pair[first]], data, rows[first]), np.diff(np.append(first, len(order))))
    kept = RankingData.from_arrays(
        data.X[rows], log.clicks[order], page, doc_ids=data.doc_ids[rows], feature_names=data.feature_names,
        allow_missing=True, categories=data.categories,
    )  # fmt: skip
    return ClickPages(kept, log.position[order], pair, len(log.pair))


def _rows(log: ClickLog, data: RankingData, query_ids: Sequence[str] | Array) -> Array:
    """The row of the data for every pair of the log, −1 if there is none."""
    ids: Any = data.doc_ids
    keys = zip(map(str, data.qid.tolist()), map(str, ids.tolist()), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    queries, documents = np.asarray(query_ids, object)[log.pair_query], log.doc_ids[log.pair_doc]
    pairs = zip(queries.tolist(), documents.tolist(), strict=True)
    return np.array([row_of.get((str(query), document), -1) for query, document in pairs], np.int64)


def _page_ids(queries: Array, data: RankingData, rows: Array) -> Array:
    """The id of every page: that of its query in the data, and which of its pages it is, from 1."""
    order = np.argsort(queries, kind="stable")
    starts = np.flatnonzero(np.diff(queries[order], prepend=-1))
    number = np.empty(len(queries), np.int64)
    number[order] = np.arange(len(queries)) - np.repeat(starts, np.diff(np.append(starts, len(queries)))) + 1
    names = data.qid[rows].tolist()
    return np.array([f"{name}:{count}" for name, count in zip(names, number.tolist(), strict=True)])
