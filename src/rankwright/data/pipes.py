"""Inputs that are not plain files: pipes are copied to a temporary file; devices and sockets are refused.

A pipe, such as ``<(zcat runs.gz)`` of a shell, cannot be read twice, and every format is detected before it is read. A
device may never end. A pipe without a writer is refused after two seconds; a silent writer is waited for, with a
warning.
"""

from __future__ import annotations

import os
import select
import stat
import tempfile
import time
import warnings
from pathlib import Path
from typing import IO

from rankwright.errors import InputError, InputWarning

__all__ = ["open_plain"]

_NO_WRITER = 2.0  # seconds
_SILENCE = 5.0
_PIECE = 1 << 20


def open_plain(path: str | Path) -> IO[bytes]:
    """Open a file for reading and seeking.

    Raises
    ------
    InputError
        If it is a folder, a device or a socket, or a pipe without a writer.
    OSError
        If it cannot be opened.
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
