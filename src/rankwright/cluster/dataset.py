"""A data set with features in partitions: labels, queries and ids are here, features stay where partitions are.

:func:`open_partitions` opens a folder or a Dask DataFrame. It returns a `RankingData` like any other, but for its
``X``, which knows rows only by the partition that holds them. What is computed with features is computed by actors
(`rankwright.cluster.cluster`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.cluster import dask
from rankwright.cluster.cluster import ActorGroup, Cluster, Transport
from rankwright.cluster.worker import Local, Processes, Source
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, feature_bytes, stored, with_features
from rankwright.data.order import join_ids, sizes_to_indptr
from rankwright.data.places import Own, Place, Share, selected
from rankwright.data.statistics import Statistics, statistics_of
from rankwright.data.threads import beside, scratch
from rankwright.errors import InputError, shown
from rankwright.io.frames import by_role
from rankwright.io.partitions import is_partitions, piece_sources, read_manifest
from rankwright.io.roles import find_query, named_columns

__all__ = ["open_partitions"]

_BLOCK_BYTES = 1 << 23  # of all partitions, at a time, where features are gathered


class FeaturesApart(InputError, AttributeError):
    """Raised where features in partitions are used like an array; an AttributeError, too, for ``hasattr``."""


class PartitionedFeatures:
    """The features of documents in partitions.

    `cluster`: the partitions. `readers`: a :class:`PartitionReader` beside each. `starts`: the row at which each query
    starts, in the order of the partitions. `query_bounds`: the queries of every partition:
    ``query_bounds[p]:query_bounds[p + 1]``. `shape`, `dtype`, `nbytes`: of all features together, as if they were one
    array.
    """

    ndim = 2

    def __init__(
        self,
        cluster: Cluster,
        readers: ActorGroup,
        indptr: Array,
        query_bounds: Array,
        n_features: int,
        dtype: str,
        nbytes: int,
        joining: str,
        statistics: Callable[[], Statistics | None] | None,
    ) -> None:
        self.cluster, self.readers, self._joining, self._statistics = cluster, readers, joining, statistics
        self.starts, self.query_bounds = indptr[:-1], query_bounds
        self.shape, self.dtype, self.nbytes = (int(indptr[-1]), n_features), np.dtype(dtype), nbytes

    def __array__(self, *given: Any, **settings: Any) -> Array:
        raise self._apart()

    def __getitem__(self, rows: Any) -> Any:
        raise self._apart()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "cluster":
            raise AttributeError(name)
        raise self._apart()

    def _apart(self) -> FeaturesApart:
        what = f"the features are in {self.cluster.n_partitions:,} partitions, and this needs them in one place"
        return FeaturesApart(f"{what}; join the partitions first: {self._joining}")

    def shares(self, starts: Array) -> list[Share]:
        """For every partition, which of the queries that start at these rows it holds."""
        numbers = np.searchsorted(self.starts, starts)
        partitions = np.searchsorted(self.query_bounds, numbers, side="right") - 1
        shares = []
        for partition in range(self.cluster.n_partitions):
            chosen = np.flatnonzero(partitions == partition)
            shares.append(Share(chosen, numbers[chosen] - self.query_bounds[partition]))
        return shares

    def statistics(self) -> Statistics | None:
        """The statistics of all rows, if they are known without reading these."""
        return None if self._statistics is None else self._statistics()

    def place_of(self, data: RankingData) -> Place:
        return Partitions(data)

    def doc_ids(self) -> Array | None:
        """The ids of all documents, in the order of the partitions; None if some partition has none."""
        ids_of = self.readers.call("ids")
        if any(ids is None for ids in ids_of):
            return None
        ids = join_ids(ids_of)
        ids.flags.writeable = False
        return ids


class Partitions(Place):
    """Features in partitions, with some or all queries of each."""

    is_partitioned: ClassVar[bool] = True

    def __init__(self, data: RankingData) -> None:
        super().__init__(data)
        X, self._starts = stored(data)
        self._X: PartitionedFeatures = X

    @property
    def is_here(self) -> bool:
        return self._X.cluster.is_here

    @cached_property
    def shares(self) -> list[Share]:
        return self._X.shares(self._starts)

    def taken(self, values: Array, share: Share) -> Array:
        return np.asarray(values[self.rows_of(share)])

    def make(self, factory: Callable[..., Any], *shared: Any, own: Own = None, threads: int = 1) -> ActorGroup:
        arguments = [()] * len(self.shares) if own is None else own
        each = [(share.local, *own_ones) for share, own_ones in zip(self.shares, arguments, strict=True)]
        return self._X.cluster.make(factory, *shared, own=each, threads=threads)

    def recall(self, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        return self._X.cluster.recall(compute)

    def record_to(self, journal: Any) -> None:
        self._X.cluster.journal = journal

    def statistics(self, threads: int = 1, *, summed: bool = True) -> Statistics:
        """The statistics of the features, read where they are and kept with the data."""
        kept: Statistics | None = vars(self.data).get("_statistics")
        if kept is None and len(self._starts) == len(self._X.starts):
            kept = self._X.statistics()
        if kept is None or (summed and kept.sums is None):
            with self.made(Reading, threads=threads) as actors:
                kept = reduce(Statistics.merge, actors.call("statistics", summed))
        vars(self.data)["_statistics"] = kept
        return kept

    def scores(self, model: Any, missing_as_zero: bool = False) -> Array:
        scores = np.empty(self.data.n_docs)
        results = self._X.readers.call("scores", model, missing_as_zero, own=self._queries)
        for share, of_share in zip(self.shares, results, strict=True):
            scores[self.rows_of(share)] = of_share
        return scores

    def per_query(self, function: Callable[[RankingData], Array]) -> Array:
        results = np.concatenate(self._X.readers.call("applied", function, own=self._queries))
        return np.asarray(results[np.argsort(np.concatenate([share.chosen for share in self.shares]))])

    def together(self) -> RankingData:
        """The same data, with features that are here: in memory if they are few, otherwise in a file without a name.

        The file lies beside the partitions where these are on this machine, and in ``TMPDIR`` otherwise; it is gone
        when the data is.
        """
        X = self._X
        forms = X.readers.call("stored")
        folders = [Path(folder) for folder, _ in forms if folder and X.cluster.is_here]
        place = next(iter(folders), Path(tempfile.gettempdir()))
        sizes = [n_values for _, n_values in forms if n_values is not None]
        return with_features(self.data, _sparse_together(X, place, sizes) if sizes else _dense_together(X, place))

    @property
    def _queries(self) -> list[tuple[Array]]:
        return [(share.local,) for share in self.shares]


class Reading:
    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data, self._threads = selected(data, queries), threads

    def statistics(self, summed: bool) -> Statistics:
        return statistics_of(self._data, self._threads, summed=summed)


class PartitionReader:
    """What the driver has to know of a partition: its facts, scores, and the features some rows at a time."""

    def __init__(self, data: RankingData, threads: int) -> None:
        self._data = data

    def facts(self) -> dict[str, Any]:
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
        return None if self._data.doc_ids is None else np.asarray(self._data.doc_ids)

    def scores(self, queries: Array, model: Any, missing_as_zero: bool) -> Array:
        """Scores of some of the partition's queries, in the order given."""
        return Place(selected(self._data, queries)).scores(model, missing_as_zero)

    def applied(self, queries: Array, function: Any) -> Any:
        return function(selected(self._data, queries))

    def stored(self) -> tuple[str | None, int | None]:
        """The folder that the features are in, and how many values are stored; None if all are."""
        X = self._data.X
        folder = beside(X)
        return None if folder is None else str(folder.parent), len(X.data) if sparse.issparse(X) else None

    def block(self, first: int, last: int) -> Any:
        """Some rows; of sparse ones, their values and columns."""
        X = self._data.X
        if not sparse.issparse(X):
            return np.array(X[first:last])
        start, stop = X.indptr[min(first, self._data.n_docs)], X.indptr[min(last, self._data.n_docs)]
        return np.array(X.data[start:stop]), np.array(X.indices[start:stop])

    def ends(self) -> Array:
        return np.asarray(self._data.X.indptr[1:], np.int64)


