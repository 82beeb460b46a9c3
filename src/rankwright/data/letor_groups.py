"""Query ids from group sizes, for LETOR text without ``qid:``, as LightGBM's files have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.columns import read_columns
from rankwright.errors import InputError

__all__ = ["qid_from_groups"]

Array = npt.NDArray[Any]


def qid_from_groups(path: str | Path, group: str | Path | npt.ArrayLike | None, n_rows: int, line: int) -> Array:
    """Query ids "1", "2", … for consecutive groups of rows."""
    if group is None:
        names = [f"{path}.query", f"{str(path).removesuffix('.gz')}.query"]
        group = next((name for name in names if Path(name).is_file()), None)
        if group is None:
            what = f"no qid, and no group sizes: expected qid:Q after the label, the file {names[-1]}, or group="
            raise InputError(what, path, line)
    if isinstance(group, str | Path):
        source: str | Path | None = group
        sizes = _read_group_sizes(group)
    else:
        source, sizes = None, np.asarray(group)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or (sizes != np.floor(sizes)).any() or (sizes < 0).any():
            raise InputError("group must contain one whole number of rows per query")
    if sizes.sum() != n_rows:
        raise InputError(f"group sizes add up to {sizes.sum():.0f} but {path} has {n_rows} documents", source)
    sizes = sizes[sizes > 0].astype(np.int64)
    return np.repeat(np.arange(1, len(sizes) + 1).astype(str), sizes)


def _read_group_sizes(path: str | Path) -> Array:
    parts = []
    for columns in read_columns(path, ["size"], ["size"]):
        sizes = columns.numbers("size")
        bad = np.flatnonzero((sizes < 0) | (sizes != np.floor(sizes)))
        if len(bad):
            raise InputError(f"group size {sizes[bad[0]]:g}; expected a whole number", path, int(columns.lines[bad[0]]))
        parts.append(sizes)
    return np.concatenate(parts)
