"""Parts: a folder of data folders, each with whole queries, and a manifest that describes them.

``big.parts/manifest.json`` has the format and its version, sizes and checksums of every part, and what all have in
common; the statistics of the features are arrays beside it, one row for each part, with sums in the digits of
`rankwright.data.statistics.Sums`. A part is a data folder like any other: it is mapped into memory where it is used.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.container import Container, Format, reason
from rankwright.data.dataset import RankingData
from rankwright.data.folder import FOLDER, HEADER, load_folder
from rankwright.data.statistics import Statistics, Sums
from rankwright.errors import InputError

Array = npt.NDArray[Any]
PARTS = Format(
    "rankwright-parts", "manifest.json", "folder of parts", "`rankwright convert --by-query`", is_folder=True, version=2
)
MANIFEST = PARTS.header
STATISTICS = ("least", "largest", "missing", "sums", "squares")
"""Arrays beside the manifest: parts × features, those of sums parts × digits × features."""

_LARGEST_POWER = 1 << 12  # of two: no square of a float64 needs more


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
    def statistics(self) -> list[Statistics]:
        """The statistics of each part; of categories, only how many are missing means anything."""
        if self.header["version"] < 2:
            what = "was written by an earlier version, whose statistics have no exact sums; expected parts made anew"
            raise InputError(
                f"{what}: rankwright convert {self.path} --by-query {len(self.parts)} -o NEW.parts", self.path
            )
        shape = (len(self.parts), self.n_features)
        low, high = (self._stored.array(name, np.float64, shape) for name in STATISTICS[:2])
        missing = self._stored.array("missing", np.int64, shape)
        digits = [self._stored.array(name, np.int64, (shape[0], None, shape[1])) for name in STATISTICS[3:]]
        with self._stored.understood():
            powers = [_power(self.header["powers"][name]) for name in STATISTICS[3:]]
        return [
            Statistics(part.documents, *ends, *(Sums(own, power) for own, power in zip(sums, powers, strict=True)))
            for part, *ends, sums in zip(self.parts, low, high, missing, zip(*digits, strict=True), strict=True)
        ]

    def total(self) -> Statistics | None:
        """The statistics of the features of all parts, as reading them gives them; None where they are not known."""
        if self.header["version"] < 2 or self.header["categorical"]:
            return None
        return reduce(Statistics.merge, self.statistics)

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


def _power(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > _LARGEST_POWER:
        raise InputError("the powers of the sums are not integers")
    return number


def _is_list(found: Any, kind: type, length: int | None = None) -> bool:
    right = isinstance(found, list) and all(isinstance(one, kind) for one in found)
    return right and (length is None or len(found) == length)


def _count(number: Any, what: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"the number of {what} is not a whole number")
    return number