def _blocks(X: PartitionedFeatures, row_bytes: int) -> Iterator[tuple[int, int, Any]]:
    """Some rows at a time of every partition: its number, the place of the first of them among all rows, the rows."""
    starts = np.append(X.starts, X.shape[0])[X.query_bounds]
    step = max(1, _BLOCK_BYTES // (X.cluster.n_partitions * row_bytes))
    for first in range(0, int(np.diff(starts).max()), step):
        for partition, block in enumerate(X.readers.call("block", first, first + step)):
            yield partition, int(starts[partition]) + first, block


def _dense_together(X: PartitionedFeatures, place: Path) -> Array:
    gathered = scratch(X.shape, X.dtype, place)
    for _, start, rows in _blocks(X, max(1, X.shape[1]) * X.dtype.itemsize):
        gathered[start : start + len(rows)] = rows
    gathered.flags.writeable = False
    return gathered


def _sparse_together(X: PartitionedFeatures, place: Path, sizes: list[int]) -> Any:
    filled = sizes_to_indptr(np.array(sizes))
    index = np.int32 if filled[-1] < 2**31 else np.int64
    values, columns = scratch((int(filled[-1]),), X.dtype, place), scratch((int(filled[-1]),), index, place)
    starts = [ends + start for ends, start in zip(X.readers.call("ends"), filled.tolist(), strict=False)]
    indptr = np.concatenate([[0], *starts]).astype(index)
    at = filled[:-1].copy()
    width = max(1, int(filled[-1]) // max(1, X.shape[0]))
    for partition, _, (block, places) in _blocks(X, 16 * width):
        values[at[partition] : at[partition] + len(block)] = block
        columns[at[partition] : at[partition] + len(block)] = places
        at[partition] += len(block)
    for array in (values, columns, indptr):
        array.flags.writeable = False
    return sparse.csr_array((values, columns, indptr), shape=X.shape)


def gather_partitions(
    cluster: Cluster,
    place: str = "FOLDER",
    *,
    repair: str | None = None,
    joining: str | None = None,
    statistics: Callable[[], Statistics | None] | None = None,
) -> RankingData:
    """The data of all partitions, in their order; a query that is in two of them is refused.

    `cluster`: the partitions. `place`: where they come from, for messages. `repair`, `joining`: what brings the
    documents of every query together, and what makes one data set of the partitions; default: commands for a folder.
    `statistics`: gives the statistics of the features of all partitions, if they are known.
    """
    readers = cluster.make(PartitionReader)
    facts = readers.call("facts")
    repair = repair or f"rankwright convert {place} --by-query {cluster.n_partitions} -o NEW.partitions"
    joining = joining or f"rankwright convert {place} -o JOINED.rank"
    for partition, other in enumerate(facts[1:], 1):
        for what, name in (("features", "names"), ("categories", "categories"), ("form of features", "form")):
            if other[name] != facts[0][name]:
                problem = f"{cluster.partition_name(0)} and {cluster.partition_name(partition)} differ in their {what}"
                raise InputError(f"{problem}; expected the same in all partitions: {repair} makes them so", place)
    ids = join_ids([partition["query_ids"] for partition in facts])
    query_bounds = sizes_to_indptr(np.array([len(partition["query_ids"]) for partition in facts], np.int64))
    _check_queries(ids, query_bounds, cluster, place, repair)
    indptr = sizes_to_indptr(np.concatenate([partition["sizes"] for partition in facts]))
    n_features, dtype, _ = facts[0]["form"]
    nbytes = sum(partition["bytes"] for partition in facts)
    features = (indptr, query_bounds, n_features, dtype, nbytes)
    X = PartitionedFeatures(cluster, readers, *features, joining, statistics)
    labels = np.concatenate([partition["labels"] for partition in facts])
    for array in (labels, indptr, ids):
        array.flags.writeable = False
    data = object.__new__(_Partitioned)  # the constructor would set ids
    kept = {"feature_names": facts[0]["names"], "rows": None, "categories": facts[0]["categories"]}
    vars(data).update({"X": X, "labels": labels, "indptr": indptr, "query_ids": ids} | kept)
    return data


class _Partitioned(RankingData):
    """A RankingData whose document ids come here when they are first asked for."""

    @cached_property
    def doc_ids(self) -> Array | None:
        ids: Array | None = self.X.doc_ids()
        return ids


def _check_queries(ids: Array, query_bounds: Array, cluster: Cluster, place: str, repair: str) -> None:
    unique, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        split = unique[int(np.argmax(counts > 1))]
        where = np.searchsorted(query_bounds, np.flatnonzero(ids == split), side="right") - 1
        partitions = " and in ".join(cluster.partition_name(partition) for partition in where[:2].tolist())
        what = f"query {split} is in {partitions}; expected each query in one partition"
        raise InputError(f"{what}: {repair} repairs it", place)


# Opening partitioned data: a folder of Parquet files or of data folders, or a Dask DataFrame.


ENGINES = "local, processes, processes:4, dask://host:port, dask://local or dask://local:4"
_DASK = "dask://"


def engine_of(engine: Any = None) -> Transport:
    """The engine with a name.

    `engine`: ``local``, the default, is this process; ``processes`` are worker processes on this machine, one for every
    core or as many as a number says (``processes:4``); ``dask://host:port`` is the Dask scheduler there, and
    ``dask://local`` starts a Dask cluster on this machine. What this function starts is ended by ``close``; a client
    that is given stays open.

    Examples
    --------
    >>> type(engine_of("local")).__name__, len(engine_of("processes:3").workers())
    ('Local', 3)
    """
    if engine is None:
        return Local()
    if dask.is_client(engine):
        return dask.DaskWorkers(engine)
    if is_transport(engine):
        transport: Transport = engine
        return transport
    if not isinstance(engine, str):
        raise InputError(f"the engine is {shown(engine)}; expected {ENGINES}, or a Dask Client")
    kind, colon, options = engine.strip().partition(":")
    if engine.strip().startswith(_DASK):
        address = engine.strip().removeprefix(_DASK).rstrip("/")
        where, _, number = address.rpartition(":")  # where may be [::1]
        if "local" in (where, address):
            return dask.local_cluster(_count(engine, number) if where else None)
        if where and number.isascii() and number.isdecimal():
            return dask.connect(address)
    elif kind == "local" and not colon:
        return Local()
    elif kind == "processes":
        return Processes(_count(engine, options) if colon else None)
    raise InputError(f"the engine is {shown(engine)}; expected {ENGINES}")


def is_transport(engine: Any) -> bool:
    return all(callable(getattr(engine, name, None)) for name in ("workers", "start", "close"))


def _count(engine: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10_000):
        raise InputError(f"the engine is {shown(engine)}; expected a number of workers from 1, as in processes:4")
    return int(text)


def open_partitions(
    source: Any,
    engine: Any = None,
    *,
    qid: str | None = None,
    label: str | None = None,
    docid: str | None = None,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> RankingData:
    """Open data in partitions; features stay where they are, labels, queries and ids come here.

    Parameters
    ----------
    source : path or dask.dataframe.DataFrame
        What ``rankwright convert --by-query`` wrote. Also a folder of Parquet files or of data folders, one partition
        each, if every query is in one of them; Parquet files are then read into memory where they are used. Of a Dask
        DataFrame each partition is a partition, made by a task of the cluster and kept there.
    engine : str, distributed.Client or Transport, optional
        Where partitions are used: ``"processes"``, ``"dask://host:port"``, …; default: in this process, one after the
        other. A Dask DataFrame is used on the cluster of its client; default: the current one.
    qid, label, docid, features
        The columns of a Dask DataFrame or of Parquet files, as in :func:`rankwright.from_frame`.
    columns : mapping, optional
        Columns of Parquet files by role, as :func:`rankwright.read_data` takes them.

    Returns
    -------
    RankingData
        With an ``X`` that cannot be read as an array.

    Examples
    --------
    >>> open_partitions("big.partitions")  # doctest: +SKIP
    RankingData(31531 queries, 3771125 documents, 136 dense float32 features)
    >>> open_partitions(dask.dataframe.read_parquet("big/"), engine=client)  # doctest: +SKIP
    RankingData(31531 queries, 3771125 documents, 136 dense float32 features)
    """
    if dask.is_dask_frame(source):
        return _open_frame(source, engine, {"qid": qid, "label": label, "docid": docid, "features": features})
    roles = by_role(columns, qid, docid, label)
    sources: list[Source]
    statistics = None
    if is_partitions(source):
        if named_columns(roles) or features is not None:
            raise InputError("has no columns to name; expected Parquet files or a Dask DataFrame", source)
        manifest = read_manifest(source)
        sources, sizes = [*manifest.sources], [partition.documents for partition in manifest.partitions]
        statistics = manifest.total
    else:
        pieces = piece_sources(source, roles, features)
        sources, sizes = [*pieces], [piece.n_docs for piece in pieces]
    transport = engine_of(engine)
    closes = transport is not engine
    try:
        return gather_partitions(Cluster(transport, sources, sizes, closes=closes), str(source), statistics=statistics)
    except BaseException:
        if closes:
            transport.close()
        raise


def _open_frame(frame: Any, engine: Any, columns: dict[str, Any]) -> RankingData:
    workers = engine_of(_current_client() if engine is None else engine)
    if not isinstance(workers, dask.DaskWorkers):
        raise InputError("a Dask DataFrame is used on its cluster; expected engine=Client(…) or dask://host:port")
    closes = not is_transport(engine)
    try:
        cluster = dask.frame_cluster(frame, workers, closes=closes, **columns)
        repair = f"frame.shuffle({columns['qid'] or find_query(list(map(str, frame.columns)))!r})"
        return gather_partitions(
            cluster, "Dask DataFrame", repair=repair, joining="rankwright.from_frame(frame.compute())"
        )
    except BaseException:
        if closes:
            workers.close()
        raise


def _current_client() -> Any:
    try:
        return dask.import_distributed().get_client()
    except ValueError:
        raise InputError("a Dask DataFrame is used on a cluster; expected engine=Client(…)") from None
