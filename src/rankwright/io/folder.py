"""The data folder: ranking data as a container of memory-mapped arrays.

Data larger than memory can be used in place, and opening it costs next to nothing however large it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.categories import Categories, checked_categories
from rankwright.data.dataset import RankingData, most_features
from rankwright.errors import InputError, shown
from rankwright.io.container import Container, FolderWriter, Format, write_folder

__all__ = ["load_folder", "save_folder"]

FOLDER = Format("rankwright-data", "rankwright.json", "data folder", "`rankwright convert`", is_folder=True, version=2)
HEADER = FOLDER.header
_FLOATS = (np.float32, np.float64)
_IDS = (np.integer, np.floating, np.str_)
_ID_KINDS = "iufU"


def save_folder(data: RankingData, path: str | Path) -> None:
    """Write data as a folder that :func:`load_folder` maps into memory.

    The folder appears under its name only when it is complete. It replaces an existing data folder, even the one that
    ``data`` was loaded from.

    Parameters
    ----------
    data : RankingData
        What to write. Ids that are neither numbers nor strings are written as strings.
    path : path
        The folder, usually with the suffix ``.rank``.

    Examples
    --------
    >>> save_folder(data, "train.rank")  # doctest: +SKIP
    """
    path = Path(path)
    arrays = {"labels": data.labels, "indptr": data.indptr, "query_ids": storable_ids(data.query_ids, "query ids")}
    if data.doc_ids is not None:
        arrays["doc_ids"] = storable_ids(data.doc_ids, "document ids")
    if data.is_sparse:
        arrays |= {"X_data": data.X.data, "X_indices": data.X.indices, "X_indptr": data.X.indptr}
    else:
        arrays["X"] = data.X
    size = sum(array.nbytes for array in arrays.values())
    if data.n_features > most_features(2 * size):
        raise InputError(f"{data.n_features:,} features for {size:,} bytes of values; expected fewer", path)
    with write_folder(path, FOLDER) as writer:
        for name, array in arrays.items():
            writer.save(name, array)
        sizes = (data.n_docs, data.n_queries, data.n_features)
        writer.finish(folder_facts(*sizes, data.is_sparse, data.feature_names, data.categories))


def folder_facts(
    n_docs: int, n_queries: int, n_features: int, is_sparse: bool, names: tuple[str, ...] | None, categories: Categories
) -> dict[str, Any]:
    """What the header of a data folder says, but for its arrays."""
    listed = {str(column): list(values) for column, values in categories.items()}
    return {
        "version": 2 if listed else 1,
        "kind": "sparse" if is_sparse else "dense",
        "documents": n_docs,
        "queries": n_queries,
        "features": n_features,
        "feature_names": None if names is None else list(names),
        **({"categories": listed} if listed else {}),
    }


def save_sparse(writer: FolderWriter, dtype: npt.DTypeLike, n_stored: int, blocks: Iterable[Any]) -> None:
    """Write sparse features, block by block, as CSR; ``n_stored`` is how many values there are at most."""
    index = np.int32 if n_stored < 2**31 else np.int64
    done = 0
    with (
        writer.open("X_data", dtype) as values,
        writer.open("X_indices", index) as columns,
        writer.open("X_indptr", index) as bounds,
    ):
        bounds.append(np.zeros(1, index))
        for X in blocks:
            values.append(X.data)
            columns.append(X.indices)
            bounds.append(X.indptr[1:].astype(np.int64) + done)
            done += X.nnz


def load_folder(path: str | Path, mmap: bool = True) -> RankingData:
    """Load a folder that :func:`save_folder` wrote.

    Lengths, types, file sizes, query boundaries, labels and sparse positions are checked. The feature values were
    checked when they were written and are not read again.

    Parameters
    ----------
    path : path
        The folder.
    mmap : bool, default=True
        Leave the features on disk and map them (read-only). False reads them into memory.

    Examples
    --------
    >>> data = load_folder("train.rank")  # doctest: +SKIP
    >>> data.X.base.filename  # doctest: +SKIP
    '/home/me/train.rank/X.npy'
    """
    stored = Container.open(path, FOLDER)
    header = stored.header
    with stored.understood():
        n_docs, n_queries, n_features = (
            checked_count(header.get(key), key) for key in ("documents", "queries", "features")
        )
        if n_features > most_features(2 * stored.n_bytes):
            raise InputError(f"claims {n_features:,} features in {stored.n_bytes:,} bytes")
        names = checked_names(header["feature_names"], n_features)
        categories = checked_categories(header.get("categories", {}), n_features)
        labels = stored.array("labels", np.float64, (n_docs,), copy=True)
        indptr = stored.array("indptr", np.int64, (n_queries + 1,), copy=True)
        query_ids = stored.array("query_ids", _IDS, (n_queries,), copy=True)
        doc_ids = stored.array("doc_ids", _IDS, (n_docs,), copy=not mmap) if "doc_ids" in stored.names else None
        _check_queries(labels, indptr, query_ids)
        if header.get("kind") not in ("dense", "sparse"):
            raise InputError(f"its features are {shown(header.get('kind'))}; expected 'dense' or 'sparse'")
        is_sparse = header["kind"] == "sparse"
        shape = (n_docs, n_features)
        X = _csr(stored, shape, not mmap) if is_sparse else stored.array("X", _FLOATS, shape, copy=not mmap)
    return RankingData(X, labels, indptr, query_ids, doc_ids, names, categories=categories)


def storable_ids(ids: Array, what: str) -> Array:
    """Ids as an array of numbers or strings; other objects become strings if these still differ."""
    if ids.dtype.kind in _ID_KINDS:
        return ids
    items = ids.tolist()
    texts = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items]
    if len(set(texts)) != len(set(items)):
        raise InputError(f"{what} of different types become the same when written as strings (such as 1 and '1')")
    return np.array(texts, dtype=str)


def checked_count(number: Any, what: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"the number of {what} is {shown(number)}; expected a whole number")
    return number


def checked_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise InputError(f"the feature names are not one string for each of {n_features} features")
    return tuple(names)


def _check_queries(labels: Array, indptr: Array, query_ids: Array) -> None:
    if indptr[0] != 0 or indptr[-1] != len(labels) or (indptr[1:] <= indptr[:-1]).any():
        raise InputError("the query boundaries do not increase from 0 to the number of documents")
    if not (np.isfinite(labels) & (labels >= 0)).all():
        raise InputError("labels must be finite and at least 0")
    if len(np.unique(query_ids)) != len(query_ids):
        raise InputError("two queries have the same id")


def _csr(stored: Container, shape: tuple[int, int], copy: bool) -> sparse.csr_array:
    values = stored.array("X_data", _FLOATS, (None,), copy=copy)
    indices = stored.array("X_indices", (np.int32, np.int64), values.shape, copy=copy)
    indptr = stored.array("X_indptr", indices.dtype.type, (shape[0] + 1,), copy=copy)
    if indptr[0] != 0 or indptr[-1] != len(values) or (indptr[1:] < indptr[:-1]).any():
        raise InputError("the row boundaries do not increase from 0 to the number of sparse values")
    # A position outside the table would make compiled code read outside its memory: worth one pass.
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise InputError(f"a sparse value lies outside the {shape[1]} features")
    return sparse.csr_array((values, indices, indptr), shape=shape)
