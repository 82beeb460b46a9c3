"""Summaries of files: counts, labels, documents per query, and features that add nothing.

X is read in chunks of bounded size. Equal columns are found by a 64-bit fingerprint, Σ_row key(row)·mix(value) mod 2⁶⁴,
and columns with equal fingerprints are then compared value by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.cleaning import Cleaner, Cleaning
from rankwright.data.dataset import RankingData
from rankwright.data.order import query_of_row
from rankwright.data.statistics import statistics_of

if TYPE_CHECKING:
    from rankwright.data.trec_table import TrecTable

_CHUNK_VALUES = 1 << 21


@dataclass(frozen=True)
class Spread:
    min: float
    median: float
    mean: float
    max: float


class _Summary:
    def to_dict(self) -> dict[str, Any]:
        """The same in JSON types."""
        return _plain(self)


@dataclass(frozen=True)
class FeatureSummary(_Summary):
    """Summary of feature data; see :func:`summarize`."""

    queries: int
    documents: int
    documents_per_query: Spread
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


@dataclass(frozen=True)
class QrelsSummary(_Summary):
    """Summary of judgements; see :func:`summarize_qrels`."""

    queries: int
    documents: int
    documents_per_query: Spread
    labels: tuple[tuple[float, int], ...]
    queries_without_relevant: int
    queries_without_non_relevant: int


@dataclass(frozen=True)
class RunSummary(_Summary):
    """Summary of a run; see :func:`summarize_run`."""

    queries: int
    documents: int
    documents_per_query: Spread
    score_min: float
    score_max: float
    tied_share: float


@dataclass(frozen=True)
class ScoresSummary(_Summary):
    """Summary of scores; see :func:`summarize_scores`."""

    documents: int
    scores: Spread
    distinct: int


def summarize(data: RankingData) -> FeatureSummary:
    """Summarise feature data.

    A feature is constant if all documents have the same value; features are duplicates if they agree on every
    document (constant ones are not listed again). Density is the share of values that are not 0, missing ones included,
    ``missing`` the share of those. Cleaning is what :class:`~rankwright.Cleaner` would drop, also with scaled features
    unless all are between 0 and 1 or some are missing.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1, 5, 1], [2, 5, 2]], [0, 1], qid=[7, 7])
    >>> found = summarize(data)
    >>> found.constant_features, found.duplicate_features, found.labels
    (('f2',), (('f1', 'f3'),), ((0.0, 1), (1.0, 1)))
    """
    names = data.names
    statistics = statistics_of(data, summed=False)
    low, high, missing = statistics.low, statistics.high, statistics.missing
    filled, prints = _filled_and_prints(data)
    constant = ~statistics.varies
    numbers = ~np.isin(np.arange(data.n_features), list(data.categories)) & (low <= high)
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
        labels=_counts(data.labels),
        queries_without_relevant=without_relevant,
        queries_without_non_relevant=without_non_relevant,
        cleaning=Cleaner().find(data).report(),
        cleaning_scaled=None if missing.any() else _cleaning_scaled(data, low[numbers], high[numbers]),
        missing=float(missing.sum()) / max(1, data.n_docs * data.n_features),
    )


def _cleaning_scaled(data: RankingData, low: Array, high: Array) -> Cleaning | None:
    """Cleaning of min–max-scaled features; None if all are in 0 … 1 already, or some values are missing."""
    if np.isnan(low).any() or ((low >= 0).all() and (high <= 1).all()):
        return None
    return Cleaner(scaled=True).find(data).report()


def summarize_qrels(table: TrecTable) -> QrelsSummary:
    """Summarise judgements; labels of 0 and below are not relevant."""
    without_relevant, without_non_relevant = _one_sided(table.values, table.indptr)
    return QrelsSummary(
        queries=table.n_queries,
        documents=table.n_docs,
        documents_per_query=spread_of(np.diff(table.indptr)),
        labels=_counts(table.values),
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


def _counts(labels: Array) -> tuple[tuple[float, int], ...]:
    values, counts = np.unique(labels, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))


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
    for rows in _row_chunks(data, _stored_width(data)):
        key = keys.integers(1, 1 << 63, size=rows.shape[0], dtype=np.uint64)
        if data.is_sparse:
            filled += int(np.count_nonzero(rows.data))
            np.add.at(prints, rows.indices, _mixed(rows.data) * np.repeat(key, np.diff(rows.indptr)))
        else:
            filled += int(np.count_nonzero(rows))
            prints += (_mixed(rows) * key[:, None]).sum(axis=0, dtype=np.uint64)
    return filled, prints


def _stored_width(data: RankingData) -> int:
    return -(-data.X.nnz // max(1, data.n_docs)) if data.is_sparse else data.n_features


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
        for rows in _row_chunks(data, max(_stored_width(data), len(members))):
            values = rows[:, members].toarray() if data.is_sparse else rows[:, members]
            equal &= (values == values[:, firsts]).all(axis=0)
    ends = np.cumsum(sizes).tolist()
    alike = [members[end - size : end][equal[end - size : end]].tolist() for end, size in zip(ends, sizes, strict=True)]
    return sorted(group for group in alike if len(group) > 1)


def _plain(summary: Any) -> dict[str, Any]:
    facts = asdict(summary)
    if "labels" in facts:
        facts["labels"] = [
            {"label": int(label) if label == int(label) else label, "documents": count}
            for label, count in facts["labels"]
        ]
    for key in ("constant_features", "duplicate_features"):
        if key in facts:
            facts[key] = [list(entry) if isinstance(entry, tuple) else entry for entry in facts[key]]
    return facts
