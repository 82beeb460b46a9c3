"""Opening partitioned data: a folder of Parquet files or of data folders, or a Dask DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.partition import is_parts, read_manifest
from rankwright.data.partition_pieces import piece_sources
from rankwright.engines.choice import engine_of, is_transport
from rankwright.engines.dask import DaskWorkers, import_distributed
from rankwright.engines.features import gather_parts
from rankwright.engines.fleet import Fleet
from rankwright.engines.frames import frame_fleet, is_dask_frame
from rankwright.engines.host import Source
from rankwright.errors import InputError
from rankwright.io.features import by_role
from rankwright.io.roles import find_query

__all__ = ["open_parts"]

_FRAME = "Dask DataFrame"


def open_parts(
    source: Any,
    engine: Any = None,
    *,
    qid: str | None = None,
    label: str | None = None,
    docid: str | None = None,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> RankingData:
    """Open data in parts; features stay where they are, labels, queries and ids come here.

    Parameters
    ----------
    source : path or dask.dataframe.DataFrame
        What ``rankwright convert --by-query`` wrote. Also a folder of Parquet files or of data folders, one part each,
        if every query is in one of them; Parquet files are then read into memory where they are used. Of a Dask
        DataFrame each partition is a part, made by a task of the cluster and kept there.
    engine : str, distributed.Client or Transport, optional
        Where parts are used: ``"processes"``, ``"dask://host:port"``, …; default: in this process, one after the other.
        A Dask DataFrame is used on the cluster of its client; default: the current one.
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
    >>> open_parts("big.parts")  # doctest: +SKIP
    RankingData(31531 queries, 3771125 documents, 136 dense float32 features)
    >>> open_parts(dask.dataframe.read_parquet("big/"), engine=client)  # doctest: +SKIP
    RankingData(31531 queries, 3771125 documents, 136 dense float32 features)
    """
    if is_dask_frame(source):
        return _open_frame(source, engine, {"qid": qid, "label": label, "docid": docid, "features": features})
    roles = by_role(columns, qid, docid, label)
    sources: list[Source]
    known = None
    if is_parts(source):
        if roles or features is not None:
            raise InputError("has no columns to name; expected Parquet files or a Dask DataFrame", source)
        manifest = read_manifest(source)
        sources, sizes, known = [*manifest.sources], [part.documents for part in manifest.parts], manifest.total
    else:
        pieces = piece_sources(source, roles, features)
        sources, sizes = [*pieces], [piece.n_docs for piece in pieces]
    transport = engine_of(engine)
    closes = transport is not engine
    try:
        return gather_parts(Fleet(transport, sources, sizes, closes=closes), str(source), statistics=known)
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
        fleet = frame_fleet(frame, workers, closes=closes, **columns)
        repair = f"frame.shuffle({columns['qid'] or find_query(list(map(str, frame.columns)))!r})"
        return gather_parts(fleet, _FRAME, repair=repair, joining="rankwright.from_frame(frame.compute())")
    except BaseException:
        if closes:
            workers.close()
        raise


def _current_client() -> Any:
    try:
        return import_distributed().get_client()
    except ValueError:
        raise InputError("a Dask DataFrame is used on a cluster; expected engine=Client(…)") from None
