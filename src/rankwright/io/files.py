"""Files: plain, gzip or wrapped (:mod:`rankwright.io.wrapped`) in, opened once; whole or nothing out; prefetching.

A file that cannot be read raises :class:`InputError`. Files and folders are written under a temporary name beside the
target and renamed when complete, so a failure never leaves half of one; there is no other way to write a file.
"""

from __future__ import annotations

import ctypes
import gzip
import io
import os
import select
import shutil
import stat
import sys
import tempfile
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from rankwright.errors import InputError, InputWarning
from rankwright.io.wrapped import PACKED_LEAST, PACKED_MOST, unwrapped

try:
    import fcntl
except ImportError:  # this system has no such locks
    fcntl = None  # type: ignore[assignment]

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
        """The next ``size`` bytes, fewer at the end; `EOFError` or `zlib.error` if it is truncated or damaged."""
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
        packed = self._member.unused_data.lstrip(b"\0")
        while not packed:
            more = self._raw.read(_GZIP_PIECE)
            if not more:
                return False
            packed = more.lstrip(b"\0")
        self._rest, self._member = packed, zlib.decompressobj(_GZIP)
        return True


Progress = Callable[[int, int], None]
"""Called with (bytes read, total bytes) of the file on disk."""

CHUNK_BYTES = 1 << 23
LONGEST_LINE = 1 << 26
MAX_FIELD = 1 << 12
"""Bytes of the longest field: ids are kept at the width of the longest one, which costs as much in every row."""


@dataclass(frozen=True)
class OpenFile:
    """A file that is opened once: its start tells what it is, then it is read from there.

    `path`: the name it was opened by. `raw`: the bytes on disk.
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
            if is_gzip and n_bytes > PACKED_LEAST + PACKED_MOST * plain.tell():
                problem = f"unpacks to more than {PACKED_MOST} times its size"
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
            with reading(self.path):
                return plain.read(size)
        except (EOFError, zlib.error) as error:
            problem = f"damaged or truncated gzip file ({str(error).rstrip('.')}); expected a complete one"
            raise InputError(problem, self.path) from None

    def _n_lines(self, n_bytes: int, size: int) -> int:
        """Number of lines in the first ``n_bytes`` bytes; they are read again, as only messages need it."""
        plain, n_lines = self._plain(), 0
        while n_bytes > 0:
            piece = self._read(plain, min(size, n_bytes))
            n_lines += piece.count(b"\n")
            n_bytes -= max(len(piece), 1)
        return n_lines


def check_text(chunk: bytes, first_line: int, path: str | Path, expected: str = "") -> None:
    """Refuse bytes that no text has."""
    at = chunk.find(b"\0")
    if at >= 0:
        line = first_line + chunk.count(b"\n", 0, at)
        raise InputError(f"is not a text file (it has a NUL byte){expected}", path, line)


Source = str | Path | OpenFile
"""What readers accept: the name of a file, or an open file."""


def reason(error: BaseException) -> str:
    """An error in a few words on one line."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return text[:100] if text else type(error).__name__


@contextmanager
def reading(path: str | Path, action: str = "read") -> Iterator[None]:
    """Turn a system error into one line that names the file or folder."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be {action}: {reason(error)}", path) from None


def writing(path: str | Path) -> AbstractContextManager[None]:
    """Turn a system error, such as a full disk, into one line that names the target."""
    return reading(path, "written")


@contextmanager
def open_file(source: Source, *, as_it_is: bool = False) -> Iterator[OpenFile]:
    """Open a file for the duration of the block, without what it is wrapped in; an open file stays open.

    ``as_it_is``: also a zip archive, for whoever expects one.
    """
    if isinstance(source, OpenFile):
        yield source
        return
    with reading(source):
        raw = open_plain(source)
    with raw, nullcontext(raw) if as_it_is else unwrapped(raw, source) as plain:
        yield OpenFile(source, plain)


def line_chunks(source: Source, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Read a file in pieces of about ``size`` bytes that end with a line."""
    with open_file(source) as file:
        yield from file.chunks(progress, size)


def check_folder(target: str | Path) -> None:
    """Say that the folder of a file to write is missing, if it is."""
    folder = Path(target).parent
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist; make it first"
        raise InputError(f"cannot be written: the folder {folder} {what}", target)


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
        with _target(path, path) as out:
            yield out
        return
    check_folder(path)
    with writing(path):
        temporary, descriptor = _claim(path, is_folder=False)
    try:
        with _target(os.dup(descriptor), path) as out:
            yield out
        with writing(path):
            os.replace(temporary, path)
    finally:
        if _is_at(descriptor, temporary):
            temporary.unlink()
        os.close(descriptor)


@contextmanager
def replace_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Fill a folder under a temporary name; if the block succeeds, it takes the place of the old one in one step.

    An existing folder is replaced only if it contains ``marker``; anything else is not ours to remove. A second writer
    of the same folder waits for the first.
    """
    path = Path(path)
    check_folder(path)
    with writing(path):
        temporary, descriptor = _claim(path, is_folder=True)
    inode = os.lstat(temporary).st_ino
    try:
        recover(path)
        if path.exists() and not (path / marker).is_file():
            raise InputError(f"exists and is not a Rankwright folder (no {marker} in it); expected a new name", path)
        yield temporary
        with writing(path):
            _put_folder(temporary, path)
    finally:
        if _inode(temporary) == inode:
            _remove(temporary)
        else:  # the old folder, if its removal was interrupted
            with suppress(OSError):
                _remove_unclaimed(temporary)
        if descriptor >= 0:
            os.close(descriptor)


class _Raw(io.FileIO):
    """A file whose errors name its target; the system's errors name none."""

    def __init__(self, file: Path | int, target: Path) -> None:
        self._target = target
        with writing(target):
            super().__init__(file, "wb")

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # the reader of a pipe is gone
            raise
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self._target) from None


