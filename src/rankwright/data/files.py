"""Files: plain or gzip in, opened once; whole or nothing out.

A file that cannot be read raises :class:`InputError`. Files are written under a temporary name beside the target and
renamed when complete, so a failure never leaves half a file (:mod:`rankwright.data.temporary`).
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from rankwright.data.pipes import open_plain
from rankwright.data.temporary import claim_file, claim_folder, put_file, put_folder, recover
from rankwright.data.unpacking import Unpacked
from rankwright.errors import InputError

__all__ = ["OpenFile", "Progress", "Source", "line_chunks", "open_file", "replace_file", "replace_folder"]

Progress = Callable[[int, int], None]
"""Called with (bytes read, total bytes) of the file on disk."""

CHUNK_BYTES = 1 << 23
LONGEST_LINE = 1 << 26
_PACKED_LEAST, _PACKED_MOST = 1 << 24, 100  # a gzip file may unpack to this many bytes plus this many times its size


@dataclass(frozen=True)
class OpenFile:
    """A file that is opened once: its start tells what it is, then it is read from there.

    Attributes
    ----------
    path : str or Path
        The name it was opened by, for messages.
    raw : file
        The bytes on disk.
    """

    path: str | Path
    raw: IO[bytes]

    def start(self, size: int) -> bytes:
        self.raw.seek(0)
        return self.raw.read(size)

    def chunks(self, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The uncompressed bytes from the start, in pieces of about ``size`` bytes that end with a line."""
        is_gzip = self.is_gzip
        plain = self._plain()
        total = os.fstat(self.raw.fileno()).st_size
        unfinished: list[bytes] = []  # of a line that has not ended
        n_rest = n_bytes = 0
        while True:
            piece = self._read(plain, size)
            if progress is not None:
                progress(plain.tell(), total)
            if not piece:
                break
            n_bytes += len(piece)
            if is_gzip and n_bytes > _PACKED_LEAST + _PACKED_MOST * plain.tell():
                problem = f"unpacks to more than {_PACKED_MOST} times its size"
                raise InputError(f"{problem}; expected text, or the unpacked file", self.path)
            first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
            if n_rest + (first or len(piece)) > LONGEST_LINE:
                problem = f"a line of more than {LONGEST_LINE:,} bytes; expected shorter lines"
                raise InputError(problem, self.path, self._n_lines(n_bytes - len(piece), size) + 1)
            if end:
                yield b"".join([*unfinished, memoryview(piece)[:end]])
                unfinished, n_rest = [], 0
            unfinished.append(piece[end:])
            n_rest += len(piece) - end
        if n_rest:
            yield b"".join(unfinished)

    @property
    def is_gzip(self) -> bool:
        return self.start(2) == b"\x1f\x8b"

    def _plain(self) -> IO[bytes] | Unpacked:
        """The stream of uncompressed bytes, from the start."""
        plain = Unpacked(self.raw) if self.is_gzip else self.raw
        self.raw.seek(0)
        return plain

    def _read(self, plain: IO[bytes] | Unpacked, size: int) -> bytes:
        try:
            return plain.read(size)
        except (EOFError, zlib.error) as error:
            reason = str(error).rstrip(".")
            problem = f"damaged or truncated gzip file ({reason}); expected a complete one"
            raise InputError(problem, self.path) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None

    def _n_lines(self, n_bytes: int, size: int) -> int:
        """Number of lines in the first ``n_bytes`` bytes; they are read again, as only messages need it."""
        plain, n_lines = self._plain(), 0
        while n_bytes > 0:
            piece = self._read(plain, min(size, n_bytes))
            n_lines += piece.count(b"\n")
            n_bytes -= max(len(piece), 1)
        return n_lines


Source = str | Path | OpenFile
"""What readers accept: the name of a file, or an open file."""


@contextmanager
def open_file(source: Source) -> Iterator[OpenFile]:
    """Open a file for the duration of the block; an open file stays open."""
    if isinstance(source, OpenFile):
        yield source
        return
    try:
        raw = open_plain(source)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source) from None
    with raw:
        yield OpenFile(source, raw)


def line_chunks(source: Source, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Read a file in pieces of about ``size`` bytes that end with a line."""
    with open_file(source) as file:
        yield from file.chunks(progress, size)


@contextmanager
def replace_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a file under a temporary name and rename it if the block succeeds; gzip if the name ends in .gz.

    A second writer of the same file waits for the first. A device or a pipe is written to directly. An error while
    writing, such as a full disk, is an InputError that names the file.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError("is a folder; expected a file name to write to", path)
    if path.exists() and not path.is_file():
        with _opened(path, path) as out:
            yield out
        return
    with claim_file(path) as (temporary, descriptor):
        with _opened(os.dup(descriptor), path) as out:
            yield out
        put_file(temporary, path)


@contextmanager
def replace_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Fill a folder under a temporary name; if the block succeeds, it takes the place of the old one in one step.

    An existing folder is replaced only if it contains ``marker``; anything else is not ours to remove. A second writer
    of the same folder waits for the first.
    """
    path = Path(path)
    with claim_folder(path) as temporary:
        recover(path)
        if path.exists() and not (path / marker).is_file():
            raise InputError(f"exists and is not a Rankwright folder (no {marker} in it); expected a new name", path)
        yield temporary
        put_folder(temporary, path)


class _Raw(io.FileIO):
    """A file whose errors name its target; the system's errors name none."""

    def __init__(self, file: Path | int, target: Path) -> None:
        self._target = target
        try:
            super().__init__(file, "wb")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", target) from None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # the reader of a pipe is gone
            raise
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self._target) from None


@contextmanager
def _opened(file: Path | int, target: Path) -> Iterator[IO[bytes]]:
    with io.BufferedWriter(_Raw(file, target)) as raw:
        if target.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast(IO[bytes], packed)
