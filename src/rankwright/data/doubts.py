"""What makes training data doubtful: a feature that knows the labels, repeated rows, all rows in one query.

A feature is a probable leak if it alone orders the labels (nearly) perfectly: of all pairs of documents of one query,
counted once for each grade between their labels, it orders at least 99 % as the labels do, or all but 1 % the other way
round; equal values order half of a pair. With ranks r within the query (the mean of equal values) and the grade g as a
number from 0, the pairs in order are Σ r·g − Σ_t n_t (n_t + 1)/2 over the n_t documents from each grade t on: the
rank-sum statistic of Mann and Whitney. Real features stay far below: the best single one of MQ2007, MQ2008, OHSUMED,
MSLR, ClueWeb09 and TREC-COVID reaches 81 %, BM25-like ones over the 1,000 first documents of a search up to 93 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, column_of, some_queries
from rankwright.data.overlap import row_hashes
from rankwright.data.places import place_of

LEAK_FROM = 0.99
"""Share of the pairs in order from which a single feature is a probable leak."""
_ENOUGH_QUERIES, _ENOUGH_PAIRS = 5, 100  # fewer can be in order by chance
_SAMPLED_VALUES, _SAMPLED_ROWS = 1 << 21, 2000  # rows × features that are looked at first; rows, at least
_REPEATED = 0.2  # share of rows without ids from which equal ones are repeated rather than alike
_NAMED = 3


@dataclass(frozen=True)
class Leak:
    """A feature that orders the labels; `share`: of the pairs in order, or in reverse order with ``reverse``."""

    name: str
    share: float
    reverse: bool


def probable_leaks(data: RankingData) -> tuple[Leak, ...]:
    """The features that order the labels (nearly) perfectly; categorical ones, and those elsewhere, are not looked at.

    Examples
    --------
    >>> labels = np.tile([0, 1, 2, 1], 20)
    >>> X = np.column_stack([np.arange(80) % 7, labels + 5.0])
    >>> probable_leaks(RankingData.from_arrays(X, labels, group=[8] * 10))
    (Leak(name='f2', share=1.0, reverse=False),)
    """
    if place_of(data).is_partitioned or not data.n_docs:
        return ()
    ordered = np.flatnonzero(data.has_order)
    room = max(_SAMPLED_ROWS, _SAMPLED_VALUES // max(1, data.n_features))
    step = max(1, -(-int(data.sizes[ordered].sum()) // room))
    columns = [at for at in range(data.n_features) if at not in data.categories]
    leaks = _leaks(some_queries(data, ordered[::step]), columns)
    if step > 1 and leaks:
        leaks = _leaks(some_queries(data, ordered), list(leaks))
    return tuple(leaks.values())


def _leaks(data: RankingData, columns: list[int]) -> dict[int, Leak]:
    """The leaks among some columns of data all of whose queries have an order, by column."""
    starts, sizes, query = data.indptr[:-1], data.sizes, data.query_of_row()
    grades, grade = np.unique(data.labels, return_inverse=True)
    total = least = 0.0
    for first in range(1, len(grades)):
        n_above = np.add.reduceat((grade >= first).astype(np.float64), starts)
        total += float((n_above * (sizes - n_above)).sum())
        least += float((n_above * (n_above + 1) / 2).sum())
    if data.n_queries < _ENOUGH_QUERIES or total < _ENOUGH_PAIRS:
        return {}
    leaks = {}
    whole = data.X.tocsc() if data.is_sparse else None
    if whole is not None:  # too few values for most pairs not to be of two zeros
        fewest = min(np.count_nonzero(grade), np.count_nonzero(grade == 0)) / 2
        columns = [column for column in columns if np.diff(whole.indptr)[column] >= fewest]
    for column in columns:
        values = column_of(data, column) if whole is None else whole[:, [column]].toarray()[:, 0].astype(np.float64)
        ranks, order = _ranks(np.where(np.isnan(values), -np.inf, values), query, starts)
        share = float((ranks @ grade[order] - least) / total)
        if max(share, 1 - share) >= LEAK_FROM:
            leaks[column] = Leak(data.names[column], max(share, 1 - share), share < 0.5)
    return leaks


def _ranks(values: Array, query: Array, starts: Array) -> tuple[Array, Array]:
    """Ranks from 1 within queries, ascending, equal values with their mean; and the rows that they are of."""
    order = np.lexsort((values, query))
    ordered = values[order]
    is_new = np.append(True, (ordered[1:] != ordered[:-1]) | (query[1:] != query[:-1]))
    first = np.flatnonzero(is_new)
    middle = first + (np.diff(np.append(first, len(values))) + 1) / 2
    return middle[np.cumsum(is_new) - 1] - starts[query], order


def doubts_of(data: RankingData) -> list[str]:
    """All that makes data doubtful to train on, a line each, a probable leak first."""
    leaks = probable_leaks(data)
    return [*([_leak_warning(leaks, data.feature_names is not None)] if leaks else []), *doubtful_rows(data)]


def _leak_warning(leaks: tuple[Leak, ...], has_names: bool) -> str:
    names = ", ".join(repr(leak.name) for leak in leaks[:_NAMED])
    more = f" and {len(leaks) - _NAMED:,} more" if len(leaks) > _NAMED else ""
    share = min(math.floor(1000 * leak.share) / 10 for leak in leaks)
    what = "alone orders" if len(leaks) == 1 else "each order"
    how = "the other way round" if all(leak.reverse for leak in leaks) else "as the labels do"
    advice = "if it is made from labels, or not known before the search, leave it out"
    option = f" (--columns skip={leaks[0].name})" if has_names else ""
    return f"probable leak: {names}{more} {what} {share:g} % of the pairs of different labels {how}; {advice}{option}"


def doubtful_rows(data: RankingData) -> list[str]:
    """What to say of rows, a line each: all are one query, or some are there several times."""
    lines = []
    if data.n_queries == 1 and data.n_docs > 1:
        problem = f"all {data.n_docs:,} rows are of one query, {str(data.query_ids[0])!r}"
        lines.append(f"{problem}; if there are more, name the column of their ids: --columns qid=NAME")
    n_repeated, what = _repeated(data)
    if n_repeated:
        rows = (
            f"{n_repeated:,} of {data.n_docs:,} rows repeat" if n_repeated > 1 else f"1 of {data.n_docs:,} rows repeats"
        )
        lines.append(f"{rows} {what}; training and measures count each of them")
    return lines


def _repeated(data: RankingData) -> tuple[int, str]:
    """Rows that repeat one before, and what they repeat.

    Without ids these are equal rows, if there are so many that they cannot be documents that look alike: at least a
    fifth of rows that otherwise differ.
    """
    if data.doc_ids is not None:
        n_different = sum(len(set(data.doc_ids[a:b].tolist())) for a, b in pairwise(data.indptr.tolist()))
        return data.n_docs - n_different, "a document of their query"
    if place_of(data).is_partitioned or not data.n_docs or not data.n_features:
        return 0, ""
    hashes, query = row_hashes(data), data.query_of_row()
    order = np.lexsort((hashes, query))
    n_equal = int(((np.diff(hashes[order]) == 0) & (np.diff(query[order]) == 0)).sum())
    are_copies = min(n_equal, len(np.unique(hashes))) >= _REPEATED * data.n_docs
    return n_equal if are_copies else 0, "one of their query in all values"
