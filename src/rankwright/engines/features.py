"""A data set whose features are in parts: labels, queries and ids are here, features stay where the parts are.

The result is a `RankingData` like any other, but for its ``X``, which knows rows only by the part that holds them. What
is computed with features is computed by crews (`rankwright.engines.fleet`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import join_ids, sizes_to_indptr
from rankwright.data.dataset import RankingData
from rankwright.data.parts import batches, feature_bytes, some_queries, stored
from rankwright.engines.fleet import Crew, Fleet
from rankwright.errors import InputError

__all__ = ["PartedFeatures", "Share", "gather_parts", "is_parted"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Share:
    """The queries of a selection that are in one part.

    Attributes
    ----------
    chosen : ndarray
        Which queries of the selection these are, ascending.
    local : ndarray
        The same as numbers within the part.
    """

    chosen: Array
    local: Array


class FeaturesApart(InputError, AttributeError):
    """Raised where features in parts are used like an array; an attribute that they lack, to those who ask for it."""


class PartedFeatures:
    """The features of documents in parts.

    Attributes
    ----------
    fleet : Fleet
        The parts.
    starts : ndarray
        The row at which each query starts, in the order of the parts.
    query_bounds : ndarray
        The queries of every part: ``query_bounds[p]:query_bounds[p + 1]``.
    shape, dtype, nbytes
        Of all features together, as if they were one array.
    """

    ndim = 2

    def __init__(
        self,
        fleet: Fleet,
        indptr: Array,
        query_bounds: Array,
        n_features: int,
        dtype: Any,
        nbytes: int,
        joining: str = "rankwright convert FOLDER -o JOINED.rank",
    ) -> None:
        self.fleet, self._joining = fleet, joining
        self.starts, self.query_bounds = indptr[:-1], query_bounds
        self.shape, self.dtype, self.nbytes = (int(indptr[-1]), n_features), np.dtype(dtype), nbytes

    def __array__(self, *given: Any, **settings: Any) -> Array:
        raise self._apart()

    def __getitem__(self, rows: Any) -> Any:
        raise self._apart()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "fleet":
            raise AttributeError(name)
        raise self._apart()

    def _apart(self) -> FeaturesApart:
        what = f"the features are in {self.fleet.n_parts:,} parts, and this needs them in one place"
        return FeaturesApart(f"{what}; join the parts first: {self._joining}")

    def shares(self, starts: Array) -> list[Share]:
        """For every part, which of the queries that start at these rows it holds."""
        numbers = np.searchsorted(self.starts, starts)
        parts = np.searchsorted(self.query_bounds, numbers, side="right") - 1
        found = []
        for part in range(self.fleet.n_parts):
            chosen = np.flatnonzero(parts == part)
            found.append(Share(chosen, numbers[chosen] - self.query_bounds[part]))
        return found

    def scores(self, model: Any, data: RankingData, missing_as_zero: bool = False) -> Array:
        """A model's scores of all or some of the queries, in their order."""
        indptr, shares = data.indptr, self.shares(stored(data)[1])
        found = self._scorers.ask("scores", model, missing_as_zero, own=[(share.local,) for share in shares])
        scores = np.empty(int(indptr[-1]))
        for share, own in zip(shares, found, strict=True):
            at = 0
            for query in share.chosen.tolist():
                first, last = indptr[query], indptr[query + 1]
                scores[first:last] = own[at : at + last - first]
                at += last - first
        return scores

    def per_query(self, function: Any, data: RankingData) -> Array:
        """What a function of a data set, found by its name everywhere, gives for all or some of the queries."""
        shares = self.shares(stored(data)[1])
        found = self._scorers.ask("applied", function, own=[(share.local,) for share in shares])
        order = np.concatenate([share.chosen for share in shares])
        return np.concatenate(found)[np.argsort(order)]

    @property
    def has_missing(self) -> bool:
        """Whether some value is missing."""
        return self._extremes[0]

    @property
    def largest(self) -> Array:
        """The largest absolute value of every feature."""
        return self._extremes[1]

    def doc_ids(self) -> Array | None:
        """The ids of all documents, in the order of the parts; None if some part has none."""
        survey = self.fleet.make(Survey)
        found = survey.ask("ids")
        survey.close()
        if any(own is None for own in found):
            return None
        ids = join_ids(found)
        ids.flags.writeable = False
        return ids

    @cached_property
    def _extremes(self) -> tuple[bool, Array]:
        survey = self.fleet.make(Survey)
        found = survey.ask("extremes")
        survey.close()
        return any(missing for missing, _ in found), np.max([largest for _, largest in found], axis=0)

    @cached_property
    def _scorers(self) -> Crew:
        return self.fleet.make(Scorer)


def is_parted(data: RankingData | None) -> bool:
    """Whether the features of the data are in parts."""
    return data is not None and isinstance(stored(data)[0], PartedFeatures)


