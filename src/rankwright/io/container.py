"""The container: a JSON header and plain .npy arrays, which is how models, indexes and data folders are stored.

There are two forms, with the same header and the same checks. A folder holds the header and one file per array: arrays
are written in pieces and mapped into memory, so they may be larger than it. A single file is an uncompressed zip
archive of the same files, read whole: a model is something to copy and send.

The header names the format and its version and describes each array by type, shape, size on disk and CRC-32 of its
values; in a folder it is written last. Reading takes numbers and text only and never runs code: array headers are
matched by a pattern, because numpy's own reader evaluates them. Anything else raises a one-line :class:`InputError`.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import stat
import struct
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rankwright import __version__
from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.io.files import (
    OpenFile,
    Source,
    open_file,
    reading,
    reason,
    recover,
    replace_file,
    replace_folder,
    writing,
)

NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biuf][1248]|<U[1-9][0-9]*)', 'fortran_order': False, "
    rb"'shape': \(([0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_HEAD_BYTES = 10 + (1 << 16)
_BLOCK_BYTES = 1 << 22
_MOST_FILES = 100  # files held open; others are opened on use
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IS_RELATIVE = os.open in os.supports_dir_fd
_CHEAP_BYTES = 1 << 18  # arrays of a folder whose checksums are verified on reading
_MOST_SIDES = 8
_LOOKS = 5
_LAST_CHARACTER = 0x10FFFF
ZIP = b"PK\x03\x04"
_BROKEN_ZIP = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError, ValueError, OverflowError, struct.error,
    zlib.error,
)  # fmt: skip
_DESCRIPTION = {"dtype": str, "shape": list, "bytes": int, "crc32": str}


@dataclass(frozen=True)
class Format:
    """A kind of container.

    `name`: the format in the header. `header`: the name of the header; in a single file it comes first. `what`: its
    name in messages. `written_by`: the command that writes it. `version`: the one written, and the latest that is read.
    """

    name: str
    header: str
    what: str
    written_by: str
    is_folder: bool
    version: int = 1

    def damaged(self, path: Path, what: str) -> InputError:
        return InputError(f"damaged {self.what}: {what}", path)

    def foreign(self, path: Path, why: str) -> InputError:
        return InputError(f"not a Rankwright {self.what}: {why}; expected one written by {self.written_by}", path)


class Folder:
    """The files of an open folder; they stay the same even if another folder takes its name.

    All are opened with the folder, relative to its descriptor and not to its path, and mapped into memory on first use,
    so a reader never mixes two versions.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int | None] = {}
        self._maps: dict[str, Array] = {}
        self._close = weakref.finalize(self, _close, self._open)
        self._inode = self._folder = None
        if _IS_RELATIVE and path.is_dir():
            with reading(path), suppress(FileNotFoundError):  # between the two steps of being replaced
                self._folder = self._open[""] = os.open(path, _FLAGS)
                self._inode = os.fstat(self._folder).st_ino

    @property
    def is_replaced(self) -> bool:
        """Whether the path now leads to another folder, or nowhere."""
        try:
            about = os.stat(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return _IS_RELATIVE and stat.S_ISDIR(about.st_mode) and about.st_ino != self._inode

    def size(self, name: str) -> int | None:
        """Bytes of a file, which stays open; None if it is missing."""
        if name not in self._sizes:
            try:
                descriptor = self._opened(name)
            except OSError:
                self._sizes[name] = None
                return None
            about = os.fstat(descriptor)
            self._sizes[name] = about.st_size if stat.S_ISREG(about.st_mode) else None
            if self._sizes[name] is None or len(self._open) >= _MOST_FILES:
                os.close(descriptor)
            else:
                self._open[name] = descriptor
        return self._sizes[name]

    def read(self, name: str) -> bytes:
        with self._file(name) as file:
            return file.read()

    def map(self, name: str) -> Array:
        if name not in self._maps:
            with self._file(name) as file:
                self._maps[name] = np.memmap(file, np.uint8, "r")
        return self._maps[name]

    def _opened(self, name: str) -> int:
        if self._folder is None:
            return os.open(self.path / name, _FLAGS)
        return os.open(name, _FLAGS, dir_fd=self._folder)

    def _file(self, name: str) -> IO[bytes]:
        opened = self._open.pop(name, None)
        descriptor = self._opened(name) if opened is None else opened
        return open(self.path / name, "rb", opener=lambda _, __: descriptor)


def _close(descriptors: dict[str, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])


class Container:
    """An open container. Its header and the sizes of its arrays are checked; arrays are checked when they are read."""

    def __init__(self, path: Path, format: Format, header: dict[str, Any], members: _Members) -> None:
        self.path, self.format, self.header = path, format, header
        self._described: dict[str, dict[str, Any]] = header["arrays"]
        self._members = members
        for name, described in self._described.items():
            file = f"{name}.npy"
            if (size := members.size(file)) is None:
                raise self.damaged(f"{file} is missing")
            if size != described["bytes"]:
                raise self.damaged(f"{file} has {size:,} bytes; expected {described['bytes']:,}")
        self.n_bytes = sum(members.size(f"{name}.npy") or 0 for name in self._described)
        self.n_bytes += members.size(format.header) or 0

    @classmethod
    def open(cls, source: Source, format: Format) -> Container:
        """Open a folder or read a file; while a folder is being replaced, either the old or the new one."""
        path = Path(source.path if isinstance(source, OpenFile) else source)
        if not format.is_folder:
            _check_exists(path)
            file = _File(source, path, format)
            return cls(path, format, _checked_header(path, format, file.read(format.header)), file)
        while True:
            _check_exists(path)
            folder = None
            try:
                folder = Folder(path)
                if folder.size(format.header) is None:
                    raise format.foreign(path, f"there is no {format.header} in it, or it is not complete")
                try:
                    text = folder.read(format.header)
                except OSError as error:
                    raise format.damaged(path, f"{format.header} cannot be read: {reason(error)}") from None
                header = _checked_header(path, format, text)
                return cls(path, format, header, folder)
            except InputError:
                if folder is None or not folder.is_replaced:
                    raise

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._described)

    def array(
        self, name: str, types: type | tuple[type, ...], shape: tuple[int | None, ...] | None, *, copy: bool = False
    ) -> Array:
        """An array, read-only; mapped into memory from a folder.

        `name`: its name. `types`: the types it may have, such as ``np.float64`` or ``(np.integer, np.str_)``. `shape`:
        its shape, None in it for any length, and None for any shape. `copy`: read it into memory instead of mapping it.
        """
        if name not in self._described:
            raise self.damaged(f"{name}.npy is missing")
        buffer, start, array = self._parsed(name)
        kinds = types if isinstance(types, tuple) else (types,)
        if not any(np.issubdtype(array.dtype, kind) for kind in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise self.damaged(f"{name}.npy holds {array.dtype}; expected {expected}")
        if shape is not None and not _fits(array.shape, shape):
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            raise self.damaged(f"{name}.npy has the shape {array.shape}; expected ({expected})")
        if not self.format.is_folder or buffer.size <= _CHEAP_BYTES:
            self._check_sum(name, buffer[start:])
        if array.dtype.kind == "U" and array.size and array.reshape(-1).view("<u4").max() > _LAST_CHARACTER:
            raise self.damaged(f"{name}.npy holds something that is not text")
        if copy or not (array.dtype.isnative and array.flags.aligned):
            array = np.array(array, array.dtype.newbyteorder("="))
        array = np.asarray(array)  # a plain array over the map: slices of it are plain arrays too
        array.flags.writeable = False
        return array

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Read all arrays, or some, and compare their checksums."""
        for name in self._described if names is None else names:
            buffer, start, _ = self._parsed(name)
            self._check_sum(name, buffer[start:])

    def damaged(self, what: str) -> InputError:
        return self.format.damaged(self.path, what)

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Report any failure to interpret the header in one line."""
        try:
            yield
        except InputError as error:
            raise (error if error.path is not None else self.damaged(error.message)) from None
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self.damaged(f"{self.format.header} is incomplete ({error!r})") from None

    def _parsed(self, name: str) -> tuple[Array, int, Array]:
        """The bytes of an array's file, the offset of its values, and the values."""
        file = f"{name}.npy"
        try:
            buffer = self._members.map(file)
        except (OSError, ValueError) as error:
            raise self.damaged(f"{file} cannot be read: {reason(error)}") from None
        parsed = parse_npy(buffer)
        if parsed is None:
            raise self.damaged(f"{file} is not a plain array")
        start, dtype, shape = parsed
        n_bytes = buffer.size - start
        if math.prod(shape) * dtype.itemsize != n_bytes:
            raise self.damaged(f"{file} holds {n_bytes:,} bytes for {dtype} of shape {shape}")
        described = self._described[name]
        if (described["dtype"], described["shape"]) != (dtype.str, list(shape)):
            raise self.damaged(f"{file} holds {dtype} of shape {shape}; {self.format.header} says otherwise")
        return buffer, start, buffer[start:].view(dtype).reshape(shape)

    def _check_sum(self, name: str, values: Array) -> None:
        actual, expected = checksum(values), self._described[name]["crc32"]
        if actual != expected:
            raise self.damaged(f"the checksum of {name}.npy is {actual}; expected {expected}")


class _File:
    """The entries of an uncompressed zip archive, in memory: no more bytes than the file has."""

    def __init__(self, source: Source, path: Path, format: Format) -> None:
        if path.is_dir():
            raise format.foreign(path, "it is a folder")
        try:
            with reading(path), open_file(source, as_it_is=True) as file:
                if file.start(len(ZIP)) != ZIP:
                    raise format.foreign(path, "it starts with other bytes")
                with zipfile.ZipFile(file.raw) as archive:
                    self._check(path, format, archive, os.fstat(file.raw.fileno()).st_size)
                    self._entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        except InputError:
            raise
        except _BROKEN_ZIP as error:
            raise format.damaged(path, f"it is not complete ({reason(error)})") from None

    @staticmethod
    def _check(path: Path, format: Format, archive: zipfile.ZipFile, size: int) -> None:
        entries = archive.infolist()
        if format.header not in archive.namelist():
            raise format.foreign(path, f"it is a zip archive without {format.header}")
        if len(set(archive.namelist())) < len(entries):
            raise format.damaged(path, "two entries have the same name")
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
                raise format.damaged(path, f"{entry.filename} is compressed or encrypted; expected plain entries")
        if sum(max(entry.file_size, entry.compress_size) for entry in entries) > size:
            raise format.damaged(path, f"its entries claim more than the {size:,} bytes of the file")

    def size(self, name: str) -> int | None:
        """Bytes of an entry; None if it is missing."""
        return len(self._entries[name]) if name in self._entries else None

    def read(self, name: str) -> bytes:
        return self._entries[name]

    def map(self, name: str) -> Array:
        return np.frombuffer(self._entries[name], np.uint8)


_Members = Folder | _File


def _check_exists(path: Path) -> None:
    for _ in range(_LOOKS):  # another process may be between the two steps of replacing it
        if path.exists():
            return
        recover(path)
    raise InputError("cannot be read: No such file or directory", path)


def _checked_header(path: Path, format: Format, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise format.damaged(path, f"{format.header} cannot be read ({reason(error)})") from None
    if not isinstance(header, dict) or header.get("format") != format.name:
        raise format.foreign(path, f"the format in {format.header} is not {format.name!r}")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise format.damaged(path, f"the version in {format.header} is {version!r}; expected {format.version}")
    if version > format.version:
        raise InputError(f"written by a newer Rankwright: version {version}, this one reads {format.version}", path)
    arrays = header.get("arrays")
    if not isinstance(arrays, dict):
        raise format.damaged(path, f"{format.header} lists no arrays")
    for name, described in arrays.items():
        if not (NAME.fullmatch(name) and isinstance(described, dict) and described.keys() == _DESCRIPTION.keys()):
            raise format.damaged(path, f"{format.header} describes the array {name!r} incompletely")
        if not all(isinstance(described[key], kind) for key, kind in _DESCRIPTION.items()):
            raise format.damaged(path, f"{format.header} describes the array {name!r} incompletely")
    return header


def parse_npy(buffer: Array) -> tuple[int, np.dtype[Any], tuple[int, ...]] | None:
    """Offset, type and shape of the values of an .npy file; None for anything but a plain array."""
    head = buffer[:_HEAD_BYTES].tobytes()
    header = _NPY.match(head)
    if header is None or header.end() != 10 + int.from_bytes(head[8:10], "little"):
        return None
    try:
        shape = tuple(int(side) for side in header[2].split(b",") if side.strip())
        dtype = np.dtype(header[1].decode())
    except (TypeError, ValueError, OverflowError):
        return None
    sound = len(shape) <= _MOST_SIDES and max(shape, default=0) < 1 << 48
    return (header.end(), dtype, shape) if sound else None


def _fits(actual: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(actual) == len(shape) and all(n in (None, m) for n, m in zip(shape, actual, strict=True))


def checksum(values: Array) -> str:
    crc = 0
    for at in range(0, values.size, _BLOCK_BYTES):
        crc = zlib.crc32(values[at : at + _BLOCK_BYTES].data, crc)
    return f"{crc:08x}"


# Writing a container: a JSON header and plain .npy arrays, in a single file or a folder; whole or not at all.


_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip entries need a date; a fixed one keeps files the same


def write_file(path: Path, format: Format, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a container as a single file, which appears under its name only when it is complete.

    The same content gives the same bytes.
    """
    contents, described = {}, {}
    for name, array in arrays.items():
        values = _storable(name, array)
        stream = io.BytesIO()
        np.lib.format.write_array(stream, values, version=(1, 0), allow_pickle=False)
        contents[f"{name}.npy"] = stream.getvalue()
        described[name] = _description(
            values.dtype, values.shape, len(contents[f"{name}.npy"]), checksum(_bytes(values))
        )
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w", zipfile.ZIP_STORED) as archive:
        for entry, content in {format.header: _header_text(format, facts, described), **contents}.items():
            info = zipfile.ZipInfo(entry, _EPOCH)
            info.create_system = 3  # the same bytes on every system
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    with replace_file(path) as out, writing(path), archive_bytes.getbuffer() as view:
        _write(out, view)


@contextmanager
def write_folder(path: Path, format: Format) -> Iterator[FolderWriter]:
    """Write a container as a folder, which appears under its name only if the block succeeds.

    An existing one is replaced unless it contains other files.
    """
    if (path / format.header).is_file():
        try:
            names = {format.header, *(f"{name}.npy" for name in Container.open(path, format).names)}
        except InputError:
            names = {format.header, *(entry.name for entry in path.glob("*.npy"))}
        check_foreign(path, format, names)
    with replace_folder(path, format.header) as folder:
        yield FolderWriter(folder, path, format)


def check_foreign(path: Path, format: Format, names: Set[str]) -> None:
    """Refuse to replace a folder with other files than these."""
    foreign = sorted({entry.name for entry in path.iterdir()} - names)
    if foreign:
        problem = f"contains files that are not part of the {format.what} ({foreign[0]})"
        raise InputError(f"{problem}; expected a new name", path)


class FolderWriter:
    """Writes the arrays of a folder; `shown` is its final name, for messages."""

    def __init__(self, folder: Path, shown: Path, format: Format) -> None:
        self.folder, self.shown, self.format = folder, shown, format
        self._described: dict[str, Any] = {}

    def open(self, name: str, dtype: npt.DTypeLike) -> ArrayFile:
        return ArrayFile(self, name, dtype)

    def save(self, name: str, array: Array) -> None:
        values = _storable(name, array)
        with ArrayFile(self, name, values.dtype, values.shape) as file:
            file.append(values)

    def link(self, name: str, stored: Container) -> None:
        """Take over another folder's array unchanged: a hard link, or a copy where links are impossible."""
        source, target = stored.path / f"{name}.npy", self.folder / f"{name}.npy"
        with writing(self.shown):
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)
        self._described[name] = stored.header["arrays"][name]

    def load(self, name: str) -> Array:
        """A finished array, mapped into memory."""
        with open(self.folder / f"{name}.npy", "rb") as file:
            buffer = np.memmap(file, np.uint8, "r")
        parsed = parse_npy(buffer)
        assert parsed is not None
        return np.asarray(buffer[parsed[0] :].view(parsed[1]).reshape(parsed[2]))

    def part(self, name: str) -> FolderWriter:
        folder = self.folder / name
        with writing(self.shown):
            folder.mkdir()
        return FolderWriter(folder, self.shown, self.format)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write the header, which makes the folder complete."""
        described = dict(sorted(self._described.items()))
        with writing(self.shown), open(self.folder / self.format.header, "wb") as file:
            _write(file, _header_text(self.format, facts, described))


class ArrayFile:
    """An array on disk to which pieces are appended; its length need not be known in advance.

    Nothing is written through a memory map: a full disk would then end the program.
    """

    def __init__(
        self, writer: FolderWriter, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...] | None = None
    ) -> None:
        self._writer, self._name, self._shape = writer, name, shape
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._length = self._sum = 0
        with writing(writer.shown):
            self._file: IO[bytes] = open(writer.folder / f"{name}.npy", "wb")  # noqa: SIM115 - closed below
            self._write_head((0,) if shape is None else shape)  # numpy leaves room there for the length to grow

    def append(self, piece: Array | bytes) -> None:
        is_bytes = isinstance(piece, bytes)
        array = np.frombuffer(piece, self._dtype) if is_bytes else np.ascontiguousarray(piece, self._dtype)
        values = _bytes(array)
        with writing(self._writer.shown):
            for start in range(0, values.size, _BLOCK_BYTES):
                block = values[start : start + _BLOCK_BYTES].data
                self._sum = zlib.crc32(block, self._sum)
                _write(self._file, block)
        self._length += array.size

    def close(self) -> None:
        if self._file.closed:
            return
        shape = (self._length,) if self._shape is None else self._shape
        with writing(self._writer.shown):
            size = self._file.tell()
            if self._shape is None:
                self._file.seek(0)
                self._write_head(shape)
            self._file.close()
        self._writer._described[self._name] = _description(self._dtype, shape, size, f"{self._sum:08x}")

    def _write_head(self, shape: tuple[int, ...]) -> None:
        head = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, head)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        with suppress(OSError):
            self._file.close()


def _storable(name: str, array: Array) -> Array:
    if not NAME.fullmatch(name):
        raise InputError(f"an array cannot be called {name!r}; expected letters, digits, _ and -")
    array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
    if array.dtype.kind not in "biufU" or (array.dtype.kind != "U" and array.dtype.itemsize > 8):
        raise InputError(f"the array {name} holds {array.dtype}; expected numbers of at most 8 bytes or text")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _description(dtype: np.dtype[Any], shape: tuple[int, ...], size: int, total: str) -> dict[str, Any]:
    return {"dtype": dtype.str, "shape": list(shape), "bytes": size, "crc32": total}


def _header_text(format: Format, facts: Mapping[str, Any], described: Mapping[str, Any]) -> bytes:
    start = {"format": format.name, "version": format.version, "rankwright": __version__}
    text = json.dumps({**start, **facts, "arrays": described}, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")  # half of a surrogate pair becomes its JSON escape


def _write(file: IO[bytes], data: Any) -> None:
    file.write(data)
