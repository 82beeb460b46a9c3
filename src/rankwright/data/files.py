"""Files: plain or gzip in, opened once; whole or nothing out.

A file that cannot be read raises :class:`InputError`. Files are written under a temporary name beside the target and
renamed when complete, so a failure never leaves half a file (:mod:`rankwright.data.temporary`).
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from rankwright.data.pipes import open_plain
from rankwright.data.temporary import claim_file, claim_folder, put_file, put_folder, recover
from rankwright.errors import InputError

__all__ = ["OpenFile", "Progress", "Source", "line_chunks", "open_file", "replace_file", "replace_folder"]

Progress = Callable[[int, int], None]
"""Called with (bytes read, total bytes) of the file on disk."""

CHUNK_BYTES = 1 << 23
LONGEST_LINE = 1 << 26
_PACKED_LEAST, _PACKED_MOST = 1 << 24, 100  # a gzip file may unpack to so many bytes, and so many times its size more


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
        """The first bytes on disk."""
        self.raw.seek(0)
        return self.raw.read(size)

    def chunks(self, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The uncompressed bytes from the start, in pieces of about ``size`` that end with a line."""
        is_gzip = self.start(2) == b"\x1f\x8b"
        self.raw.seek(0)
        plain = cast(IO[bytes], gzip.GzipFile(fileobj=self.raw)) if is_gzip else self.raw
        total = os.fstat(self.raw.fileno()).st_size
        rest: list[bytes] = []  # of a line that has not ended
        n_rest = n_lines = n_bytes = 0
        while True:
            try:
                piece = plain.read(size)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                reason = str(error).rstrip(".")
                what = f"damaged or truncated gzip file ({reason}); expected a complete one"
                raise InputError(what, self.path) from None
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None
            if progress is not None:
                progress(self.raw.tell(), total)
            if not piece:
                break
            n_bytes += len(piece)
            if is_gzip and n_bytes > _PACKED_LEAST + _PACKED_MOST * self.raw.tell():
                what = f"unpacks to more than {_PACKED_MOST} times its size"
                raise InputError(f"{what}; expected text, or the unpacked file", self.path)
            first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
            if n_rest + (first or len(piece)) > LONGEST_LINE:
                what = f"a line of more than {LONGEST_LINE:,} bytes; expected shorter lines"
                raise InputError(what, self.path, n_lines + 1)
            if end:
                n_lines += piece.count(b"\n")
                yield b"".join([*rest, piece[:end]])
                rest, n_rest = [], 0
            rest.append(piece[end:])
            n_rest += len(piece) - end
        if n_rest:
            yield b"".join(rest)


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

    A second writer of the same file waits for the first. A device or a pipe is written to directly.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError("is a folder; expected a file name to write to", path)
    with _named(path):
        if path.exists() and not path.is_file():
            with open(path, "wb") as raw, _packed(raw, path) as out:
                yield out
            return
        with claim_file(path) as (part, descriptor):
            with open(os.dup(descriptor), "wb") as raw, _packed(raw, path) as out:
                yield out
            put_file(part, path)


@contextmanager
def replace_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Fill a folder under a temporary name; if the block succeeds, it takes the place of the old one in one step.

    An existing folder is replaced only if it contains ``marker``; anything else is not ours to remove. A second writer
    of the same folder waits for the first.
    """
    path = Path(path)
    with _named(path), claim_folder(path) as part:
        recover(path)
        if path.exists() and not (path / marker).is_file():
            raise InputError(f"exists and is not a Rankwright folder (no {marker} in it); expected a new name", path)
        yield part
        put_folder(part, path)


@contextmanager
def _packed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield raw
        return
    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
        yield cast(IO[bytes], packed)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an error of writing, such as a full disk, which has no name of its own."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"cannot be written: {error.strerror or error}", path) from None