class Scorer:
    """Scores the documents of a part."""

    def __init__(self, data: RankingData, threads: int) -> None:
        self._data = data

    def scores(self, queries: Array, model: Any, missing_as_zero: bool) -> Array:
        """Scores of some of the part's queries, in the order given."""
        names = self._data.feature_names
        some = self._some(queries)
        found = []
        for X, indptr in batches(some):
            given = model.with_missing(X, names) if missing_as_zero else (X, names)
            found.append(model.score(*given, indptr))
        return np.concatenate(found, dtype=np.float64) if found else np.empty(0)

    def applied(self, queries: Array, function: Any) -> Any:
        """A function of some of the part's queries."""
        return function(self._some(queries))

    def _some(self, queries: Array) -> RankingData:
        whole = len(queries) == self._data.n_queries and bool((queries == np.arange(len(queries))).all())
        return self._data if whole else some_queries(self._data, queries)


class Survey:
    """What the driver has to know of a part."""

    def __init__(self, data: RankingData, threads: int) -> None:
        self._data = data

    def facts(self) -> dict[str, Any]:
        """Labels, queries, ids and the form of the features."""
        data = self._data
        return {
            "labels": np.asarray(data.labels),
            "sizes": data.sizes,
            "query_ids": np.asarray(data.query_ids),
            "names": data.feature_names,
            "categories": dict(data.categories),
            "form": (data.n_features, data.X.dtype.str, data.is_sparse),
            "bytes": feature_bytes(data),
        }

    def ids(self) -> Array | None:
        """The ids of the documents."""
        return None if self._data.doc_ids is None else np.asarray(self._data.doc_ids)

    def extremes(self) -> tuple[bool, Array]:
        """Whether some value is missing, and the largest absolute value of every feature."""
        largest, missing = np.zeros(self._data.n_features), False
        for X in _chunks(self._data):
            values = X.data if self._data.is_sparse else X
            if not values.size:
                continue
            if self._data.is_sparse:
                np.maximum.at(largest, X.indices, np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)))
            else:
                ends = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
                largest = np.fmax(largest, np.maximum(np.abs(ends[0]), np.abs(ends[1])))
            missing = missing or bool(np.isnan(values.min()))
        return missing, largest


def _chunks(data: RankingData) -> Iterator[Any]:
    step = max(1, (1 << 20) // max(1, data.n_features))
    if data.is_sparse:
        yield data.X
        return
    yield from (data.X[start : start + step] for start in range(0, data.n_docs, step))


def gather_parts(
    fleet: Fleet, place: str = "FOLDER", *, repair: str | None = None, joining: str | None = None
) -> RankingData:
    """The data of all parts, in their order; a query that is in two of them is refused.

    Parameters
    ----------
    fleet : Fleet
        The parts.
    place : str
        Where they come from, for messages.
    repair, joining : str, optional
        What brings the documents of every query together, and what makes one data set of the parts; default: commands
        for a folder.
    """
    survey = fleet.make(Survey)
    facts = survey.ask("facts")
    survey.close()
    repair = repair or f"rankwright convert {place} --by-query {fleet.n_parts} -o NEW.parts"
    joining = joining or f"rankwright convert {place} -o JOINED.rank"
    for part, other in enumerate(facts[1:], 1):
        for what, name in (("features", "names"), ("categories", "categories"), ("form of features", "form")):
            if other[name] != facts[0][name]:
                found = f"{fleet.part_name(0)} and {fleet.part_name(part)} differ in their {what}"
                raise InputError(f"{found}; expected the same in all parts: {repair} makes them so", place)
    ids = join_ids([part["query_ids"] for part in facts])
    query_bounds = sizes_to_indptr(np.array([len(part["query_ids"]) for part in facts], np.int64))
    _check_whole(ids, query_bounds, fleet, place, repair)
    indptr = sizes_to_indptr(np.concatenate([part["sizes"] for part in facts]))
    n_features, dtype, _ = facts[0]["form"]
    X = PartedFeatures(fleet, indptr, query_bounds, n_features, dtype, sum(part["bytes"] for part in facts), joining)
    labels = np.concatenate([part["labels"] for part in facts])
    for array in (labels, indptr, ids):
        array.flags.writeable = False
    data = object.__new__(_Parted)  # the constructor would set ids
    kept = {"feature_names": facts[0]["names"], "rows": None, "categories": facts[0]["categories"]}
    vars(data).update({"X": X, "labels": labels, "indptr": indptr, "query_ids": ids} | kept)
    return data


class _Parted(RankingData):
    """A RankingData whose document ids come here when they are first asked for."""

    @cached_property
    def doc_ids(self) -> Array | None:
        """One id per row, or None."""
        found: Array | None = self.X.doc_ids()
        return found


def _check_whole(ids: Array, query_bounds: Array, fleet: Fleet, place: str, repair: str) -> None:
    """Refuse a query that is in two parts."""
    unique, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        split = unique[int(np.argmax(counts > 1))]
        where = np.searchsorted(query_bounds, np.flatnonzero(ids == split), side="right") - 1
        parts = " and in ".join(fleet.part_name(part) for part in where[:2].tolist())
        what = f"query {split} is in {parts}; expected each query in one part"
        raise InputError(f"{what}: {repair} repairs it", place)
