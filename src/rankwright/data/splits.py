"""Splits by query: k folds, random shares, balanced trials, LETOR's folds.

All documents of a query go to the same side. Queries are taken in order of first appearance and drawn with the
splitter's own seed: the same seed and the same order of queries give the same split, whatever the rows contain. The
splitters follow scikit-learn's protocol and work as ``cv=`` in its searches.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence, Sized
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.order import as_ids, gather_queries, query_of_row
from rankwright.errors import InputError

__all__ = ["QueryKFold", "QueryShuffleSplit", "QuerySplit", "QueryTrials", "letor_folds"]

_TRAIN, _VALID, _TEST, _UNUSED = range(4)
_TRADE_ROUNDS = 20  # each trial trades once a round; a few rounds randomise the regular start


@dataclass(frozen=True, eq=False)
class QuerySplit:
    """The queries for training, validation and testing, as ascending positions in ``query_ids``.

    Attributes
    ----------
    train, valid, test : ndarray of int
        Query positions; ``valid`` may be empty.
    """

    train: Array
    valid: Array
    test: Array

    def apply(self, data: RankingData) -> tuple[RankingData, RankingData | None, RankingData]:
        """The training, validation (None if there is none) and test part of a data set."""
        valid = data.select(self.valid) if len(self.valid) else None
        return data.select(self.train), valid, data.select(self.test)


class _QuerySplitter:
    """scikit-learn's splitter protocol on top of :meth:`split_queries`."""

    n_splits: int

    def split_queries(self, queries: int | Sized | RankingData) -> Iterator[QuerySplit]:
        """Split queries into training, validation and test.

        `queries`: the number of queries, or the queries themselves; only their number matters. Yields `QuerySplit`:
        positions of queries.
        """
        raise NotImplementedError

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, qid: Any = None) -> int:
        """Number of splits; the arguments are ignored."""
        return self.n_splits

    def split(
        self, X: Any = None, y: Array | None = None, groups: Any = None, *, qid: Any = None
    ) -> Iterator[tuple[Array, Array]]:
        """Split rows into training and test sets of whole queries; validation queries are in neither.

        `X`: of an array only the number of rows is used; a RankingData brings its queries, and so does a data frame
        with a column ``qid`` (``query_id``, …). `y`: ignored. `groups`, `qid`: query id per row, under scikit-learn's
        name or ours; not with a RankingData. Yields `train`, `test`: the caller's row numbers
        (:attr:`RankingData.rows`), ascending.
        """
        query, n_queries = _query_of_given_row(X, groups, qid)
        for split in self.split_queries(n_queries):
            role = np.full(n_queries, _UNUSED)
            role[split.train], role[split.test] = _TRAIN, _TEST
            role_of_row = role[query]
            yield np.flatnonzero(role_of_row == _TRAIN), np.flatnonzero(role_of_row == _TEST)

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's metadata routing that ``split`` needs ``qid``."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        request.split.add_request(param="qid", alias=True)
        return request


@dataclass(frozen=True)
class QueryKFold(_QuerySplitter):
    """Cut the queries into parts of (nearly) equal size; each part is the test set once.

    Parameters
    ----------
    n_splits : int
        Number of parts.
    shuffle : bool
        Draw the parts at random; otherwise they are consecutive queries in order of appearance.
    valid_folds : int
        Number of parts after the test part (cyclically) that are used for validation instead of training.
    random_state : int
        Random seed.

    Examples
    --------
    >>> qid = ["a", "b", "c", "a", "b"]
    >>> for train, test in QueryKFold(3, shuffle=False).split(qid=qid):
    ...     print(train, test)
    [1 2 4] [0 3]
    [0 2 3] [1 4]
    [0 1 3 4] [2]
    """

    n_splits: int = 5
    _: KW_ONLY
    shuffle: bool = True
    valid_folds: int = 0
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.n_splits < 2:
            raise InputError(f"n_splits is {self.n_splits}; expected at least 2")
        if not 0 <= self.valid_folds <= self.n_splits - 2:
            raise InputError(f"valid_folds is {self.valid_folds}; expected 0 to n_splits − 2 = {self.n_splits - 2}")

    def split_queries(self, queries: int | Sized | RankingData) -> Iterator[QuerySplit]:
        """For each part: test on it, validate on the next ``valid_folds``, train on the rest."""
        n_queries = _count(queries)
        if n_queries < self.n_splits:
            raise InputError(f"{self.n_splits} folds need at least {self.n_splits} queries; there are {n_queries}")
        drawn = (
            np.random.default_rng(self.random_state).permutation(n_queries) if self.shuffle else np.arange(n_queries)
        )
        folds = np.array_split(drawn, self.n_splits)
        for k in range(self.n_splits):
            turned = folds[k:] + folds[:k]
            n_held = 1 + self.valid_folds
            yield QuerySplit(_joined(turned[n_held:]), _joined(turned[1:n_held]), np.sort(turned[0]))


