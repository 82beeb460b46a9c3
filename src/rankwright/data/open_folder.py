"""An open folder: its files stay the same even if another folder takes its name.

All files are opened with the folder, relative to its descriptor and not to its path, and mapped into memory on first
use, so a reader never mixes two versions.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["Folder", "map_bytes"]

Array = npt.NDArray[Any]
_MOST_FILES = 100  # files held open; others are opened on use
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IS_RELATIVE = os.open in os.supports_dir_fd


class Folder:
    """The files of a folder.

    Parameters
    ----------
    path : Path
        The folder.

    Attributes
    ----------
    path : Path
        The same.
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
