"""Partitions: a folder of data folders, each with whole queries, and a manifest that describes them.

``big.partitions/manifest.json`` has the format and its version, sizes and checksums of every partition, and what all
have in common; the statistics of the features are arrays beside it, one row for each partition, with sums in the digits
of `rankwright.data.statistics.Sums`. A partition is a data folder like any other: it is mapped into memory where it is
used.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.statistics import Statistics, Sums
from rankwright.errors import InputError
from rankwright.io.container import ArrayFile, Container, FolderWriter, Format, write_folder
from rankwright.io.files import reason
from rankwright.io.folder import FOLDER, HEADER, checked_count, checked_names, folder_facts, load_folder, save_sparse
from rankwright.io.parquet import ParquetTable, pieces_of, read_table
from rankwright.io.roles import named_columns, settings_in

PARTITIONS = Format(
    "rankwright-partitions",
    "manifest.json",
    "folder of partitions",
    "`rankwright convert --by-query`",
    is_folder=True,
    version=2,
)
MANIFEST = PARTITIONS.header
STATISTICS = ("least", "largest", "missing", "sums", "squares")
"""Arrays beside the manifest: partitions × features, those of sums partitions × digits × features."""

_LARGEST_POWER = 1 << 12  # of two: no square of a float64 needs more


@dataclass(frozen=True)
class PartitionEntry:
    """A partition, as the manifest has it.

    `name`: its folder. `bytes`: its size on disk. `crc32`: checksum of its header, which has those of its arrays.
    `labels`: labels and how often each occurs, ascending; None if there are too many different ones.
    """

    name: str
    queries: int
    documents: int
    bytes: int
    crc32: str
    labels: list[list[float]] | None = None


@dataclass(frozen=True)
class PartitionSource:
    """Where a partition is loaded from: a path and what the manifest says about it. Travels to whoever loads it."""

    folder: str
    entry: PartitionEntry

    @property
    def name(self) -> str:
        return self.entry.name

    def load(self) -> RankingData:
        """The partition, its features mapped; sizes and the checksum of its header are compared."""
        self._opened()
        return load_folder(Path(self.folder) / self.name)

    def verify(self) -> None:
        self._opened().verify()

    def _opened(self) -> Container:
        path = Path(self.folder) / self.name
        try:
            checksum = header_sum(path)
        except OSError as error:
            raise PARTITIONS.damaged(Path(self.folder), f"{self.name} cannot be read: {reason(error)}") from None
        if checksum != self.entry.crc32:
            what = f"the checksum of {self.name}/{HEADER} is {checksum}; expected {self.entry.crc32}"
            raise PARTITIONS.damaged(Path(self.folder), what)
        opened = Container.open(path, FOLDER)
        size = (opened.header.get("queries"), opened.header.get("documents"), opened.n_bytes)
        if size != (self.entry.queries, self.entry.documents, self.entry.bytes):
            raise PARTITIONS.damaged(Path(self.folder), f"{self.name} has another size than {MANIFEST} says")
        return opened


def header_sum(path: Path) -> str:
    return f"{zlib.crc32((path / HEADER).read_bytes()):08x}"


class Manifest:
    """What is known of a folder of partitions without opening them.

    `header`: all of ``manifest.json``. `n_queries`, `n_docs`, `n_features`: of all partitions together. `names`: names
    of the features.
    """

    def __init__(self, stored: Container) -> None:
        self.path, self.header, self._stored = stored.path, stored.header, stored
        with stored.understood():
            self.partitions = [_entry(sizes) for sizes in self.header["partitions"]]
            self.n_queries, self.n_docs, self.n_features = (
                checked_count(self.header[key], key) for key in ("queries", "documents", "features")
            )
            self.names = checked_names(self.header["feature_names"], self.n_features)
            categorical = self.header["categorical"]
            if not isinstance(categorical, list) or not all(isinstance(column, int) for column in categorical):
                raise InputError("the categorical features are not numbers")
            if not self.partitions or len({partition.name for partition in self.partitions}) < len(self.partitions):
                raise InputError("it lists no partitions, or one twice")
            sizes = tuple(
                sum(getattr(partition, key) for partition in self.partitions) for key in ("queries", "documents")
            )
            if sizes != (self.n_queries, self.n_docs):
                raise InputError("the sizes of its partitions do not add up")

    @cached_property
    def statistics(self) -> list[Statistics]:
        """The statistics of each partition; of categories, only how many are missing means anything."""
        if self.header["version"] < 2:
            what = (
                "was written by an earlier version, whose statistics have no exact sums; expected partitions made anew"
            )
            command = f"rankwright convert {self.path} --by-query {len(self.partitions)} -o NEW.partitions"
            raise InputError(f"{what}: {command}", self.path)
        shape = (len(self.partitions), self.n_features)
        low, high = (self._stored.array(name, np.float64, shape) for name in STATISTICS[:2])
        missing = self._stored.array("missing", np.int64, shape)
        digits = [self._stored.array(name, np.int64, (shape[0], None, shape[1])) for name in STATISTICS[3:]]
        with self._stored.understood():
            powers = [_power(self.header["powers"][name]) for name in STATISTICS[3:]]
        return [
            Statistics(
                partition.documents,
                *ends,
                *(Sums(of_partition, power) for of_partition, power in zip(sums, powers, strict=True)),
            )
            for partition, *ends, sums in zip(
                self.partitions, low, high, missing, zip(*digits, strict=True), strict=True
            )
        ]

    def total(self) -> Statistics | None:
        """The statistics of the features of all partitions together; None where they are not known."""
        if self.header["version"] < 2 or self.header["categorical"]:
            return None
        return reduce(Statistics.merge, self.statistics)

    @property
    def sources(self) -> list[PartitionSource]:
        return [PartitionSource(str(self.path.absolute()), partition) for partition in self.partitions]

    @property
    def n_bytes(self) -> int:
        return self._stored.n_bytes + sum(partition.bytes for partition in self.partitions)

    def verify(self) -> None:
        """Read everything and compare all checksums."""
        self._stored.verify()
        for source in self.sources:
            source.verify()


def is_partitions(path: str | Path) -> bool:
    """Whether this is a folder of partitions, going by its files."""
    folder = Path(path)
    if not (folder / MANIFEST).is_file() or (folder / HEADER).is_file():
        return False
    try:
        with open(folder / MANIFEST, "rb") as file:
            return PARTITIONS.name.encode() in file.read(1 << 10)
    except OSError:
        return False


def read_manifest(path: str | Path) -> Manifest:
    return Manifest(Container.open(path, PARTITIONS))


def _entry(stored: Any) -> PartitionEntry:
    entry = PartitionEntry(**{key: stored[key] for key in ("name", "queries", "documents", "bytes", "crc32", "labels")})
    if not isinstance(entry.name, str) or Path(entry.name).name != entry.name or entry.name in ("", ".", ".."):
        raise InputError("the name of a partition is not one")
    for key in ("queries", "documents", "bytes"):
        checked_count(getattr(entry, key), key)
    if entry.labels is not None:
        for label, count in entry.labels:
            if not isinstance(label, int | float) or not math.isfinite(label):
                raise InputError("a label is not a number")
            checked_count(count, f"documents with the label {label:g}")
    return entry


def _power(number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > _LARGEST_POWER:
        raise InputError("the powers of the sums are not integers")
    return number


# Partitions that another program made: Parquet files or data folders in a folder, used as they are.


@dataclass(frozen=True)
class PieceSource:
    """Where a piece is loaded from; travels to whoever loads it.

    `name`: its path within the folder of pieces, for messages. Of a Parquet file, `features`: its columns, in the order
    that all files have; `dtype`: the type that holds the features of all; `keys`: what the names of its folders say,
    such as ``qid=17``; `columns`: columns by role.
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
        raise InputError("is not a folder of partitions, of Parquet files or of data folders; expected one", folder)
    top = Path(folder).absolute()
    if pieces[0].kind == "folder":
        if named_columns(columns) or features is not None:
            raise InputError("has no columns to name; expected Parquet files", folder)
        counts = [Container.open(piece.path, FOLDER).header.get("documents", 0) for piece in pieces]
        return [
            PieceSource(str(top / piece.name), piece.name, "folder", count)
            for piece, count in zip(pieces, counts, strict=True)
        ]
    table = ParquetTable(folder, columns=columns, features=features)
    names, dtype, layout = tuple(table.features), table.dtype.str, table.layout
    given = {"qid": layout.qid, "label": layout.label or "", "docid": layout.docid or ""}
    given["categorical"] = "\n".join(layout.categorical)
    roles = {role: name for role, name in given.items() if name} | settings_in(columns)
    roles["holds"] = "\n".join(f"{name}={kind}" for name, kind in layout.values.items())
    return [
        PieceSource(str(top / piece.name), piece.name, "parquet", file.n_rows, names, dtype, file.keys, roles)
        for piece, file in zip(pieces, table.files, strict=True)
        if file.n_rows
    ]