@dataclass(frozen=True)
class QueryShuffleSplit(_QuerySplitter):
    """Draw test queries at random, repeatedly; the other queries are for training.

    Parameters
    ----------
    n_splits : int
        Number of draws.
    test_size : float or int
        A float is the share of the queries, rounded, at least one query; an int is their number.
    random_state : int
        Random seed.

    Examples
    --------
    >>> [len(test) for train, test in QueryShuffleSplit(3, test_size=0.5).split(qid=[1, 2, 3, 4])]
    [2, 2, 2]
    """

    n_splits: int = 10
    _: KW_ONLY
    test_size: float = 0.2
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.n_splits < 1:
            raise InputError(f"n_splits is {self.n_splits}; expected at least 1")
        share = isinstance(self.test_size, float)
        if not (0 < self.test_size < 1 if share else self.test_size >= 1):
            raise InputError(f"test_size is {self.test_size}; expected a share between 0 and 1, or a number of queries")

    def split_queries(self, queries: int | Sized | RankingData) -> Iterator[QuerySplit]:
        """Draw the test queries of each split, without a validation part."""
        n_queries = _count(queries)
        n_test = self.test_size
        if isinstance(n_test, float):
            n_test = max(1, round(n_test * n_queries))
        if n_test >= n_queries:
            raise InputError(f"{n_test} of {n_queries} queries for testing leave none to train on")
        rng = np.random.default_rng(self.random_state)
        for _ in range(self.n_splits):
            drawn = rng.permutation(n_queries)
            yield QuerySplit(np.sort(drawn[n_test:]), drawn[:0], np.sort(drawn[:n_test]))


@dataclass(frozen=True)
class QueryTrials(_QuerySplitter):
    """Random trials in which every query plays each role equally often (the design of SIGIR'07).

    For each role, the numbers of trials in which any two queries play it differ by at most one. Otherwise the trials
    are random; with very few queries some may be equal. If there are more queries than a trial needs, they take turns
    sitting out.

    Parameters
    ----------
    n_trials : int
        Number of trials.
    train, valid, test : int
        Queries per trial in each role; ``valid`` may be 0.
    random_state : int
        Random seed.

    Examples
    --------
    >>> trials = list(QueryTrials().split_queries(50))
    >>> len(trials), len(trials[0].train), len(trials[0].valid), len(trials[0].test)
    (50, 10, 5, 35)
    >>> set(np.bincount(np.concatenate([trial.train for trial in trials])).tolist())
    {10}
    """

    n_trials: int = 50
    _: KW_ONLY
    train: int = 10
    valid: int = 5
    test: int = 35
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, minimum in (("n_trials", 1), ("train", 1), ("valid", 0), ("test", 1)):
            if getattr(self, name) < minimum:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least {minimum}")

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, qid: Any = None) -> int:
        return self.n_trials

    def split_queries(self, queries: int | Sized | RankingData) -> Iterator[QuerySplit]:
        """Draw all trials together, then yield them one by one."""
        n_queries = _count(queries)
        needed = self.train + self.valid + self.test
        if n_queries < needed:
            roles_text = f"{self.train} + {self.valid} + {self.test}"
            raise InputError(f"a trial needs {needed} queries ({roles_text}); there are {n_queries}")
        rng = np.random.default_rng(self.random_state)
        sizes = (self.train, self.valid, self.test, n_queries - needed)
        roles = _balanced_roles(self.n_trials, sizes, rng)
        for _ in range(_TRADE_ROUNDS):
            pairs = rng.permutation(self.n_trials)
            for first, second in zip(pairs[::2], pairs[1::2], strict=False):
                _trade(roles[first], roles[second], rng)
        for role in roles:
            yield QuerySplit(*(np.flatnonzero(role == chosen) for chosen in (_TRAIN, _VALID, _TEST)))


