"""Writing a container: a JSON header and plain .npy arrays, in a single file or a folder; whole or not at all."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rankwright import __version__
from rankwright.data.container import NAME, Container, Format, checksum, parse_npy, reason
from rankwright.data.files import replace_file, replace_folder
from rankwright.data.open_folder import map_bytes
from rankwright.errors import InputError

__all__ = ["ArrayFile", "FolderWriter", "write_file", "write_folder", "writing"]

Array = npt.NDArray[Any]
_BLOCK_BYTES = 1 << 22
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
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for entry, content in {format.header: _header_text(format, facts, described), **contents}.items():
            info = zipfile.ZipInfo(entry, _EPOCH)
            info.create_system = 3  # the same bytes on every system
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    with replace_file(path) as out, writing(path), whole.getbuffer() as view:
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
        foreign = sorted({entry.name for entry in path.iterdir()} - names)
        if foreign:
            raise InputError(
                f"contains files that are not part of the {format.what} ({foreign[0]}); expected a new name", path
            )
    with replace_folder(path, format.header) as folder:
        yield FolderWriter(folder, path, format)


class FolderWriter:
    """Writes the arrays of a folder.

    Parameters
    ----------
    folder : path
        Where the files go.
    shown : path
        The final name of the folder, for messages.
    format : Format
        What to write.
    """

    def __init__(self, folder: Path, shown: Path, format: Format) -> None:
        self.folder, self.shown, self.format = folder, shown, format
        self._described: dict[str, Any] = {}

    def open(self, name: str, dtype: npt.DTypeLike) -> ArrayFile:
        """Start an array that is written piece by piece."""
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
            buffer = map_bytes(file)
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
    """An array on disk to which parts are appended; its length need not be known in advance.

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

    def append(self, part: Array | bytes) -> None:
        array = np.frombuffer(part, self._dtype) if isinstance(part, bytes) else np.ascontiguousarray(part, self._dtype)
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


def _storable(name: str, array: Any) -> Array:
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


@contextmanager
def writing(shown: Path) -> Iterator[None]:
    """Turn a system error, such as a full disk, into one line that names the target."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {reason(error)}", shown) from None


def _write(file: IO[bytes], data: Any) -> None:
    file.write(data)
