"""Summaries of data: counts, labels, documents per query, features that add nothing, pairs of documents.

X is read in chunks of bounded size. Equal columns are found by a 64-bit fingerprint, Σ_row key(row)·mix(value) mod 2⁶⁴,
and columns with equal fingerprints are then compared value by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import display
from rankwright.data.cleaning import Cleaner, Cleaning
from rankwright.data.dataset import RankingData, stored_width
from rankwright.data.display import HATCHES, drawn, look, new_figure, write_figure
from rankwright.data.doubts import doubts_of
from rankwright.data.order import query_of_row
from rankwright.data.statistics import statistics_of
from rankwright.data.trec_table import TrecTable

__all__ = ["PairSummary", "pair_summary"]

_CHUNK_VALUES = 1 << 21


@dataclass(frozen=True)
class Spread:
    min: float
    median: float
    mean: float
    max: float


@dataclass(frozen=True)
class _Summary:
    queries: int
    documents: int
    documents_per_query: Spread

    def to_dict(self) -> dict[str, Any]:
        """The same in JSON types."""
        facts = asdict(self)
        if "labels" in facts:
            facts["labels"] = [
                {"label": int(label) if label == int(label) else label, "documents": count}
                for label, count in facts["labels"]
            ]
        for key in ("constant_features", "duplicate_features"):
            if key in facts:
                facts[key] = [list(entry) if isinstance(entry, tuple) else entry for entry in facts[key]]
        return facts


@dataclass(frozen=True)
class FeatureSummary(_Summary):
    document_ids: bool
    features: int
    kind: str
    dtype: str
    density: float
    feature_min: float
    feature_max: float
    constant_features: tuple[str, ...]
    duplicate_features: tuple[tuple[str, ...], ...]
    categorical_features: tuple[str, ...]
    labels: tuple[tuple[float, int], ...]
    queries_without_relevant: int
    queries_without_non_relevant: int
    cleaning: Cleaning
    cleaning_scaled: Cleaning | None
    missing: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class QrelsSummary(_Summary):
    labels: tuple[tuple[float, int], ...]
    queries_without_relevant: int
    queries_without_non_relevant: int


@dataclass(frozen=True)
class RunSummary(_Summary):
    score_min: float
    score_max: float
    tied_share: float


@dataclass(frozen=True)
class ScoresSummary:
    documents: int
    scores: Spread
    distinct: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarize(data: RankingData) -> FeatureSummary:
    """Summarise feature data.

    A feature is constant if all documents have the same value; features are duplicates if they agree on every
    document (constant ones are not listed again). Density is the share of values that are not 0, missing ones included,
    ``missing`` the share of those. ``warnings``: a probable leak, repeated rows. Cleaning is what
    :class:`~rankwright.Cleaner` would drop, also with scaled features unless all are between 0 and 1 or some are
    missing.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1, 5, 1], [2, 5, 2]], [0, 1], qid=[7, 7])
    >>> summary = summarize(data)
    >>> summary.constant_features, summary.duplicate_features, summary.labels
    (('f2',), (('f1', 'f3'),), ((0.0, 1), (1.0, 1)))
    """
    names = data.names
    statistics = statistics_of(data, summed=False)
    low, high, missing = statistics.low, statistics.high, statistics.missing
    filled, prints = _filled_and_prints(data)
    constant = ~statistics.varies
    numbers = ~np.isin(np.arange(data.n_features), list(data.categories)) & (low <= high)
    # Scaling to 0 … 1 changes nothing where features are there already, and needs all values.
    is_scaled = missing.any() or ((low[numbers] >= 0).all() and (high[numbers] <= 1).all())
    without_relevant, without_non_relevant = _one_sided(data.labels, data.indptr)
    return FeatureSummary(
        queries=data.n_queries,
        documents=data.n_docs,
        documents_per_query=spread_of(data.sizes),
        document_ids=data.doc_ids is not None,
        features=data.n_features,
        kind="sparse" if data.is_sparse else "dense",
        dtype=str(data.X.dtype),
        density=filled / max(1, data.n_docs * data.n_features),
        feature_min=float(low[numbers].min()) if numbers.any() else 0.0,
        feature_max=float(high[numbers].max()) if numbers.any() else 0.0,
        constant_features=tuple(names[at] for at in np.flatnonzero(constant)),
        duplicate_features=tuple(
            tuple(names[at] for at in group) for group in _duplicates(data, prints, np.flatnonzero(~constant))
        ),
        categorical_features=tuple(names[at] for at in sorted(data.categories)),
        labels=display.documents_by_label(data.labels),
        queries_without_relevant=without_relevant,
        queries_without_non_relevant=without_non_relevant,
        cleaning=Cleaner().find(data).report(),
        cleaning_scaled=None if is_scaled else Cleaner(scaled=True).find(data).report(),
        missing=float(missing.sum()) / max(1, data.n_docs * data.n_features),
        warnings=tuple(doubts_of(data)),
    )


def summarize_qrels(table: TrecTable) -> QrelsSummary:
    """Summarise judgements; labels of 0 and below are not relevant."""
    without_relevant, without_non_relevant = _one_sided(table.values, table.indptr)
    return QrelsSummary(
        queries=table.n_queries,
        documents=table.n_docs,
        documents_per_query=spread_of(np.diff(table.indptr)),
        labels=display.documents_by_label(table.values),
        queries_without_relevant=without_relevant,
        queries_without_non_relevant=without_non_relevant,
    )


def summarize_run(table: TrecTable) -> RunSummary:
    """Summarise a run; a document is tied if another one of its query has the same score."""
    query = query_of_row(table.indptr)
    order = np.lexsort((table.values, query))
    scores, query = table.values[order], query[order]
    equals_previous = (scores[1:] == scores[:-1]) & (query[1:] == query[:-1])
    tied = np.append(equals_previous, False) | np.append(False, equals_previous)
    return RunSummary(
        queries=table.n_queries,
        documents=table.n_docs,
        documents_per_query=spread_of(np.diff(table.indptr)),
        score_min=float(scores.min()),
        score_max=float(scores.max()),
        tied_share=float(tied.mean()),
    )


def summarize_scores(scores: Array) -> ScoresSummary:
    return ScoresSummary(documents=len(scores), scores=spread_of(scores), distinct=len(np.unique(scores)))


def spread_of(values: Array) -> Spread:
    """Minimum, median, mean and maximum of some values; 0 if there are none."""
    if len(values) == 0:
        return Spread(0.0, 0.0, 0.0, 0.0)
    return Spread(float(values.min()), float(np.median(values)), float(values.mean()), float(values.max()))


def _one_sided(labels: Array, indptr: Array) -> tuple[int, int]:
    """Numbers of queries without relevant and without non-relevant documents."""
    relevant = np.add.reduceat(labels > 0, indptr[:-1], dtype=np.int64) if len(indptr) > 1 else np.zeros(0)
    return int((relevant == 0).sum()), int((relevant == np.diff(indptr)).sum())


def _row_chunks(data: RankingData, width: int) -> Iterator[Any]:
    """X in blocks of rows of bounded size, at ``width`` values per row."""
    step = max(1, _CHUNK_VALUES // max(1, width))
    for start in range(0, data.n_docs, step):
        yield data.X[start : start + step]


def _filled_and_prints(data: RankingData) -> tuple[int, Array]:
    """The number of values that are not 0, and a fingerprint of each column."""
    prints = np.zeros(data.n_features, np.uint64)
    keys = np.random.default_rng(0)
    filled = 0
    for rows in _row_chunks(data, stored_width(data)):
        key = keys.integers(1, 1 << 63, size=rows.shape[0], dtype=np.uint64)
        if data.is_sparse:
            filled += int(np.count_nonzero(rows.data))
            np.add.at(prints, rows.indices, _mixed(rows.data) * np.repeat(key, np.diff(rows.indptr)))
        else:
            filled += int(np.count_nonzero(rows))
            prints += (_mixed(rows) * key[:, None]).sum(axis=0, dtype=np.uint64)
    return filled, prints


def _mixed(values: Array) -> Array:
    """Hashes of values, 64 bits each; 0 stays 0, so values that a sparse row leaves out add nothing."""
    # + 0 turns -0.0 into 0.0, which is equal but has other bits.
    bits = (values + values.dtype.type(0)).view(f"u{values.itemsize}").astype(np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(32)  # short fractions fill high bits only, which multiplying by the key would drop
    return bits


def _duplicates(data: RankingData, prints: Array, columns: Array) -> list[list[int]]:
    """Groups of equal columns: equal fingerprints, then compared by value with the first of the group."""
    by_print: dict[int, list[int]] = {}
    for at in columns.tolist():
        by_print.setdefault(int(prints[at]), []).append(at)
    groups = [members for members in by_print.values() if len(members) > 1]
    members = np.array([at for group in groups for at in group], np.int64)
    sizes = [len(group) for group in groups]
    firsts = np.repeat(np.cumsum([0, *sizes])[:-1], sizes)
    equal = np.ones(len(members), bool)
    if groups:
        for rows in _row_chunks(data, max(stored_width(data), len(members))):
            values = rows[:, members].toarray() if data.is_sparse else rows[:, members]
            equal &= (values == values[:, firsts]).all(axis=0)
    ends = np.cumsum(sizes).tolist()
    alike = [members[end - size : end][equal[end - size : end]].tolist() for end, size in zip(ends, sizes, strict=True)]
    return sorted(group for group in alike if len(group) > 1)


# Pairs of documents of one query with different labels, counted by labels and by query.
#
# Pairwise rankers learn from these, so labels and queries with many pairs dominate: Ranking SVM for IR (SIGIR'06,
# Section 4 and Figures 5 and 8) starts from this view of the data. Pairs are counted, never listed.


_MOST_LABELS = 12  # with more distinct labels, pairs are not counted by labels
_COUNTED = 1024  # labels below this are counted, not sorted
_AT_A_TIME = 1 << 16  # labels, which stay in cache
_MOST_RANGES = 12  # of equal width
_MOST_BARS = 20  # rank pairs in the plot
_MOST_PARTS = 6  # rank pairs distinguished in the plot by query
_USUAL = 0.9  # minimum share of queries in these ranges
_TOP = 0.1  # of the queries


@dataclass(frozen=True)
class RankPair:
    """Number of pairs of documents with one label above another, and of queries that have some."""

    higher: float
    lower: float
    pairs: int
    queries: int


@dataclass(frozen=True)
class PairRange:
    """Number of queries with ``low`` to ``high`` pairs."""

    low: int
    high: int
    queries: int


@dataclass(frozen=True, eq=False)
class PairSummary:
    """The pairs of a data set; made by :func:`pair_summary`.

    Attributes
    ----------
    pairs : int
        All pairs of documents of one query with different labels.
    pairs_per_query : Spread
        Minimum, median, mean and maximum over all queries.
    queries_without_pairs : int
        Queries whose labels are all equal.
    top_share : float
        Share of all pairs in the tenth of the queries (rounded up) that has most.
    rank_pairs : tuple of RankPair
        By labels, the highest first; empty if there are more than 12 distinct labels.
    ranges : tuple of PairRange
        Queries by their number of pairs: up to 12 ranges of equal width, which hold 90 % of the queries or more, and
        one for the rest.
    query_ids : ndarray
        The queries.
    of_query : ndarray
        Number of pairs of every query.
    by_query : ndarray of shape (queries, rank pairs)
        The same by labels.
    """

    pairs: int
    pairs_per_query: Spread
    queries_without_pairs: int
    top_share: float
    rank_pairs: tuple[RankPair, ...]
    ranges: tuple[PairRange, ...]
    query_ids: Array
    of_query: Array
    by_query: Array

    def to_dict(self) -> dict[str, Any]:
        """The summary in the types of JSON, without the numbers of single queries."""
        return {
            "pairs": self.pairs,
            "pairs_per_query": asdict(self.pairs_per_query),
            "queries_without_pairs": self.queries_without_pairs,
            "top_share": self.top_share,
            "rank_pairs": [asdict(pair) for pair in self.rank_pairs],
            "ranges": [asdict(pair_range) for pair_range in self.ranges],
        }

    def figure(self) -> Any:
        """The plot as a matplotlib figure: pairs by labels, queries by number of pairs, pairs of every query."""
        return drawn(lambda: _draw(self))

    def plot(self, path: str | Path) -> None:
        """Write the plot into a ``.png`` or ``.svg`` file."""
        write_figure(path, lambda: _draw(self))


def pair_summary(data: RankingData | TrecTable) -> PairSummary:
    """Count the pairs of documents of one query with different labels.

    Parameters
    ----------
    data : RankingData or TrecTable
        Feature data, or judgements, in which labels below 0 count as 0.

    Examples
    --------
    >>> data = RankingData.from_arrays([[0.0]] * 5, [2, 1, 0, 1, 1], qid=["a", "a", "a", "b", "b"])
    >>> summary = pair_summary(data)
    >>> summary.pairs, summary.of_query.tolist(), summary.rank_pairs[0]
    (3, [3, 0], RankPair(higher=2.0, lower=1.0, pairs=1, queries=1))
    """
    labels = data.labels if isinstance(data, RankingData) else np.maximum(data.values, 0.0)
    of_query = pairs_of_queries(labels, data.indptr)
    rank_pairs, by_query = _by_labels(labels, data.indptr)
    total = int(of_query.sum())
    n_top = -(-len(of_query) // round(1 / _TOP))
    return PairSummary(
        pairs=total,
        pairs_per_query=spread_of(of_query),
        queries_without_pairs=int((of_query == 0).sum()),
        top_share=float(np.sort(of_query)[::-1][:n_top].sum() / total) if total else 0.0,
        rank_pairs=rank_pairs,
        ranges=_ranges(of_query),
        query_ids=data.query_ids,
        of_query=of_query,
        by_query=by_query,
    )


def pairs_of_queries(labels: Array, indptr: Array) -> Array:
    """Number of pairs of every query: n² less the squares of the numbers of equal labels, halved."""
    query = query_of_row(indptr)
    order = np.lexsort((labels, query))
    labels, query = labels[order], query[order]
    starts = np.flatnonzero(np.append(True, (labels[1:] != labels[:-1]) | (query[1:] != query[:-1]))[: len(labels)])
    equal = np.diff(np.append(starts, len(labels)))
    squares = np.zeros(len(indptr) - 1, np.int64)
    np.add.at(squares, query[starts], equal.astype(np.int64) ** 2)
    return (np.diff(indptr).astype(np.int64) ** 2 - squares) // 2


def distinct(labels: Array) -> tuple[Array, Array]:
    """The distinct labels, lowest first, and the index of each label among them; whole numbers need no sorting.

    Examples
    --------
    >>> distinct(np.array([4.0, 0.0, 4.0]))
    (array([0., 4.]), array([1, 0, 1]))
    """
    values = whole_values(labels)
    if values is None:
        values, index = np.unique(labels, return_inverse=True)
        return values, index
    integers = labels.astype(np.int64)
    if len(values) and values[-1] >= len(values):
        places = np.zeros(int(values[-1]) + 1, np.int64)
        places[values.astype(np.int64)] = np.arange(len(values))
        integers = places[integers]
    return values, integers


def whole_values(labels: Array) -> Array | None:
    """The distinct labels, lowest first, if all are whole numbers from 0 to 1,023; some labels at a time.

    Examples
    --------
    >>> whole_values(np.array([4.0, 0.0, 4.0])), whole_values(np.array([0.5]))
    (array([0., 4.]), None)
    """
    present = np.zeros(_COUNTED, np.bool_)
    for start in range(0, len(labels), _AT_A_TIME):
        chunk = labels[start : start + _AT_A_TIME]
        if chunk.min() < 0 or chunk.max() >= _COUNTED or (chunk != np.rint(chunk)).any():
            return None
        present |= np.bincount(chunk.astype(np.int64), minlength=_COUNTED) > 0
    return np.flatnonzero(present).astype(labels.dtype)


def label_counts(labels: Array, indptr: Array) -> tuple[Array, Array]:
    """The distinct labels, lowest first, and the number of documents of each in each query."""
    values, grades = distinct(labels)
    n_queries = len(indptr) - 1
    cells = query_of_row(indptr) * len(values) + grades
    return values, np.bincount(cells, minlength=n_queries * len(values)).reshape(n_queries, len(values))


def _by_labels(labels: Array, indptr: Array) -> tuple[tuple[RankPair, ...], Array]:
    """Pairs by their two labels: in total, and per query."""
    if len(distinct(labels)[0]) > _MOST_LABELS:
        return (), np.zeros((len(indptr) - 1, 0), np.int64)
    values, counts = label_counts(labels, indptr)
    pairs = [(a, b) for a in range(len(values) - 1, 0, -1) for b in range(a - 1, -1, -1)]
    by_query = (
        np.array([counts[:, a] * counts[:, b] for a, b in pairs], np.int64).reshape(len(pairs), len(indptr) - 1).T
    )
    rank_pairs = tuple(
        RankPair(float(values[a]), float(values[b]), int(column.sum()), int((column > 0).sum()))
        for (a, b), column in zip(pairs, by_query.T, strict=True)
    )
    return rank_pairs, by_query


def _ranges(of_query: Array) -> tuple[PairRange, ...]:
    """Queries by number of pairs, in ranges 1, 2 or 5 times a power of ten wide; the last one is open."""
    largest = int(of_query.max(initial=0))
    usual = int(np.quantile(of_query, _USUAL)) if len(of_query) else 0
    width = next(
        width
        for power in range(20)
        for width in (10**power, 2 * 10**power, 5 * 10**power)
        if usual // width < _MOST_RANGES
    )
    last = min(largest // width, _MOST_RANGES)
    counts = np.bincount(np.minimum(of_query // width, last)).tolist()
    highest = [*range(width - 1, last * width, width), max(largest, (last + 1) * width - 1)]
    return tuple(PairRange(at * width, high, n) for at, (high, n) in enumerate(zip(highest, counts, strict=True)))


# The plot


def _draw(summary: PairSummary) -> Any:
    n_bars = min(_MOST_BARS, len(summary.rank_pairs))
    above = max(2.2, 0.22 * n_bars + 0.8)
    figure = new_figure(above + 2.7)
    upper, lower = list(figure.subfigures(2, 1, squeeze=False, height_ratios=[above, 2.7]).ravel())
    left, right = upper.subplots(1, 2)
    _draw_labels(left, summary)
    _draw_ranges(right, summary)
    _draw_queries(lower, summary)
    return figure


def _pair_name(pair: RankPair) -> str:
    return f"{pair.higher:g} over {pair.lower:g}"


def _draw_labels(axis: Any, summary: PairSummary) -> None:
    axis.set(title="Pairs by labels", xlabel="pairs", ylabel="labels")
    if not summary.rank_pairs:
        reason = "too many labels to count pairs by" if summary.pairs else "no pairs: all labels of a query are equal"
        axis.text(0.5, 0.5, reason, ha="center", va="center", transform=axis.transAxes)
        axis.set_axis_off()
        return
    rows = sorted(summary.rank_pairs, key=lambda pair: -pair.pairs)[:_MOST_BARS]
    rows = [pair for pair in summary.rank_pairs if pair in rows]
    places = np.arange(len(rows))[::-1]
    counts = [pair.pairs for pair in rows]
    axis.barh(places, counts, 0.7, color=look(0)["color"])
    largest = max(1, *counts)
    for place, count in zip(places, counts, strict=True):
        percent = 100 * count / max(1, summary.pairs)
        share = f"{count:,} ({f'{percent:.0f}' if percent >= 1 or not count else '<1'} %)"
        inside = count > 0.6 * largest
        axis.text(
            count + (-0.01 if inside else 0.01) * largest, place, share, va="center",
            ha="right" if inside else "left", color="white" if inside else "black",
        )  # fmt: skip
    axis.set_yticks(places, [_pair_name(pair) for pair in rows])
    axis.set_xlim(0, 1.02 * largest)
    axis.grid(False, axis="y")
    _integer_axis(axis.xaxis)


def _draw_ranges(axis: Any, summary: PairSummary) -> None:
    """The paper's Figures 5 and 8."""
    axis.set(title="Queries by number of pairs", xlabel="pairs of the query", ylabel="queries")
    counts = [span.queries for span in summary.ranges]
    bars = axis.bar(range(len(counts)), counts, 0.86, color=look(0)["color"])
    axis.bar_label(bars, [f"{count:,}" if count else "" for count in counts], padding=1)
    names = [f"{span.low:,}–{span.high:,}" if span.high > span.low else f"{span.low:,}" for span in summary.ranges]
    axis.set_xticks(range(len(counts)), names, rotation=40, ha="right", rotation_mode="anchor")
    axis.grid(False, axis="x")
    axis.margins(y=0.1)
    _integer_axis(axis.yaxis)