def _balanced_roles(n_trials: int, sizes: Sequence[int], rng: np.random.Generator) -> Array:
    """Roles of all queries (columns) in all trials (rows), balanced but regular.

    The queries form a circle, the roles are arcs of it, and trial t turns them by ⌊t n / T⌋. An arc of a queries
    starts at, or less than a before, a given query in ⌊a T / n⌋ or ⌈a T / n⌉ trials: a window on evenly spread turns.
    """
    n_queries = sum(sizes)
    turns = rng.permutation(np.arange(n_trials) * n_queries // n_trials)
    circle = rng.permutation(n_queries)
    return np.repeat(np.arange(4), sizes)[(circle - turns[:, None]) % n_queries]


def _trade(a: Array, b: Array, rng: np.random.Generator) -> None:
    """Re-deal, in place, the queries whose roles in two trials are the same up to their order.

    Each query keeps its pair of roles and each trial its number of queries per role, so all counts stay.
    """
    for first, second in combinations(range(4), 2):
        crossed = (a == first) & (b == second) | (a == second) & (b == first)
        dealt = rng.permutation(a[crossed])
        a[crossed], b[crossed] = dealt, first + second - dealt


def letor_folds(parts: Sequence[RankingData]) -> Iterator[tuple[RankingData, RankingData, RankingData]]:
    """LETOR's folds: each rotation of the parts, the last two for validation and testing.

    Parameters
    ----------
    parts : sequence of RankingData
        At least three disjoint sets of queries, S1 to S5 in LETOR.

    Yields
    ------
    train, valid, test : RankingData
        With five parts, fold 1 trains on S1, S2, S3, validates on S4 and tests on S5; fold 2 starts with S2.

    Examples
    --------
    >>> parts = [RankingData.from_arrays([[0.0]], [1], qid=[q]) for q in "abcde"]
    >>> for train, valid, test in letor_folds(parts):
    ...     print(*train.query_ids, "|", *valid.query_ids, "|", *test.query_ids)
    a b c | d | e
    b c d | e | a
    c d e | a | b
    d e a | b | c
    e a b | c | d
    """
    if len(parts) < 3:
        raise InputError(f"folds need at least 3 parts (train, validation, test); got {len(parts)}")
    home: dict[Any, int] = {}
    for number, part in enumerate(parts, 1):
        for query in part.query_ids.tolist():
            if home.setdefault(query, number) != number:
                raise InputError(f"query {query} is in parts {home[query]} and {number}; expected disjoint parts")
    for k in range(len(parts)):
        *train, valid, test = [*parts[k:], *parts[:k]]
        yield RankingData.concatenate(train), valid, test


def _query_of_given_row(X: Any, groups: Any, qid: Any) -> tuple[Array, int]:
    """The query index of every row in the caller's order, and the number of queries."""
    if isinstance(X, RankingData):
        if qid is not None or groups is not None:
            raise InputError("a RankingData has its queries; leave out qid and groups")
        return X.to_caller_order(X.query_of_row()), X.n_queries
    if qid is not None and groups is not None:
        raise InputError("give the query id of every row, as either qid or groups")
    # By name: files and frames are a layer above data.
    split_qid = importlib.import_module("rankwright.io.frames").split_qid
    X, given = split_qid(X, groups if qid is None else qid)
    if given is None:
        raise InputError("give the query id of every row, as either qid or groups, or as a column qid of a data frame")
    ids = as_ids(given)
    rows, indptr, query_ids = gather_queries(ids)
    if X is not None:
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != len(ids):
            raise InputError(f"{n_rows} rows but {len(ids)} query ids")
    query = query_of_row(indptr)
    if rows is not None:
        query[rows] = query.copy()
    return query, len(query_ids)


def _count(queries: int | Sized | RankingData) -> int:
    if isinstance(queries, RankingData):
        return queries.n_queries
    return len(queries) if isinstance(queries, Sized) else int(queries)


def _joined(parts: Sequence[Array]) -> Array:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
