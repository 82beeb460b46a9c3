"""Folds of queries, drawn by content: they depend neither on the order of rows and queries nor on labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import stored
from rankwright.data.places import place_of, selected

Array = npt.NDArray[Any]
FOLDS = 5
"""Default number of folds."""
ONE_FROM = 500
"""Queries with an order to learn from which on only one of these folds is held out."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Queries that are held out together.

    Attributes
    ----------
    of_query : ndarray of int
        The fold in which each query is held out, from 0. -1 for queries that are in none, and always trained on;
        -2 - k for those that are trained on in fold k alone.
    n_folds : int
        Folds that the queries were cut into.
    own : tuple of mapping
        Parameters that the ranker has in each fold alone, such as a background that has not seen it.
    """

    of_query: Array
    n_folds: int
    own: tuple[Mapping[str, Any], ...] = ()

    @property
    def n_held_out(self) -> int:
        """Number of folds that are held out: all, or one."""
        return int(self.of_query.max(initial=-1)) + 1

    def trained_on(self, number: int) -> Array:
        """The queries that a fold is trained on, as a mask."""
        of_query = self.of_query
        return (of_query != number) & ((of_query >= -1) | (of_query == -2 - number))

    @property
    def words(self) -> str:
        """A description, such as ``5-fold cross-validation``."""
        if self.n_held_out == self.n_folds:
            return f"{self.n_folds}-fold cross-validation"
        count = "one" if self.n_held_out == 1 else str(self.n_held_out)
        return f"cross-validation with {count} of {self.n_folds} folds"

    @classmethod
    def draw(
        cls,
        data: RankingData,
        n_folds: int | str = "auto",
        *,
        useful: Array | None = None,
        together: Array | None = None,
        seed: int = 0,
    ) -> Folds | None:
        """Draw folds, which depend neither on the order of rows and queries nor on labels; None if there is one query.

        Parameters
        ----------
        data : RankingData
            The queries. Those with something to learn from are spread evenly over the folds, and so are the others.
        n_folds : int or "auto"
            Folds; at most as many as there are queries to learn from. ``"auto"``: 5, of which only one is held out
            where there are 500 or more such queries.
        useful : ndarray of bool, optional
            Queries with something to learn from; default: those with an order.
        together : ndarray of int, optional
            A number per query, from 0: queries of the same number are in the same fold, and count as one.
        seed : int
            Random seed.
        """
        useful = data.has_order if useful is None else useful
        _, queries = by_content(data)
        groups = queries if together is None else together[queries]
        _, first, number = np.unique(groups, return_index=True, return_inverse=True)
        group = np.empty(data.n_queries, np.int64)  # numbered by content: a group comes where its first query does
        group[queries] = np.argsort(np.argsort(first))[number]
        able = np.zeros(len(first), bool)
        able[group[useful]] = True
        n_useful = int(able.sum())
        n_drawn = min(FOLDS if isinstance(n_folds, str) else int(n_folds), n_useful)
        if n_drawn <= 1:
            return None
        rng = np.random.default_rng([seed, n_drawn])
        drawn = np.concatenate([rng.permutation(np.flatnonzero(able)), rng.permutation(np.flatnonzero(~able))])
        of_group = np.empty(len(first), np.int64)
        of_group[drawn] = np.arange(len(first)) % n_drawn
        if n_folds == "auto" and n_useful >= ONE_FROM:
            of_group = np.where(of_group == 0, 0, -1)
        return cls(of_group[group], n_drawn)


def by_content(data: RankingData) -> tuple[Array, Array]:
    """The documents of each query and the queries, in an order given by content alone.

    That of the queries depends on labels only where all features of two queries are the same. Partition comes after
    partition, each in the order of its own content.
    """
    place = place_of(data)
    with place.made(ContentOrder) as actors:
        orders = actors.ask("order")
    docs, queries = np.empty(data.n_docs, np.int64), []
    for share, (of_docs, of_queries) in zip(place.shares, orders, strict=True):
        rows = place.rows_of(share)
        docs[rows] = rows[of_docs]
        queries.append(share.chosen[of_queries])
    return docs, np.concatenate(queries)


class ContentOrder:
    """The order of some queries of a partition."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = selected(data, queries)

    def order(self) -> tuple[Array, Array]:
        """Documents and queries, as :func:`by_content` gives them."""
        from rankwright.objectives.content_order import content_order

        data = self._data
        if not data.n_queries:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        X, starts = stored(data)
        docs, queries = content_order(X, data.labels, data.indptr, starts=starts)
        places = np.empty(data.n_queries)
        places[queries] = np.arange(data.n_queries)
        return docs, content_order(X, np.zeros(data.n_docs), data.indptr, places, starts=starts)[1]


def places_among(docs: Array, queries: Array, data: RankingData) -> Array:
    """Documents, query after query, as positions in the data of some queries (a mask) alone."""
    rows = np.repeat(queries, data.sizes)
    return (np.cumsum(rows) - 1)[docs[rows]]
