"""Parts that another program made: Parquet files or data folders in a folder, used as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright.data.container import Container
from rankwright.data.dataset import RankingData
from rankwright.data.folder import FOLDER, load_folder
from rankwright.data.pieces import pieces_of
from rankwright.errors import InputError
from rankwright.io.parquet import ParquetTable, read_table


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
    columns : mapping
        Columns of a Parquet file by role.
    """

    path: str
    name: str
    kind: Literal["parquet", "folder"]
    n_docs: int
    features: tuple[str, ...] = ()
    dtype: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> RankingData:
        """The piece: a data folder mapped, a Parquet file read."""
        if self.kind == "folder":
            return load_folder(self.path)
        table = ParquetTable(self.path, columns=self.columns, features=self.features, keys=self.keys)
        return read_table(table, np.dtype(self.dtype))


def piece_sources(
    folder: str | Path, columns: Mapping[str, str] | None = None, features: Sequence[str] | None = None
) -> list[PieceSource]:
    """One for each piece in a folder, by name; Parquet files have columns by role, and features to choose."""
    pieces = pieces_of(folder)
    if not pieces:
        raise InputError("is not a folder of parts, of Parquet files or of data folders; expected one", folder)
    top = Path(folder).absolute()
    if pieces[0].kind == "folder":
        if columns or features is not None:
            raise InputError("has no columns to name; expected Parquet files", folder)
        counts = [Container.open(piece.path, FOLDER).header.get("documents", 0) for piece in pieces]
        return [
            PieceSource(str(top / piece.name), piece.name, "folder", count)
            for piece, count in zip(pieces, counts, strict=True)
        ]
    table = ParquetTable(folder, columns=columns, features=features)
    names, dtype, layout = tuple(table.features), table.dtype.str, table.layout
    given = {"qid": layout.qid, "label": layout.label, "docid": layout.docid or ""}
    given["categorical"] = "\n".join(layout.categorical)
    roles = {role: name for role, name in given.items() if name}
    return [
        PieceSource(str(top / piece.name), piece.name, "parquet", n_rows, names, dtype, keys, roles)
        for piece, (n_rows, keys) in zip(pieces, table.files, strict=True)
        if n_rows
    ]
