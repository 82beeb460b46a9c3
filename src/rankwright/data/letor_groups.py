"""Query ids from group sizes, for LETOR text without ``qid:``, as LightGBM's files have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.columns import read_columns
from rankwright.errors import InputError

__all__ = ["Groups", "qid_from_groups"]

Array = npt.NDArray[Any]


def qid_from_groups(path: str | Path, group: str | Path | npt.ArrayLike | None, n_rows: int, line: int) -> Array:
    """Query ids "1", "2", … for consecutive groups of rows."""
    return Groups(path, group, line).qid(0, n_rows, is_all=True)


class Groups:
    """The groups of a file's rows.

    Parameters
    ----------
    path : path
        The file.
    group : path or array-like, optional
        Rows per query, or a file of them; default: the file of the same name plus ``.query``.
    line : int
        The first line without ``qid:``, for messages.
    """

    def __init__(self, path: str | Path, group: str | Path | npt.ArrayLike | None, line: int) -> None:
        self._path = path
        self._source: str | Path | None = None
        if group is None:
            names = [f"{path}.query", f"{str(path).removesuffix('.gz')}.query"]
            group = next((name for name in names if Path(name).is_file()), None)
            if group is None:
                problem = f"no qid, and no group sizes: expected qid:Q after the label, the file {names[-1]}, or group="
                raise InputError(problem, path, line)
        if isinstance(group, str | Path):
            self._source = group
            sizes = _read_group_sizes(group)
        else:
            sizes = np.asarray(group)
            is_whole = sizes.ndim == 1 and sizes.dtype.kind in "iuf" and bool((sizes == np.floor(sizes)).all())
            if not is_whole or (sizes < 0).any():
                raise InputError("group must contain one whole number of rows per query")
        self._n_rows = float(sizes.sum())
        self._stops = np.cumsum(sizes[sizes > 0].astype(np.float64))  # whole numbers, or inf

    def qid(self, start: int, stop: int, *, is_all: bool = False) -> Array:
        """Query ids of some rows; ``is_all`` promises that no others follow."""
        if stop > self._n_rows or (is_all and stop != self._n_rows):
            count = f"{stop} documents" if is_all else "more documents"
            raise InputError(f"group sizes add up to {self._n_rows:.0f} but {self._path} has {count}", self._source)
        number = np.searchsorted(self._stops, np.arange(start, stop), side="right") + 1
        return number.astype(str)


def _read_group_sizes(path: str | Path) -> Array:
    parts = []
    for columns in read_columns(path, ["size"], ["size"]):
        sizes = columns.numbers("size")
        wrong = np.flatnonzero((sizes < 0) | (sizes != np.floor(sizes)))
        if len(wrong):
            raise InputError(
                f"group size {sizes[wrong[0]]:g}; expected a whole number", path, int(columns.lines[wrong[0]])
            )
        parts.append(sizes)
    return np.concatenate(parts)
