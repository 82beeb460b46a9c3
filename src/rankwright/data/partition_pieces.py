"""Parts that another program made: Parquet files or data folders in a folder, used as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright.data.container import Container
from rankwright.data.dataset import RankingData
from rankwright.data.folder import FOLDER, load_folder
from rankwright.data.parquet_read import ParquetTable, read_table
from rankwright.data.pieces import pieces_of
from rankwright.errors import InputError

__all__ = ["PieceSource", "piece_sources"]


@dataclass(frozen=True)
class PieceSource:
    """Where a piece is loaded from; travels to whoever loads it.

    Attributes
    ----------
    path : str
        The file or folder.
    name : str
        Its path within the folder of pieces, for messages.
    kind : {"parquet", "folder"}
        What it is.
    n_docs : int
        Number of rows.
    features : tuple of str
        Columns of a Parquet file, in the order that all have.
    dtype : str
        The type that holds the features of all files.
    keys : mapping
        What the names of its folders say, such as ``qid=17``.
    """

    path: str
    name: str
    kind: Literal["parquet", "folder"]
    n_docs: int
    features: tuple[str, ...] = ()
    dtype: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> RankingData:
        """The piece: a data folder mapped, a Parquet file read."""
        if self.kind == "folder":
            return load_folder(self.path)
        return read_table(ParquetTable(self.path, features=self.features, keys=self.keys), np.dtype(self.dtype))


def piece_sources(folder: str | Path) -> list[PieceSource]:
    """One for each piece in a folder, by name."""
    pieces = pieces_of(folder)
    if not pieces:
        raise InputError("is not a folder of parts, of Parquet files or of data folders; expected one", folder)
    top = Path(folder).absolute()
    if pieces[0].kind == "folder":
        counts = [Container.open(piece.path, FOLDER).header.get("documents", 0) for piece in pieces]
        return [
            PieceSource(str(top / piece.name), piece.name, "folder", count)
            for piece, count in zip(pieces, counts, strict=True)
        ]
    table = ParquetTable(folder)
    features, dtype = tuple(table.features), table.dtype.str
    return [
        PieceSource(str(top / piece.name), piece.name, "parquet", n_rows, features, dtype, keys)
        for piece, (n_rows, keys) in zip(pieces, table.files, strict=True)
        if n_rows
    ]
