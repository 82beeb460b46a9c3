"""Hashes that take the place of positions, so that no result depends on the order of the rows.

The content of a document gives its place among others; a salt and a key give what the nodes of a tree draw.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import adjacent
from rankwright.data.order import query_chunks, query_of_row
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team

# What the nodes of a tree draw: rows and features, by hashes of a salt.
#
# A node's salt is made from its parent's, and a row is drawn by its key and the salt. So the order of nodes and rows
# does not matter, nor where they are: in one place, in partitions, or on a GPU.


STEP = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def mixed(value: Any) -> Any:
    """An integer whose every bit depends on all bits of another one: the last steps of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def child_salt(salt: int, is_right: bool) -> Any:
    return mixed(salt + (STEP if is_right else np.uint64(1)))


@njit(cache=True, nogil=True)
def is_drawn(key: int, salt: int, share: float) -> bool:
    """Whether a node draws a row; it does with the probability ``share``."""
    return float(mixed(key ^ salt) >> np.uint64(11)) * 2.0**-53 < share


@njit(cache=True, nogil=True)
def of_feature(place: int, salt: int) -> Any:
    """What a node draws features by, which have places among those that vary: it takes the least of these numbers."""
    return mixed(~salt + np.uint64(place) * STEP)


def child_salts(salt: int, share: float) -> tuple[int, int]:
    """The salts of both children; 0 where nothing is drawn."""
    if share >= 1.0:
        return 0, 0
    left, right = (child_salt(np.uint64(salt), is_right) for is_right in (False, True))
    return int(left), int(right)


def salts_of(seed: int, number: int) -> tuple[int, int]:
    """What rows of a tree are drawn by, and the salt of its root."""
    tree, root = np.random.SeedSequence([seed, number]).generate_state(2, np.uint64).tolist()
    return tree, root


def drawn(keys: Array, salt: int, share: float) -> Array:
    """Whether a node draws the rows with these keys.

    Examples
    --------
    >>> bool(0.65 < drawn(np.arange(10_000), 5, 0.7).mean() < 0.75)
    True
    """
    mask = np.empty(len(keys), np.bool_)
    _draw(keys, np.uint64(salt), share, mask)
    return mask


@njit(cache=True, nogil=True)
def _draw(keys: Array, salt: int, share: float, mask: Array) -> None:
    for k in range(keys.size):
        mask[k] = is_drawn(np.uint64(keys[k]), salt, share)


@njit(cache=True, nogil=True)
def _number(places: Array, salt: int, numbers: Array) -> None:
    for k in range(places.size):
        numbers[k] = of_feature(places[k], salt)


def n_drawn(n_features: int, share: float) -> int:
    return min(max(1, round(share * n_features)), n_features)


def tree_features(varies: Array, share: float, rng: np.random.Generator) -> Array:
    """The features that a tree may use: a share of those that vary, or all of these; masks.

    Examples
    --------
    >>> int(tree_features(np.arange(12) > 1, 0.5, np.random.default_rng(0)).sum())
    5
    """
    features = varies.copy()
    if share < 1.0 and features.any():
        varying = np.flatnonzero(features)
        features[:] = False
        features[rng.choice(varying, n_drawn(len(varying), share), replace=False)] = True
    return features


def draw_features(features: Array, varies: Array, salt: int, share: float) -> Array:
    """The features that a node draws of those that its tree may use and that vary; all are masks.

    Examples
    --------
    >>> int(draw_features(np.ones(12, bool), np.arange(12) > 1, 5, 0.7).sum())
    7
    """
    places = np.flatnonzero(features & varies)
    numbers = np.empty(len(places), np.uint64)
    _number((np.cumsum(varies) - 1)[places], np.uint64(salt), numbers)
    allowed = np.zeros(len(features), np.bool_)
    allowed[places[np.argsort(numbers, kind="stable")[: n_drawn(len(places), share)]]] = True
    return allowed


# An order of documents and queries that depends on their content, not on the order in which they were given.
#
# Draws of rows and updates query by query need an order of the data that is the same however its rows and queries were
# shuffled, or the same data would not give the same model. It comes from a hash of the label and the features that are
# not 0, so dense and sparse data agree; features that do not vary are left out. Missing values are hashed, too.


_VALUES = 1 << 18  # converted to float64 at a time
_SORTED = 1 << 16  # documents that are sorted at a time
_ZEROS = (np.uint64(0), np.uint64(1 << 63))  # the bits of 0 and −0


