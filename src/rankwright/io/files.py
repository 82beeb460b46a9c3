"""Files: plain or gzip in, opened once; whole or nothing out.

A file that cannot be read raises :class:`InputError`. Files are written under a temporary name beside the target and
renamed when complete, so a failure never leaves half a file (:mod:`rankwright.data.temporary`).
"""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import tempfile
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from rankwright.errors import InputError, InputWarning
from rankwright.io.atomic import claim_file, claim_folder, put_file, put_folder, recover

# Inputs that are not plain files: pipes are copied to a temporary file; devices and sockets are refused.
#
# A pipe, such as `<(zcat runs.gz)` of a shell, cannot be read twice, and every format is detected before it is read. A
# device may never end. A pipe without a writer is refused after two seconds; a silent writer is waited for, with a
# warning.


_NO_WRITER = 2.0  # seconds
_SILENCE = 5.0
_PIECE = 1 << 20


def open_plain(path: str | Path) -> IO[bytes]:
    """Open a file for reading and seeking.

    Raises `InputError`: if it is a folder, a device or a socket, or a pipe without a writer. Raises `OSError`: if it
    cannot be opened.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a NUL in the name
        raise InputError(f"cannot be read: {error}", path) from None
    if stat.S_ISDIR(mode):
        raise InputError("is a folder; expected a file", path)
    if stat.S_ISFIFO(mode):
        return _whole_pipe(path)
    if not stat.S_ISREG(mode):
        raise InputError("is a device or a socket; expected a file or a pipe", path)
    return open(path, "rb")


def _whole_pipe(path: str | Path) -> IO[bytes]:
    """Copy a pipe into a temporary file."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        content = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            _copy(pipe, content, path)
        except BaseException:
            content.close()
            raise
    finally:
        os.close(pipe)
    content.seek(0)
    return content


def _copy(pipe: int, whole: IO[bytes], path: str | Path) -> None:
    began, has_writer = time.monotonic(), False
    while True:
        try:
            piece = os.read(pipe, _PIECE)
        except BlockingIOError:  # a writer has it open but has written nothing
            if not select.select([pipe], [], [], _SILENCE)[0] and not has_writer:
                warnings.warn(f"{path}: waiting for data from this pipe", InputWarning, stacklevel=2)
            has_writer = True
            continue
        if piece:
            has_writer = True
            whole.write(piece)
        elif has_writer:
            return
        elif time.monotonic() - began > _NO_WRITER:
            raise InputError("is a pipe without a writer; expected a file, or a pipe with a writer", path)
        else:
            time.sleep(0.02)


# Reading gzip: one or more members, each checked against its checksum.
#
# Python's own reader reads 8 KB at a time (before 3.12) and copies its output more than once; with larger pieces, only
# zlib takes time.


_GZIP_PIECE = 1 << 19  # packed bytes at a time: few calls of zlib and few copies
_GZIP = 31  # zlib's number for a gzip header and the largest window


class Unpacked:
    """A gzip file's content, read from its start."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._rest = b""  # packed bytes not yet unpacked
        self._member = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end.

        Raises `EOFError`: if the file ends before it should. Raises `zlib.error`: if it is damaged.
        """
        pieces: list[bytes] = []
        while size > 0:
            if self._member.eof and not self._next_member():
                break
            packed = self._rest or self._raw.read(_GZIP_PIECE)
            piece = self._member.decompress(packed, size)
            self._rest = self._member.unconsumed_tail
            if not (packed or piece or self._member.eof):
                raise EOFError("it ends before its last byte")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def tell(self) -> int:
        """Packed bytes read so far."""
        return self._raw.tell() - len(self._rest)

    def _next_member(self) -> bool:
        """Start the next member, if there is one; zeros fill the last block of a tape."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest:
            more = self._raw.read(_GZIP_PIECE)
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._rest, self._member = rest, zlib.decompressobj(_GZIP)
        return True


Progress = Callable[[int, int], None]
"""Called with (bytes read, total bytes) of the file on disk."""

CHUNK_BYTES = 1 << 23
LONGEST_LINE = 1 << 26
_PACKED_LEAST, _PACKED_MOST = 1 << 24, 100  # a gzip file may unpack to this many bytes plus this many times its size


@dataclass(frozen=True)
class OpenFile:
    """A file that is opened once: its start tells what it is, then it is read from there.

    `path`: the name it was opened by, for messages. `raw`: the bytes on disk.
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


# Prefetching in threads: neither results nor their order depend on the threads.
#
# An error is raised where its item would have come, after all items before it.


Item = TypeVar("Item")
Result = TypeVar("Result")
_END: Any = object()


def read_ahead(items: Iterator[Item], n_ahead: int) -> Generator[Item, None, None]:
    """The same items, up to ``n_ahead`` of them prefetched by another thread.

    Examples
    --------
    >>> list(read_ahead(iter("abc"), 2))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, _END) for _ in range(n_ahead))
        try:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(pool.submit(next, items, _END))
                yield item
        finally:
            _cancel(waiting)


def map_ahead(
    function: Callable[[Item], Result], items: Iterator[Item], threads: int, n_ahead: int
) -> Generator[Result, None, None]:
    """``function`` of every item, in order; threads compute up to ``n_ahead`` results besides the one in use.

    With one thread nothing is computed ahead.

    Examples
    --------
    >>> list(map_ahead(str.upper, iter("abc"), 2, 3))
    ['A', 'B', 'C']
    """
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    is_open = True
    with ThreadPoolExecutor(threads) as pool:
        try:
            while is_open or waiting:
                while is_open and len(waiting) < n_ahead:
                    try:
                        item = next(items, _END)
                    except Exception as error:
                        failed: Future[Result] = Future()
                        failed.set_exception(error)
                        waiting.append(failed)
                        is_open = False
                        break
                    if item is _END:
                        is_open = False
                    else:
                        waiting.append(pool.submit(function, item))
                if waiting:
                    yield waiting.popleft().result()
        finally:
            _cancel(waiting)


def _cancel(waiting: deque[Future[Any]]) -> None:
    for future in waiting:
        future.cancel()
