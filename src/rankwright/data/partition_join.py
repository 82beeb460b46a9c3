"""Joining parts: all of them in one data folder, copied in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.container_write import ArrayFile, FolderWriter, write_folder
from rankwright.data.dataset import RankingData
from rankwright.data.folder import FOLDER, folder_facts
from rankwright.data.partition import Manifest
from rankwright.errors import InputError

Array = npt.NDArray[Any]
_BLOCK_BYTES = 1 << 22


def join_parts(manifest: Manifest, path: Path) -> None:
    """Write the data of all parts, in their order, into one data folder."""
    sources = manifest.sources
    first = sources[0].load()
    total = (manifest.n_docs, manifest.n_queries, manifest.n_features)

    def parts() -> Iterator[RankingData]:
        for source in sources:
            part = source.load()
            if part.n_features != first.n_features or part.X.dtype != first.X.dtype:
                raise InputError(f"{source.name} has other features than {sources[0].name}", manifest.path)
            yield part

    with write_folder(path, FOLDER) as writer:
        _append(writer, "labels", [part.labels for part in parts()], None)
        _append(writer, "query_ids", [part.query_ids for part in parts()], None)
        if first.doc_ids is not None:
            _append(writer, "doc_ids", [np.asarray(part.doc_ids) for part in parts()], None)
        bounds = [np.zeros(1, np.int64)]
        for part in parts():
            bounds.append(part.indptr[1:] + bounds[-1][-1])
        _append(writer, "indptr", bounds, None)
        if first.is_sparse:
            _append_sparse(writer, parts)
        else:
            _append(writer, "X", [part.X for part in parts()], (total[0], total[2]))
        writer.finish(folder_facts(*total, first.is_sparse, first.feature_names, first.categories))


def _append(writer: FolderWriter, name: str, arrays: Sequence[Array], shape: tuple[int, ...] | None) -> None:
    dtype = np.result_type(*(array.dtype for array in arrays))
    with ArrayFile(writer, name, dtype, shape) as file:
        for array in arrays:
            step = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
            for start in range(0, len(array), step):
                file.append(array[start : start + step])


def _append_sparse(writer: FolderWriter, parts: Callable[[], Iterator[RankingData]]) -> None:
    tables = [part.X for part in parts()]
    n_stored = sum(len(X.data) for X in tables)
    whole = np.int32 if n_stored < 2**31 else np.int64
    _append(writer, "X_data", [X.data for X in tables], None)
    for name in ("X_indices", "X_indptr"):
        with writer.open(name, whole) as file:
            done = 0
            for at, X in enumerate(tables):
                assert sparse.issparse(X)
                values = X.indices if name == "X_indices" else X.indptr[min(at, 1) :]
                for start in range(0, len(values), _BLOCK_BYTES):
                    block = values[start : start + _BLOCK_BYTES].astype(np.int64)
                    file.append(block if name == "X_indices" else block + done)
                done += len(X.data)