def _draw_queries(figure: Any, summary: PairSummary) -> None:
    """The pairs of every query, most pairs first, split by labels."""
    axis = figure.subplots()
    share = f"{100 * summary.top_share:.0f} %"
    title = f"Pairs of every query; the tenth of the queries with most pairs has {share} of all pairs"
    axis.set(title=title, xlabel="queries, the one with most pairs first", ylabel="pairs")
    order = np.argsort(-summary.of_query, kind="stable")
    n_queries = len(order)
    split = 0 < len(summary.rank_pairs) <= _MOST_PARTS
    layers = summary.by_query[order].T if split else summary.of_query[order][None]
    edges = np.arange(n_queries + 1)
    bottom = np.zeros(n_queries, np.int64)
    for number, layer in enumerate(layers):
        top = bottom + layer
        label = f"labels {_pair_name(summary.rank_pairs[number])}" if split else None
        axis.stairs(
            top, edges, baseline=bottom, fill=True, facecolor=look(number)["color"], alpha=0.75,
            hatch=HATCHES[number], edgecolor="0.15", lw=0.0, label=label,
        )  # fmt: skip
        bottom = top
    axis.set_xlim(0, max(1, n_queries))
    axis.set_ylim(bottom=0)
    axis.grid(False, axis="x")
    _integer_axis(axis.xaxis)
    _integer_axis(axis.yaxis)
    if split:
        bars, names = axis.get_legend_handles_labels()
        figure.legend(bars, names, loc="outside lower center", ncols=min(6, len(names)), frameon=False)


def _integer_axis(axis: Any) -> None:
    """Format an axis with integers, thousands separated by commas."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
