"""Temporary arrays on disk: mapped files without a name, for what training derives from data larger than memory.

The file is made beside its source data: that disk holds the features, so it has room of their order, while the folder
for temporary files (``TMPDIR``) often is in memory and is only the fallback. The file is unlinked at once, so its room
is freed with the array, however the process ends; and allocated in full, so that a full disk is an error and not a
signal.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.errors import InputError

__all__ = ["beside", "scratch"]

Array = npt.NDArray[Any]
LARGE = 1 << 24  # arrays derived from mapped features go to disk from this many bytes


def beside(X: Any) -> Path | None:
    """The folder of the file that features are mapped from; None for features in memory.

    Examples
    --------
    >>> beside(np.zeros((2, 2))) is None
    True
    """
    base = X.data if sparse.issparse(X) else X
    while base is not None:
        if isinstance(base, np.memmap) and base.filename is not None:
            return Path(base.filename).parent
        base = getattr(base, "base", None)
    return None


def scratch(shape: tuple[int, ...], dtype: npt.DTypeLike, folder: Path | None) -> Array:
    """An uninitialised array: in memory, or, if it is large and a folder is given, in a file there."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if folder is None or size < LARGE:
        return np.empty(shape, kind)
    problem: OSError | None = None
    for parent in (folder, None):  # None: where temporary files go
        try:
            return np.frombuffer(_mapped(parent, size), kind).reshape(shape)
        except OSError as error:
            problem = error
    assert problem is not None
    text = f"a temporary file of {size / 1e6:,.0f} MB cannot be created in {folder} or the folder for temporary files"
    raise InputError(f"{text} ({problem.strerror or problem}); expected room there, or TMPDIR to name a folder with it")


def _mapped(folder: Path | None, size: int) -> mmap.mmap:
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would end the process while the map is written
        else:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)
