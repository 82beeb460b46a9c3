"""Which document to judge next.

``depth``: query after query, the whole pool of each. ``disagreement``: rounds over all queries; each takes a few
documents of every query, first those on which the rankers disagree most, where disagreement is the range over rankers
of 1/log2(2 + rank), 0 below the pool. Queries come in a random order, and documents that follow each other in one query
in a random order, so that a place tells nothing about who found a document. Both are the same for the same seed.

A sequential comparison is decided by whole pools: what is not judged may have any grade, which widens the bounds of
every query begun. ``disagreement`` is for a first estimate over all queries.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from rankwright.judging.pool import JudgingPool
from rankwright.judging.records import Pair

ORDERS = ("depth", "disagreement")
_ROUND = 4  # documents of a query in a row, in the order of disagreement


def planned(pool: JudgingPool, order: str, seed: int = 0) -> list[Pair]:
    """All queries and documents of a pool, in the order in which they are to be judged.

    `pool`: what can be judged. `order` ({"depth", "disagreement"}): what comes first. `seed`: of the random orders.

    Examples
    --------
    >>> pool = JudgingPool(2, {"a": {"q": ["d1", "d2"]}, "b": {"q": ["d1", "d3"]}})
    >>> sorted(planned(pool, "disagreement"))
    [('q', 'd1'), ('q', 'd2'), ('q', 'd3')]
    """
    queries = shuffled_queries(pool, seed)
    if order == "depth":
        return [(query, document) for query in queries for document in _shuffled(pool.documents(query), query, seed)]
    rounds: list[list[Pair]] = []
    for query in queries:
        differing = disagreement(pool, query)
        ranked = sorted(_shuffled(pool.documents(query), query, seed), key=lambda document: -differing[document])
        for at, start in enumerate(range(0, len(ranked), _ROUND)):
            if at == len(rounds):
                rounds.append([])
            few = ranked[start : start + _ROUND]
            rounds[at] += [(query, document) for document in _shuffled(few, query, seed)]
    return [pair for pairs in rounds for pair in pairs]


def disagreement(pool: JudgingPool, query: str) -> dict[str, float]:
    """How far rankers are apart on each document of a query: the range of 1/log2(2 + rank), 0 below the pool.

    Examples
    --------
    >>> disagreement(JudgingPool(2, {"a": {"q": ["d1", "d2"]}, "b": {"q": ["d1"]}}), "q")["d1"]
    0.0
    """
    ranks = pool.ranks(query)
    ranges = {}
    for document in pool.documents(query):
        worth = [1 / math.log2(2 + top[document]) if document in top else 0.0 for top in ranks.values()]
        ranges[document] = max(worth) - min(worth)
    return ranges


def shuffled_queries(pool: JudgingPool, seed: int) -> list[str]:
    """The queries in a random order."""
    return _shuffled(pool.queries, "", seed)


def _shuffled(names: Sequence[str], within: str, seed: int) -> list[str]:
    """Names in a random order that depends on nothing but them, the query and the seed."""

    def place(name: str) -> bytes:
        return hashlib.sha256("\0".join((str(seed), within, name)).encode("utf-8", "surrogatepass")).digest()

    return sorted(names, key=place)
