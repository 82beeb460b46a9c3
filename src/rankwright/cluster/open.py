"""Opening partitioned data: a folder of Parquet files or of data folders, or a Dask DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.cluster.cluster import Cluster, Transport
from rankwright.cluster.dask import DaskWorkers, frame_cluster, import_distributed, is_dask_frame
from rankwright.cluster.dataset import gather_partitions
from rankwright.cluster.worker import Local, Source
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, shown
from rankwright.io.features import by_role
from rankwright.io.partitions import is_partitions, piece_sources, read_manifest
from rankwright.io.roles import find_query

__all__ = ["open_partitions"]

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
    from rankwright.cluster.dask import DaskWorkers, connect, is_client, local_cluster
    from rankwright.cluster.processes import Processes

    if engine is None:
        return Local()
    if is_client(engine):
        return DaskWorkers(engine)
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
            return local_cluster(_count(engine, number) if where else None)
        if where and number.isascii() and number.isdecimal():
            return connect(address)
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


_FRAME = "Dask DataFrame"


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
    if is_dask_frame(source):
        return _open_frame(source, engine, {"qid": qid, "label": label, "docid": docid, "features": features})
    roles = by_role(columns, qid, docid, label)
    sources: list[Source]
    statistics = None
    if is_partitions(source):
        if roles or features is not None:
            raise InputError("has no columns to name; expected Parquet files or a Dask DataFrame", source)
        manifest = read_manifest(source)
        sources, sizes, statistics = (
            [*manifest.sources],
            [partition.documents for partition in manifest.partitions],
            manifest.total,
        )
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
    if not isinstance(workers, DaskWorkers):
        raise InputError("a Dask DataFrame is used on its cluster; expected engine=Client(…) or dask://host:port")
    closes = not is_transport(engine)
    try:
        cluster = frame_cluster(frame, workers, closes=closes, **columns)
        repair = f"frame.shuffle({columns['qid'] or find_query(list(map(str, frame.columns)))!r})"
        return gather_partitions(cluster, _FRAME, repair=repair, joining="rankwright.from_frame(frame.compute())")
    except BaseException:
        if closes:
            workers.close()
        raise


def _current_client() -> Any:
    try:
        return import_distributed().get_client()
    except ValueError:
        raise InputError("a Dask DataFrame is used on a cluster; expected engine=Client(…)") from None
