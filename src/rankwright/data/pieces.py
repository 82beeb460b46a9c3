"""A folder of pieces: Parquet files as Spark, DuckDB and Polars write them, also below ``bucket=3/``, or data folders.

Pieces are taken in the order of their names. What starts with ``.`` or ``_`` is no data (``_SUCCESS``, checksums).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from rankwright.data.folder import HEADER
from rankwright.errors import InputError
from rankwright.io.tables import PARQUET

__all__ = ["Piece", "keys_of", "pieces_of"]

_TABLE_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}


@dataclass(frozen=True)
class Piece:
    """One file or data folder.

    Attributes
    ----------
    path : Path
        Where it is.
    kind : {"parquet", "folder"}
        What it is.
    name : str
        Its path within the folder of pieces, for messages.
    keys : dict
        Values of all its rows, from folders such as ``bucket=3``.
    """

    path: Path
    kind: Literal["parquet", "folder"]
    name: str
    keys: dict[str, str] = field(default_factory=dict)


def pieces_of(folder: str | Path) -> list[Piece]:
    """The pieces in a folder and the folders below it, by name; none if there is any other file before the first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for bucket in "10":
    ...         (Path(folder) / f"bucket={bucket}").mkdir()
    ...         _ = (Path(folder) / f"bucket={bucket}" / "part-0.parquet").write_bytes(b"PAR1")
    ...     [(piece.name, piece.keys) for piece in pieces_of(folder)]
    [('bucket=0/part-0.parquet', {'bucket': '0'}), ('bucket=1/part-0.parquet', {'bucket': '1'})]
    """
    top = Path(folder)
    found: list[Piece] = []
    for path in _entries(top):
        name = path.relative_to(top).as_posix()
        kind = _kind_of(path)
        if kind is None and found:
            raise InputError(f"has Parquet files or data folders, and {name}; expected one kind of pieces only", top)
        if kind is None:
            return []
        if found and found[0].kind != kind:
            raise InputError(f"has Parquet files and data folders ({found[0].name}, {name}); expected one kind", top)
        found.append(Piece(path, kind, name, keys_of(name)))
    return found


def _entries(folder: Path) -> Iterator[Path]:
    """Files and data folders, depth first by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", folder) from None
    for log, kind in _TABLE_LOGS.items():
        if log in names:
            what = f"is a {kind} table, some of whose files may be out of date"
            raise InputError(f"{what}; expected plain Parquet, written from it", folder)
    for name in names:
        path = folder / name
        if name.startswith((".", "_")):
            continue
        if path.is_dir() and not (path / HEADER).is_file():
            yield from _entries(path)
        else:
            yield path


def _kind_of(path: Path) -> Literal["parquet", "folder"] | None:
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            return "parquet" if file.read(len(PARQUET)) == PARQUET else None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None


def keys_of(path: str | Path) -> dict[str, str]:
    """What the names of a file's folders say.

    Examples
    --------
    >>> keys_of("big/lang=de/bucket=3/part-0.parquet")
    {'lang': 'de', 'bucket': '3'}
    """
    parted = [part.partition("=") for part in Path(path).parts[:-1]]
    return {unquote(key): unquote(value) for key, equals, value in parted if key and equals}
