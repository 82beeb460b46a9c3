"""The journal of a training run: its results in order, in a file that outlives its writer.

A file is a line that names the format, then records: length and CRC-32, then JSON (length first) and the bytes of
arrays. The first record is the key: everything that decides the result of training. Records are only appended. A
truncated or damaged record ends the file for its reader, who computes from there on, with the same results. Reading
never runs code.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, shown

try:
    import fcntl
except ImportError:  # this system has no such locks
    fcntl = None  # type: ignore[assignment]


_MAGIC = b"Rankwright journal 1\n"
_HEAD = struct.Struct("<QI")  # bytes and CRC-32 of a record
_LENGTH = struct.Struct("<I")  # bytes of its JSON
_DTYPE = re.compile(r"[<|][biuf][1248]")
_SYNC = 1.0  # seconds between syncs to disk


class Journal:
    """Results that outlive this process.

    `path`: the file. `key`: what decides the results, as JSON can hold it: fingerprints of data, parameters, the
    version. `resume`: whether to go on with the file that is there. Otherwise it starts anew. `recalled`, `recorded`:
    how many results came from the file, and how many were added to it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "a.journal"
    >>> with Journal(path, {"C": 1}) as journal:
    ...     print(journal.recall(lambda: {"w": np.ones(2)}))
    {'w': array([1., 1.])}
    >>> with Journal(path, {"C": 1}, resume=True) as journal:
    ...     print(journal.recall(lambda: {"w": np.zeros(2)}), journal.recalled)
    {'w': array([1., 1.])} 1
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, key: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = Path(path)
        self.recalled = self.recorded = 0
        self._synced = time.monotonic()
        readable = json.loads(json.dumps(key))
        try:
            self._file: IO[bytes] = open(self.path, "r+b" if resume else "a+b")  # noqa: SIM115 - closed by close
        except FileNotFoundError:
            raise InputError("does not exist, so there is nothing to resume; leave out --resume", self.path) from None
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self.path) from None
        try:
            self._claim()
            self._replays = resume
            if resume:
                _check_key(_first(self._file, self.path), readable, self.path)
            else:
                self._file.seek(0)
                self._file.truncate()
                self._write(_MAGIC)
                self._append({"key": readable}, {})
        except BaseException:
            self._file.close()
            raise

    def recall(self, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Array]:
        """The next result of the file; where there is none, the result of ``compute``, which is appended."""
        if self._replays:
            start = self._file.tell()
            record = _next_record(self._file)
            if record is not None:
                self.recalled += 1
                return record[1]
            self._replays = False
            self._file.seek(start)
            self._file.truncate()
        arrays = {name: _storable(name, array) for name, array in compute().items()}
        self._append({}, arrays)
        self.recorded += 1
        return arrays

    def close(self) -> None:
        if not self._file.closed:
            self._file.flush()
            self._file.close()

    def remove(self) -> None:
        """Close and remove the file: the work is done."""
        self.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        described = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
        text = json.dumps({**facts, "arrays": described}).encode()
        record = b"".join((_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays.values())))
        self._write(_HEAD.pack(len(record), zlib.crc32(record)) + record)

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()  # outlives this process
            if time.monotonic() - self._synced > _SYNC:
                os.fsync(self._file.fileno())  # outlives the machine
                self._synced = time.monotonic()
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self.path) from None

    def _claim(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "is being written by another training run"
            raise InputError(f"{problem}; expected no other writer", self.path) from None
        except OSError:
            return  # no locks there


def read_key(path: str | Path) -> Any:
    """The key that a journal was written for; None without a journal or if it is empty."""
    try:
        with open(path, "rb") as file:
            return _first(file, Path(path))
    except (OSError, InputError):
        return None


def _first(file: IO[bytes], path: Path) -> Any:
    file.seek(0)
    record = _next_record(file) if file.read(len(_MAGIC)) == _MAGIC else None
    if record is None or "key" not in record[0]:
        raise InputError("is not a journal that can be resumed; leave out --resume to start over", path)
    return record[0]["key"]


def _check_key(there: Any, here: Any, path: Path) -> None:
    """Refuse the journal of a different training run, and say what differs."""
    if there == here:
        return
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    values = f"{names[0]} was {shown(there.get(names[0]))} and is {shown(here.get(names[0]))}"
    raise InputError(
        f"belongs to another training run: {values}; expected the same, or no --resume to start over", path
    )


def _next_record(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Read the next record, JSON and arrays; None at the end of the file or if the record is incomplete."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, total = _HEAD.unpack(head)
    remaining = os.fstat(file.fileno()).st_size - file.tell()
    record = file.read(length) if length <= remaining else b""
    if len(record) < max(length, _LENGTH.size) or zlib.crc32(record) != total:
        return None
    try:
        return _parsed(record)
    except (KeyError, TypeError, ValueError):
        return None


def _parsed(record: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    at = _LENGTH.size + _LENGTH.unpack_from(record)[0]
    facts = json.loads(record[_LENGTH.size : at])
    arrays = {}
    for name, (dtype, shape) in facts.pop("arrays").items():
        if not _DTYPE.fullmatch(dtype):
            raise ValueError(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(record, dtype, count, at).reshape(shape).copy()
        at += arrays[name].nbytes
    return facts, arrays


def _storable(name: str, array: Array) -> Array:
    values = np.array(array, order="C")
    values = values.astype(values.dtype.newbyteorder("<"))
    if not _DTYPE.fullmatch(values.dtype.str):
        raise TypeError(f"a journal holds numbers; {name!r} is of type {values.dtype}")
    return values