def content_order(
    X: Features,
    labels: Array,
    indptr: Array,
    weights: Array | None = None,
    threads: int = 1,
    starts: Array | None = None,
) -> tuple[Array, Array]:
    """The documents in order, query after query, and the queries in order.

    `X`: features. `labels`, `indptr`: labels and query boundaries. `weights`: weights of the queries, which decide
    between queries of equal content. `threads`: the result does not depend on it. `starts`: the row of X at which each
    query starts, if that is not its boundary.
    """
    docs, _, sums = content_keys(X, labels, indptr, threads, starts=starts)
    return docs, np.lexsort((sums,) if weights is None else (weights, sums))


def content_keys(
    X: Features,
    labels: Array,
    indptr: Array,
    threads: int = 1,
    varies: Array | None = None,
    starts: Array | None = None,
) -> tuple[Array, Array, Array]:
    """The documents in order, query after query, a hash of each, and one of every query.

    ``varies`` are the features that count; by default those that vary. ``starts``: as for :func:`content_order`.
    """
    with closing(Team(threads)) as team:
        runs = adjacent(indptr[:-1] if starts is None else starts, np.diff(indptr))
        keys = _row_keys(X, labels, runs, team, varies)

        def sort(first: int, stop: int) -> Array:
            bounds_here = indptr[first : stop + 1] - indptr[first]
            return np.lexsort((keys[indptr[first] : indptr[stop]], query_of_row(bounds_here))) + indptr[first]

        docs = np.concatenate(team.each(sort, query_chunks(indptr, _SORTED)) or [np.empty(0, np.int64)])
    sums = np.zeros(len(indptr) - 1, np.uint64)
    used = np.diff(indptr) > 0
    sums[used] = np.add.reduceat(keys, indptr[:-1][used])
    return docs, keys, sums


def _row_keys(X: Features, labels: Array, runs: tuple[Array, Array], team: Team, varies: Array | None) -> Array:
    """A hash of every document and its label; ``runs``: starts and stops of their rows."""
    keys = np.zeros(len(labels), np.uint64)
    if varies is None:
        varies = Statistics.of_rows(X, *runs, team, summed=False).varies
    numbers = np.where(varies, np.cumsum(varies), 0).astype(np.uint64)  # of those that vary, from 1
    if sparse.issparse(X):
        for start, stop, own_keys in _shares(*runs, X.shape[0], keys):
            for first, last in query_chunks(X.indptr[start : stop + 1], _VALUES):
                bounds = X.indptr[start + first : start + last + 1]
                values = slice(bounds[0], bounds[-1])
                part = X.data[values].astype(np.float64).view(np.uint64)
                _add_stored(part, X.indices[values], bounds, numbers, own_keys[first:last])
    else:

        def add(start: int, stop: int, own_keys: Array) -> None:
            _add_dense(X[start:stop].astype(np.float64).view(np.uint64), numbers, own_keys)

        step = max(1, _VALUES // max(1, X.shape[1]))
        team.each(add, _shares(*runs, step, keys))
    for start in range(0, len(labels), _VALUES):
        _finish((labels[start : start + _VALUES] + 0.0).view(np.uint64), keys[start : start + _VALUES])
    return keys


def _shares(starts: Array, stops: Array, step: int, keys: Array) -> list[tuple[int, int, Array]]:
    """Up to ``step`` adjacent rows at a time, with their part of the keys."""
    shares, place = [], 0
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        for first in range(start, stop, step):
            last = min(first + step, stop)
            shares.append((first, last, keys[place : place + last - first]))
            place += last - first
    return shares


@njit(cache=True, nogil=True)
def _add_dense(values: Array, numbers: Array, keys: Array) -> None:
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            if numbers[column] and value != _ZEROS[0] and value != _ZEROS[1]:
                keys[row] += mixed(value + numbers[column] * STEP)


@njit(cache=True)
def _add_stored(values: Array, columns: Array, rows: Array, numbers: Array, keys: Array) -> None:
    for row in range(keys.size):
        for at in range(rows[row], rows[row + 1]):
            value, number = values[at - rows[0]], numbers[columns[at - rows[0]]]
            if number and value != _ZEROS[0] and value != _ZEROS[1]:
                keys[row] += mixed(value + number * STEP)


@njit(cache=True)
def _finish(labels: Array, keys: Array) -> None:
    for row in range(keys.size):
        keys[row] = mixed(keys[row] + labels[row] * STEP)
