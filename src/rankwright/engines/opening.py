"""Opening data in parts: a folder of parts, or a folder of Parquet files or data folders with whole queries in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.data.partition import is_parts, read_manifest
from rankwright.data.partition_pieces import piece_sources
from rankwright.engines.choice import engine_of
from rankwright.engines.features import gather_parts
from rankwright.engines.fleet import Fleet, Transport
from rankwright.engines.host import Source

__all__ = ["open_parts", "parted"]


def open_parts(folder: str | Path, engine: Any = None) -> RankingData:
    """Open data in parts; features stay where they are, labels, queries and ids come here.

    Parameters
    ----------
    folder : path
        What ``rankwright convert --by-query`` wrote. Also a folder of Parquet files or of data folders, one part each,
        if every query is in one of them; Parquet files are then read into memory where they are used.
    engine : str, distributed.Client or Transport, optional
        Where parts are used: ``"processes"``, ``"dask://host:port"``, …; default: in this process, one after the other.

    Returns
    -------
    RankingData
        With an ``X`` that cannot be read as an array.

    Examples
    --------
    >>> open_parts("big.parts")  # doctest: +SKIP
    RankingData(31531 queries, 3771125 documents, 136 dense float32 features)
    """
    return parted(folder, engine_of(engine))


def parted(folder: str | Path, transport: Transport) -> RankingData:
    """The data of a folder, its parts on the hosts of a transport."""
    sources: list[Source]
    if is_parts(folder):
        found = read_manifest(folder)
        sources, sizes = [*found.sources], [part.documents for part in found.parts]
    else:
        pieces = piece_sources(folder)
        sources, sizes = [*pieces], [piece.n_docs for piece in pieces]
    return gather_parts(Fleet(transport, sources, sizes), str(folder))