@contextmanager
def _target(file: Path | int, target: Path) -> Iterator[IO[bytes]]:
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
    """The same items, up to ``n_ahead`` of them prefetched by another thread."""
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


# The temporary name beside a target: ``.NAME.part``, claimed by a lock, put in place of the target in one step.
#
# The writer of a target locks its temporary file or folder, so there is one writer at a time, and anything unlocked was
# left by a killed run: the next writer of the same target removes it. A folder takes the place of an old one by an
# exchange of names, in one step. Where the system has no such step, the old folder is first renamed to ``.NAME.old``,
# and `recover` takes it back should the run be killed in between.


_PATIENCE = 60.0  # seconds that a second writer of the same target waits for the first
_PAUSE = 0.02
_PART, _OLD = ".part", ".old"
_AT_WORKING_FOLDER = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_OPEN_LEFT = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def _put_folder(temporary: Path, target: Path) -> None:
    """Put a temporary folder in the place of its target, and remove what was there.

    Whoever opens the target finds either the old or the new one.
    """
    if not os.path.lexists(target):
        os.rename(temporary, target)
        return
    with _held(target):  # it takes the temporary name: nobody else may remove it there
        old = temporary
        if not _exchange(temporary, target):
            old = _beside(target, _OLD)
            os.rename(target, old)
            try:
                os.rename(temporary, target)
            except BaseException:
                os.rename(old, target)
                raise
        _remove(old)


def recover(target: Path) -> None:
    """Restore a folder that a killed run had renamed, or remove it if the new one is in its place."""
    old = _beside(target, _OLD)
    until = time.monotonic() + _PATIENCE
    while os.path.lexists(old) and not _recovered(old, target):
        if os.path.lexists(target) or time.monotonic() > until:
            return
        time.sleep(_PAUSE)  # a run is between its two steps


def _recovered(old: Path, target: Path) -> bool:
    """Settle the second temporary name; False while somebody holds its lock."""
    try:
        with _opened(old) as descriptor:
            if not (_lock(descriptor) and _is_at(descriptor, old)):
                return False
            if os.path.lexists(target):
                _remove(old)
            else:
                os.rename(old, target)
    except OSError:  # gone, or no locks here
        return True
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders that killed runs left in a folder."""
    for entry in sorted(folder.glob(f".*{_PART}")):
        with suppress(OSError):
            _remove_unclaimed(entry)


def _beside(target: Path, suffix: str) -> Path:
    return target.parent / f".{target.name}{suffix}"


def _claim(target: Path, is_folder: bool) -> tuple[Path, int]:
    """Create the temporary file or folder; returns its path and the descriptor that holds the lock."""
    temporary = _beside(target, _PART)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            descriptor = _create(temporary, is_folder)
        except FileExistsError:
            try:
                is_free = _remove_unclaimed(temporary)
            except FileNotFoundError:
                is_free = True
            except OSError:  # no locks here, or not ours to remove
                return _unclaimed(target, is_folder)
        else:
            try:
                if _lock(descriptor) and _is_at(descriptor, temporary):
                    return temporary, descriptor
            except OSError:
                os.close(descriptor)
                _remove(temporary)
                return _unclaimed(target, is_folder)
            os.close(descriptor)
            is_free = False
        if not is_free:
            if time.monotonic() > until:
                raise InputError("is being changed by another process; expected no other writer", target)
            time.sleep(_PAUSE)


def _unclaimed(target: Path, is_folder: bool) -> tuple[Path, int]:
    """A temporary file or folder of a unique name, where locks are unavailable."""
    prefix = f".{target.name}."
    umask = os.umask(0)
    os.umask(umask)
    if is_folder:
        temporary = Path(tempfile.mkdtemp(prefix=prefix, suffix=_PART, dir=target.parent))
        temporary.chmod(0o777 & ~umask)
        return temporary, -1
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_PART, dir=target.parent)
    Path(name).chmod(0o666 & ~umask)  # mkstemp makes private files; give the permissions a plain open() would
    return Path(name), descriptor


def _create(temporary: Path, is_folder: bool) -> int:
    if is_folder:
        os.mkdir(temporary)
        try:
            return os.open(temporary, _OPEN_LEFT)
        except FileNotFoundError:  # taken for a leftover before it was locked
            raise FileExistsError from None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(temporary, flags, 0o666)


def _remove_unclaimed(temporary: Path) -> bool:
    """Remove a temporary file or folder unless it is locked; returns whether it is unlocked."""
    if temporary.is_symlink():
        temporary.unlink()
        return True
    with _opened(temporary) as descriptor:
        if not _lock(descriptor):
            return False
        if _is_at(descriptor, temporary):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(temporary)
            else:
                temporary.unlink()
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _OPEN_LEFT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _held(target: Path) -> Iterator[None]:
    """Hold the lock of a folder, where locks are available."""
    try:
        descriptor = os.open(target, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            while not _lock(descriptor):  # the previous writer is about to end
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock without waiting; returns whether that worked. The lock ends with the descriptor, or with the process."""
    if fcntl is None:
        raise OSError("no locks")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to the file that was opened there."""
    return os.fstat(descriptor).st_ino == _inode(path)


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where that is not possible."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, ctypes.c_uint(_EXCHANGE)) == 0)
        at = ctypes.c_int(_AT_WORKING_FOLDER)
        return bool(library.renameat2(at, names[0], at, names[1], ctypes.c_uint(_EXCHANGE)) == 0)
    except (AttributeError, OSError, TypeError):
        return False
