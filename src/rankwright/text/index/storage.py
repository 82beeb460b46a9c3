"""A folder of plain .npy arrays with a JSON header: written piece by piece, checked when opened, mapped into memory.

The header lists every file with its size and a CRC-32 and is written last: a folder without one is not complete.
Loading reads numbers and text only; it never runs code.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["HEADER", "ArrayFile", "ArrayWriter", "damaged", "load_array", "read_header", "verify_files"]

Array = npt.NDArray[Any]
HEADER = "index.json"
_FORMAT = "rankwright-index"
_VERSION = 1
_CHECK_BYTES = 1 << 22
_SMALL_BYTES = 1 << 12


class ArrayFile:
    """An array on disk to which parts are appended; its length need not be known before.

    Nothing is written through a memory map: where the disk is full, that would end the program.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, shown: Path) -> None:
        self._shown = shown
        self._dtype = np.dtype(dtype)
        self._length = 0
        try:
            self._file: IO[bytes] = open(path, "wb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise _unwritable(error, shown) from None
        self._write_head((0,))  # numpy leaves room there for the length to grow

    def append(self, part: Array | bytes) -> None:
        """Write more items at the end."""
        array = np.frombuffer(part, self._dtype) if isinstance(part, bytes) else np.ascontiguousarray(part, self._dtype)
        try:
            _write(self._file, array.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise _unwritable(error, self._shown) from None
        self._length += array.size

    def close(self) -> None:
        """Finish the file."""
        if self._file.closed:
            return
        try:
            self._file.seek(0)
            self._write_head((self._length,))
            self._file.close()
        except OSError as error:
            raise _unwritable(error, self._shown) from None

    def _write_head(self, shape: tuple[int, ...]) -> None:
        head = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        try:
            np.lib.format.write_array_header_1_0(self._file, head)
        except OSError as error:
            raise _unwritable(error, self._shown) from None

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


class ArrayWriter:
    """Writes the arrays of a folder.

    Parameters
    ----------
    folder : path
        Where the files go.
    shown : path
        What the folder will be called when it is complete, for messages.
    """

    def __init__(self, folder: Path, shown: Path) -> None:
        self.folder = folder
        self.shown = shown

    def open(self, name: str, dtype: npt.DTypeLike) -> ArrayFile:
        """Begin an array that is written in parts."""
        return ArrayFile(self.folder / f"{name}.npy", dtype, self.shown)

    def save(self, name: str, array: Array) -> None:
        """Write a whole array."""
        path = self.folder / f"{name}.npy"
        try:
            with open(path, "wb") as file:
                head = np.lib.format.header_data_from_array_1_0(np.ascontiguousarray(array))
                np.lib.format.write_array_header_1_0(file, head)
                _write(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise _unwritable(error, self.shown) from None

    def part(self, name: str) -> ArrayWriter:
        """A folder in this one for what is needed only for a while."""
        folder = self.folder / name
        try:
            folder.mkdir()
        except OSError as error:
            raise _unwritable(error, self.shown) from None
        return ArrayWriter(folder, self.shown)

    def finish(self, header: dict[str, Any]) -> None:
        """Write the header: the folder is complete."""
        files = {path.name: _size_and_sum(path) for path in sorted(self.folder.glob("*.npy"))}
        text = json.dumps({"format": _FORMAT, "version": _VERSION, **header, "files": files}, indent=1)
        try:
            with open(self.folder / HEADER, "wb") as file:
                _write(file, text.encode() + b"\n")
        except OSError as error:
            raise _unwritable(error, self.shown) from None


def read_header(path: Path) -> dict[str, Any]:
    """Read the header of a folder, and check that its files are there and have the right sizes."""
    if not path.exists():
        raise InputError("cannot be read: No such file or directory", path)
    if not (path / HEADER).is_file():
        raise InputError(f"is no Rankwright index, or not a complete one; expected a folder with {HEADER}", path)
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, f"{HEADER} cannot be read ({error})") from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InputError(f"is no Rankwright index; expected the format {_FORMAT!r} in {HEADER}", path)
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise damaged(path, f"the version in {HEADER} is {version!r}; expected {_VERSION}")
    if version > _VERSION:
        raise InputError(f"written by a newer Rankwright; version {version}, this one reads {_VERSION}", path)
    files = header.get("files")
    if not isinstance(files, dict):
        raise damaged(path, f"{HEADER} lists no files")
    for name, described in files.items():
        file = path / name
        if Path(name).name != name or not isinstance(described, dict) or not isinstance(described.get("bytes"), int):
            raise damaged(path, f"{HEADER} describes {name!r} in a way that cannot be understood")
        if not file.is_file():
            raise damaged(path, f"{name} is missing")
        if (found := file.stat().st_size) != described["bytes"]:
            raise damaged(path, f"{name} has {found:,} bytes; expected {described['bytes']:,}")
    return header


def load_array(path: Path, name: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]) -> Array:
    """Map an array into memory, read-only; None in ``shape`` stands for any length."""
    file = path / f"{name}.npy"
    try:
        # An empty array cannot be mapped; its file is short.
        small = file.stat().st_size <= _SMALL_BYTES
        found = np.load(file, mmap_mode=None if small else "r", allow_pickle=False)
    except OSError as error:
        raise damaged(path, f"{file.name} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, OverflowError, SyntaxError, TokenError) as error:  # of a mangled header
        raise damaged(path, f"{file.name} is no complete array ({error})") from None
    if not isinstance(found, np.ndarray) or found.dtype != dtype or not found.flags.c_contiguous:
        raise damaged(path, f"{file.name} holds {getattr(found, 'dtype', 'several arrays')}; expected {dtype}")
    if len(shape) != found.ndim or any(want not in (None, have) for want, have in zip(shape, found.shape, strict=True)):
        raise damaged(path, f"{file.name} has the shape {found.shape}; {HEADER} says otherwise")
    array = np.asarray(found).view()  # a plain array over the map: slices of it are plain arrays too
    array.flags.writeable = False
    return array


def verify_files(path: Path, files: dict[str, Any]) -> None:
    """Read every file and compare its checksum."""
    for name, described in files.items():
        try:
            found = _size_and_sum(path / name)
        except OSError as error:
            raise damaged(path, f"{name} cannot be read: {error.strerror or error}") from None
        if found != described:
            raise damaged(path, f"the checksum of {name} is {found['crc32']}; expected {described.get('crc32')}")


def damaged(path: Path, what: str) -> InputError:
    """The error for an index that cannot be used."""
    return InputError(f"damaged index: {what}", path)


def _size_and_sum(path: Path) -> dict[str, Any]:
    size = found = 0
    with open(path, "rb") as file:
        while part := file.read(_CHECK_BYTES):
            size += len(part)
            found = zlib.crc32(part, found)
    return {"bytes": size, "crc32": f"{found:08x}"}


def _write(file: IO[bytes], data: Any) -> None:
    file.write(data)


def _unwritable(error: OSError, shown: Path) -> InputError:
    return InputError(f"cannot be written: {error.strerror or error}", shown)
