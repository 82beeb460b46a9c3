"""Arrays on disk for a while: mapped files without a name, for what a training makes of data larger than memory.

The file is made beside the data it comes from: that disk holds the features, so it has room of their order, while the
folder for temporary files is often held in memory. Where nothing can be written there, it is made in that folder
(``TMPDIR``). It is unlinked at once, so that its room is free again when the array is, whatever ends the process.
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
LARGE = 1 << 24  # bytes from which an array that comes from mapped features is put on disk


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
    """An array whose values are not set: in memory, or, if a folder is given and it is large, in a file there."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if folder is None or size < LARGE:
        return np.empty(shape, kind)
    problem: OSError | None = None
    for place in (folder, None):  # None: where temporary files go
        try:
            return np.frombuffer(_mapped(place, size), kind).reshape(shape)
        except OSError as error:
            problem = error
    assert problem is not None
    what = f"a temporary file of {size / 1e6:,.0f} MB could not be made in {folder} or where temporary files go"
    raise InputError(f"{what} ({problem.strerror or problem}); expected room there, or TMPDIR to name a folder with it")


def _mapped(folder: Path | None, size: int) -> mmap.mmap:
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would end the process while the map is written
        else:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)
