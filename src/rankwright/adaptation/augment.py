"""Neighbour augmentation: background documents that resemble in-domain ones and are labelled like them.

S1 consists of the in-domain queries whose labels have the lowest entropy, the least noisy ones. A background document
is taken, in its own query, if its three nearest neighbours in S1 by cosine are all within a small distance and one of
them has exactly its label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.rankers.inputs import check_size

__all__ = ["Augmentation", "augment"]

_BLOCK = 4096  # background rows at a time
_SEEDS = 2048  # in-domain rows at a time
_DOUBT = 1e-4  # more than the error of a cosine in single precision


@dataclass(frozen=True, eq=False)
class Augmentation:
    """The background documents taken.

    Attributes
    ----------
    data : RankingData
        The documents taken, in their own queries; may be empty.
    rows : ndarray
        Their rows in the background data.
    seeds : ndarray
        The in-domain queries that make up S1.
    distance : float
        The largest cosine distance allowed.
    taken : dict
        Number of documents taken from each background query.
    by_label : dict
        For every label: documents taken, and documents in total.
    """

    data: RankingData
    rows: Array
    seeds: Array
    distance: float
    taken: dict[str, int]
    by_label: dict[float, tuple[int, int]]

    def __str__(self) -> str:
        total = sum(there for _, there in self.by_label.values())
        labels = ", ".join(f"{label:g}: {taken:,} of {there:,}" for label, (taken, there) in self.by_label.items())
        sizes = f"{len(self.rows):,} of {total:,} documents from {len(self.taken):,} queries"
        return f"{sizes} (cosine distance up to {self.distance:.4g} to {len(self.seeds):,} queries); by label: {labels}"


def label_entropy(data: RankingData) -> Array:
    """Entropy of the labels of each query, in bits; 0 if all its documents have the same label."""
    grades, number = np.unique(data.labels, return_inverse=True)
    counts = np.zeros((data.n_queries, len(grades)))
    np.add.at(counts, (data.query_of_row(), number), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1) + 0.0)


def augment(
    background: RankingData,
    in_domain: RankingData,
    *,
    share: float = 0.5,
    neighbours: int = 3,
    distance: float | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> Augmentation:
    """Take the background documents that resemble documents of the new domain.

    Parameters
    ----------
    background, in_domain : RankingData
        With the same features. Both are first standardised by the means and deviations of the in-domain data;
        otherwise the scales of raw features would dominate the cosine.
    share : float
        Share of the in-domain queries in S1: those with the lowest label entropy. Queries whose labels are all equal
        distinguish nothing and come last.
    neighbours : int
        Number of neighbours that must be near.
    distance : float, optional
        Largest cosine distance, 1 − cosine. By default the median distance of the documents of S1 to their own
        ``neighbours``-th neighbour in S1.
    progress : callable, optional
        Called with (rows done, rows in total).
    """
    if not 0 < share <= 1:
        raise InputError(f"share is {share!r}; expected a number above 0 and up to 1")
    if neighbours < 1:
        raise InputError(f"neighbours is {neighbours!r}; expected a whole number from 1")
    if distance is not None and not 0 <= distance <= 2:
        raise InputError(f"distance is {distance!r}; expected a cosine distance from 0 to 2")
    if background.n_features != in_domain.n_features:
        problem = f"background data of {background.n_features:,} features, in-domain data of {in_domain.n_features:,}"
        raise InputError(f"{problem}; expected the same features")
    in_domain.check_numbers("augment", "adapt in another way")
    entropy = label_entropy(in_domain)
    by_noise = np.argsort(np.where(entropy > 0, entropy, np.inf), kind="stable")
    seeds = np.sort(by_noise[: max(1, round(share * in_domain.n_queries))])
    chosen = in_domain.select(seeds)
    if chosen.n_docs <= neighbours:
        raise InputError(f"{chosen.n_docs} in-domain documents to compare with; expected more than {neighbours}")
    mean, scale = _moments(in_domain)
    points = _directions(chosen.X, mean, scale)
    if distance is None:
        blocks = [points[start : start + _BLOCK] for start in range(0, len(points), _BLOCK)]
        cosines = np.concatenate([_nearest(block, points, neighbours + 1)[0][:, -1] for block in blocks])
        distance = float(np.median(1.0 - cosines))
    rows = [np.empty(0, np.int64)]
    for start in range(0, background.n_docs, _BLOCK):
        some = slice(start, min(start + _BLOCK, background.n_docs))
        block = _directions(background.X[some], mean, scale)
        possible = np.flatnonzero(_count_near(block, points, 1.0 - distance - _DOUBT) >= neighbours)
        similar, which = _nearest(block[possible], points, neighbours)
        near = similar[:, -1] >= 1.0 - distance
        same = (chosen.labels[which] == background.labels[some][possible, None]).any(axis=1)
        rows.append(start + possible[near & same])
        if progress is not None:
            progress(some.stop, background.n_docs)
    return _taken(background, in_domain, np.concatenate(rows), seeds, distance)


def _moments(data: RankingData) -> tuple[Array, Array]:
    check_size(data, "the data", scaled=False)
    X = _dense(data.X)
    scale = X.std(axis=0)
    return X.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _dense(X: Array) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)


def _directions(X: Array, mean: Array, scale: Array) -> Array:
    """Standardised rows of length 1; a row at the mean stays 0 and is near to nothing."""
    standard = (_dense(X) - mean) / scale
    length = np.sqrt((standard**2).sum(axis=1, keepdims=True))
    return np.asarray(standard / np.where(length > 0, length, 1.0))


def _count_near(block: Array, points: Array, need: float) -> Array:
    """How many points have a cosine of at least ``need`` with every row, in single precision."""
    rows, candidates = block.astype(np.float32), points.astype(np.float32)
    counts = np.zeros(len(block), np.int64)
    for start in range(0, len(points), _SEEDS):
        counts += np.count_nonzero(rows @ candidates[start : start + _SEEDS].T >= np.float32(need), axis=1)
    return counts


def _nearest(block: Array, points: Array, count: int) -> tuple[Array, Array]:
    """The ``count`` largest cosines of every row, descending, and which points have them.

    Single precision finds a few more than asked for; these are computed again in double, so that neither the order of
    sums nor the number of threads decides.
    """
    extra = min(count + 5, len(points))
    rows, candidates = block.astype(np.float32), points.astype(np.float32)
    best = np.full((len(block), extra), -np.inf, np.float32)
    which = np.zeros((len(block), extra), np.int64)
    for start in range(0, len(points), _SEEDS):
        cosines = rows @ candidates[start : start + _SEEDS].T
        keep = min(extra, cosines.shape[1])
        top = np.argpartition(-cosines, keep - 1, axis=1)[:, :keep]
        both = np.concatenate([best, np.take_along_axis(cosines, top, axis=1)], axis=1)
        places = np.concatenate([which, top + start], axis=1)
        order = np.argpartition(-both, extra - 1, axis=1)[:, :extra]
        best, which = np.take_along_axis(both, order, axis=1), np.take_along_axis(places, order, axis=1)
    exact = np.einsum("ij,ikj->ik", block, points[which])
    order = np.lexsort((which, -exact), axis=1)[:, :count]
    return np.take_along_axis(exact, order, axis=1), np.take_along_axis(which, order, axis=1)


def _taken(background: RankingData, in_domain: RankingData, rows: Array, seeds: Array, distance: float) -> Augmentation:
    query = background.query_of_row()
    ids = background.query_ids.astype(str)
    if set(ids) & set(in_domain.query_ids.astype(str)):
        ids = np.char.add("background-", ids)
    numbers, counts = np.unique(query[rows], return_counts=True)
    by_label = {
        float(label): (int((background.labels[rows] == label).sum()), int((background.labels == label).sum()))
        for label in np.unique(background.labels)
    }
    doc_ids = None if background.doc_ids is None else background.doc_ids[rows]
    data = RankingData.from_arrays(
        background.X[rows], background.labels[rows], ids[query[rows]], doc_ids=doc_ids,
        feature_names=background.feature_names,
    )  # fmt: skip
    taken = {str(ids[number]): int(count) for number, count in zip(numbers, counts, strict=True)}
    return Augmentation(data, rows, seeds, distance, taken, by_label)