# Joining partitions: all of them in one data folder, copied in blocks.


_BLOCK_BYTES = 1 << 22


def join_partitions(manifest: Manifest, path: Path) -> None:
    """Write the data of all partitions, in their order, into one data folder."""
    sources = manifest.sources
    first = sources[0].load()
    total = (manifest.n_docs, manifest.n_queries, manifest.n_features)

    def partitions() -> Iterator[RankingData]:
        for source in sources:
            partition = source.load()
            if partition.n_features != first.n_features or partition.X.dtype != first.X.dtype:
                raise InputError(f"{source.name} has other features than {sources[0].name}", manifest.path)
            yield partition

    with write_folder(path, FOLDER) as writer:
        _append(writer, "labels", [partition.labels for partition in partitions()], None)
        _append(writer, "query_ids", [partition.query_ids for partition in partitions()], None)
        if first.doc_ids is not None:
            _append(writer, "doc_ids", [np.asarray(partition.doc_ids) for partition in partitions()], None)
        bounds = [np.zeros(1, np.int64)]
        for partition in partitions():
            bounds.append(partition.indptr[1:] + bounds[-1][-1])
        _append(writer, "indptr", bounds, None)
        if first.is_sparse:
            n_stored = sum(len(partition.X.data) for partition in partitions())
            save_sparse(writer, first.X.dtype, n_stored, (partition.X for partition in partitions()))
        else:
            _append(writer, "X", [partition.X for partition in partitions()], (total[0], total[2]))
        writer.finish(folder_facts(*total, first.is_sparse, first.feature_names, first.categories))


def _append(writer: FolderWriter, name: str, arrays: Sequence[Array], shape: tuple[int, ...] | None) -> None:
    dtype = np.result_type(*(array.dtype for array in arrays))
    with ArrayFile(writer, name, dtype, shape) as file:
        for array in arrays:
            step = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
            for start in range(0, len(array), step):
                file.append(array[start : start + step])
