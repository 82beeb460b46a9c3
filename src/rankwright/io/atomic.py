"""The temporary name beside a target: ``.NAME.part``, claimed by a lock, put in place of the target in one step.

The writer of a target locks its temporary file or folder, so there is one writer at a time, and anything unlocked was
left by a killed run: the next writer of the same target removes it. A folder takes the place of an old one by an
exchange of names, in one step. Where the system has no such step, the old folder is first renamed to ``.NAME.old``, and
:func:`recover` takes it back should the run be killed in between.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import sys
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError

try:
    import fcntl
except ImportError:  # this system has no such locks
    fcntl = None  # type: ignore[assignment]


_PATIENCE = 60.0  # seconds that a second writer of the same target waits for the first
_PAUSE = 0.02
_PART, _OLD = ".part", ".old"
_AT_WORKING_FOLDER = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_OPEN_LEFT = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def claim_file(target: Path) -> Iterator[tuple[Path, int]]:
    """The temporary file of a target and a descriptor to write to; removed at the end if still there."""
    with _writing(target):
        temporary, descriptor = _claim(target, is_folder=False)
    try:
        yield temporary, descriptor
    finally:
        if _is_at(descriptor, temporary):
            temporary.unlink()
        os.close(descriptor)


@contextmanager
def claim_folder(target: Path) -> Iterator[Path]:
    """The empty temporary folder of a target; removed at the end if still there."""
    with _writing(target):
        temporary, descriptor = _claim(target, is_folder=True)
    inode = os.lstat(temporary).st_ino
    try:
        yield temporary
    finally:
        if _inode(temporary) == inode:
            _remove(temporary)
        else:  # the old folder, if its removal was interrupted
            with suppress(OSError):
                _remove_unclaimed(temporary)
        if descriptor >= 0:
            os.close(descriptor)


def put_file(part: Path, target: Path) -> None:
    """Rename a temporary file to its target."""
    with _writing(target):
        os.replace(part, target)


def put_folder(part: Path, target: Path) -> None:
    """Put a temporary folder in the place of its target, and remove what was there.

    Whoever opens the target finds either the old or the new one.
    """
    with _writing(target):
        if not os.path.lexists(target):
            os.rename(part, target)
            return
        with _held(target):  # it takes the temporary name: nobody else may remove it there
            old = part
            if not _exchange(part, target):
                old = _beside(target, _OLD)
                os.rename(target, old)
                try:
                    os.rename(part, target)
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


def _create(part: Path, is_folder: bool) -> int:
    if is_folder:
        os.mkdir(part)
        try:
            return os.open(part, _OPEN_LEFT)
        except FileNotFoundError:  # taken for a leftover before it was locked
            raise FileExistsError from None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(part, flags, 0o666)


def _remove_unclaimed(part: Path) -> bool:
    """Remove a temporary file or folder unless it is locked; returns whether it is unlocked."""
    if part.is_symlink():
        part.unlink()
        return True
    with _opened(part) as descriptor:
        if not _lock(descriptor):
            return False
        if _is_at(descriptor, part):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(part)
            else:
                part.unlink()
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


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", target) from None


# An open folder: its files stay the same even if another folder takes its name.
#
# All files are opened with the folder, relative to its descriptor and not to its path, and mapped into memory on first
# use, so a reader never mixes two versions.


_MOST_FILES = 100  # files held open; others are opened on use
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IS_RELATIVE = os.open in os.supports_dir_fd


class Folder:
    """The files of a folder.

    `path`: the folder. `path`: the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int | None] = {}
        self._maps: dict[str, Array] = {}
        self._close = weakref.finalize(self, _close, self._open)
        self._inode = self._folder = None
        if _IS_RELATIVE and path.is_dir():
            try:
                self._folder = self._open[""] = os.open(path, _FLAGS)
                self._inode = os.fstat(self._folder).st_ino
            except FileNotFoundError:  # between the two steps of being replaced
                pass
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror or error}", path) from None

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

    def open_all(self, names: Iterable[str]) -> None:
        """Open files now rather than on first use."""
        for name in names:
            self.size(name)

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if it is missing."""
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
                self._maps[name] = map_bytes(file)
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


def map_bytes(file: IO[bytes]) -> Array:
    return np.memmap(file, np.uint8, "r")
