"""Parts: a folder of data folders, each with whole queries, and a manifest that describes them.

``big.parts/manifest.json`` has the format and its version, sizes and checksums of every part, and what all have in
common; the statistics of the features are arrays beside it, one row for each part. A part is a data folder like any
other: it is mapped into memory where it is used.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.container import Container, Format, reason
from rankwright.data.dataset import RankingData
from rankwright.data.folder import FOLDER, HEADER, load_folder
from rankwright.data.partition_statistics import FIELDS, Moments
from rankwright.errors import InputError

__all__ = ["MANIFEST", "PARTS", "Manifest", "PartEntry", "PartSource", "is_parts", "read_manifest"]

Array = npt.NDArray[Any]
PARTS = Format(
    "rankwright-parts", "manifest.json", "folder of parts", "`rankwright convert --by-query`", is_folder=True
)
MANIFEST = PARTS.header


@dataclass(frozen=True)
class PartEntry:
    """A part, as the manifest has it.

    Attributes
    ----------
    name : str
        Its folder.
    queries, documents, bytes : int
        Its size; bytes on disk.
    crc32 : str
        Checksum of its header, which has those of its arrays.
    labels : list or None
        Labels and how often each occurs, ascending; None if there are too many different ones.
    """

    name: str
    queries: int
    documents: int
    bytes: int
    crc32: str
    labels: list[list[float]] | None = None


@dataclass(frozen=True)
class PartSource:
    """Where a part is loaded from: a path and what the manifest says about it. Travels to whoever loads it.

    Examples
    --------
    >>> PartSource("big.parts", PartEntry("part-0000.rank", 10, 95, 5120, "8c7dd922")).name
    'part-0000.rank'
    """

    folder: str
    entry: PartEntry

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return self.entry.name

    def load(self) -> RankingData:
        """The part, its features mapped; sizes and the checksum of its header are compared."""
        self._opened()
        return load_folder(Path(self.folder) / self.name)

    def verify(self) -> None:
        """Read all of the part and compare all checksums."""
        self._opened().verify()

    def _opened(self) -> Container:
        path = Path(self.folder) / self.name
        try:
            found = header_sum(path)
        except OSError as error:
            raise PARTS.damaged(Path(self.folder), f"{self.name} cannot be read: {reason(error)}") from None
        if found != self.entry.crc32:
            what = f"the checksum of {self.name}/{HEADER} is {found}; expected {self.entry.crc32}"
            raise PARTS.damaged(Path(self.folder), what)
        opened = Container.open(path, FOLDER)
        size = (opened.header.get("queries"), opened.header.get("documents"), opened.n_bytes)
        if size != (self.entry.queries, self.entry.documents, self.entry.bytes):
            raise PARTS.damaged(Path(self.folder), f"{self.name} has another size than {MANIFEST} says")
        return opened


def header_sum(path: Path) -> str:
    """CRC-32 of the header of a data folder."""
    return f"{zlib.crc32((path / HEADER).read_bytes()):08x}"


class Manifest:
    """What is known of a folder of parts without opening them.

    Attributes
    ----------
    path : Path
        The folder.
    header : dict
        All of ``manifest.json``.
    parts : list of PartEntry
        The parts, in their order.
    n_queries, n_docs, n_features : int
        Of all parts together.
    names : list of str or None
        Names of the features.
    """

    def __init__(self, stored: Container) -> None:
        self.path, self.header, self._stored = stored.path, stored.header, stored
        with stored.understood():
            self.parts = [_entry(found) for found in self.header["parts"]]
            self.n_queries, self.n_docs, self.n_features = (
                _count(self.header[key], key) for key in ("queries", "documents", "features")
            )
            self.names = self.header["feature_names"]
            if self.names is not None and not _is_list(self.names, str, self.n_features):
                raise InputError("the feature names are not one string for each feature")
            if not _is_list(self.header["categorical"], int):
                raise InputError("the categorical features are not numbers")
            if not self.parts or len({part.name for part in self.parts}) < len(self.parts):
                raise InputError("it lists no parts, or one twice")
            found = tuple(sum(getattr(part, key) for part in self.parts) for key in ("queries", "documents"))
            if found != (self.n_queries, self.n_docs):
                raise InputError("the sizes of its parts do not add up")

    @cached_property
    def statistics(self) -> dict[str, Array]:
        """Statistics by name, each with one row for each part and one column for each feature."""
        shape = (len(self.parts), self.n_features)
        return {name: self._stored.array(name, (np.float64, np.int64), shape) for name in FIELDS}

    def moments(self) -> Moments:
        """Statistics of all parts together."""
        total = Moments.none(self.n_features)
        for row, part in enumerate(self.parts):
            own = {name: values[row] for name, values in self.statistics.items()}
            total = total.plus(Moments.from_stored(part.documents, own))
        return total

    @property
    def sources(self) -> list[PartSource]:
        """One for each part."""
        return [PartSource(str(self.path.absolute()), part) for part in self.parts]

    @property
    def n_bytes(self) -> int:
        """Size on disk."""
        return self._stored.n_bytes + sum(part.bytes for part in self.parts)

    def verify(self) -> None:
        """Read all of all parts and compare all checksums."""
        self._stored.verify()
        for source in self.sources:
            source.verify()


def is_parts(path: str | Path) -> bool:
    """Whether this is a folder of parts, going by its files."""
    folder = Path(path)
    if not (folder / MANIFEST).is_file() or (folder / HEADER).is_file():
        return False
    try:
        with open(folder / MANIFEST, "rb") as file:
            return PARTS.name.encode() in file.read(1 << 10)
    except OSError:
        return False


def read_manifest(path: str | Path) -> Manifest:
    """The manifest of a folder of parts.

    Examples
    --------
    >>> read_manifest("big.parts").n_docs  # doctest: +SKIP
    3771125
    """
    return Manifest(Container.open(path, PARTS))


def _entry(found: Any) -> PartEntry:
    entry = PartEntry(**{key: found[key] for key in ("name", "queries", "documents", "bytes", "crc32", "labels")})
    if not isinstance(entry.name, str) or Path(entry.name).name != entry.name or entry.name in ("", ".", ".."):
        raise InputError("the name of a part is not one")
    for key in ("queries", "documents", "bytes"):
        _count(getattr(entry, key), key)
    if entry.labels is not None:
        for label, count in entry.labels:
            if not isinstance(label, int | float) or not math.isfinite(label):
                raise InputError("a label is not a number")
            _count(count, f"documents with the label {label:g}")
    return entry


def _is_list(found: Any, kind: type, length: int | None = None) -> bool:
    right = isinstance(found, list) and all(isinstance(one, kind) for one in found)
    return right and (length is None or len(found) == length)


def _count(number: Any, what: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"the number of {what} is not a whole number")
    return number
