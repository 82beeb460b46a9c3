"""The data folder: plain .npy arrays beside ``rankwright.json``, loaded as memory maps.

Data larger than memory can be used in place, and opening it costs nothing however large it is. Loading reads numbers
and text only and never runs code: the file names are fixed, and arrays of Python objects are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.data.dataset import RankingData
from rankwright.data.files import replace_folder
from rankwright.errors import InputError

__all__ = ["HEADER", "load_folder", "save_folder", "storable_ids"]

Array = npt.NDArray[Any]
HEADER = "rankwright.json"
_FORMAT = "rankwright-data"
_VERSION = 1
_FEATURE_ARRAYS = {"dense": ("X",), "sparse": ("X_data", "X_indices", "X_indptr")}
_KINDS = {"X": "f", "X_data": "f", "X_indices": "i", "X_indptr": "i", "labels": "f", "indptr": "i"}
_ID_KINDS = "iufU"


def save_folder(data: RankingData, path: str | Path) -> None:
    """Write data as a folder that :func:`load_folder` maps into memory.

    The folder appears under its name only when it is complete. A data folder that is there already is replaced, also
    when ``data`` was loaded from it.

    Parameters
    ----------
    data : RankingData
        What to write. Ids that are neither numbers nor strings are written as strings.
    path : path
        The folder, by custom with the suffix ``.rank``.

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
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": "sparse" if data.is_sparse else "dense",
        "documents": data.n_docs,
        "queries": data.n_queries,
        "features": data.n_features,
        "feature_names": None if data.feature_names is None else list(data.feature_names),
        "arrays": {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()},
    }
    _check_replaceable(path)
    with replace_folder(path, HEADER) as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        (folder / HEADER).write_text(json.dumps(header, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
    PosixPath('/home/me/train.rank/X.npy')
    """
    path = Path(path)
    header = _read_header(path)
    try:
        feature_arrays = _FEATURE_ARRAYS[header["kind"]]
        n_docs, n_queries, n_features = (int(header[key]) for key in ("documents", "queries", "features"))
        described = header["arrays"]
        optional = ("doc_ids",) if "doc_ids" in described else ()
        wanted = (*feature_arrays, "labels", "indptr", "query_ids", *optional)
        arrays = {name: _load_array(path, name, described[name]) for name in wanted}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"damaged data folder: {HEADER} is incomplete ({error!r})", path) from None
    shapes = {"X": (n_docs, n_features), "X_indptr": (n_docs + 1,), "labels": (n_docs,), "doc_ids": (n_docs,)}
    shapes |= {"indptr": (n_queries + 1,), "query_ids": (n_queries,)}
    for name, array in arrays.items():
        if array.shape != shapes.get(name, array.shape):
            raise _damaged(path, f"{name}.npy has the shape {array.shape}; expected {shapes[name]}")
    _check_content(path, arrays)
    for name, array in arrays.items():
        # A plain array over the map: slices of it are plain arrays too.
        arrays[name] = np.asarray(array) if mmap and name not in ("labels", "indptr", "query_ids") else np.array(array)
        arrays[name].flags.writeable = False
    return RankingData(
        arrays["X"] if "X" in arrays else _csr(path, arrays, (n_docs, n_features)),
        arrays["labels"],
        arrays["indptr"],
        arrays["query_ids"],
        arrays.get("doc_ids"),
        _feature_names(path, header, n_features),
    )


def storable_ids(ids: Array, what: str) -> Array:
    """Ids as an array of numbers or of strings; other objects become strings if they stay apart."""
    if ids.dtype.kind in _ID_KINDS:
        return ids
    items = ids.tolist()
    texts = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items]
    if len(set(texts)) != len(set(items)):
        raise InputError(f"{what} of different types become the same when written as strings (such as 1 and '1')")
    return np.array(texts, dtype=str)


def _check_replaceable(path: Path) -> None:
    """Refuse to replace a folder in which somebody keeps files of their own."""
    if not (path / HEADER).is_file():
        return
    own = {HEADER, *(f"{name}.npy" for name in (*_KINDS, "query_ids", "doc_ids"))}
    others = sorted({entry.name for entry in path.iterdir()} - own)
    if others:
        raise InputError(f"holds files that are not part of the data ({others[0]}); expected a new name", path)


def _read_header(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError("cannot be read: No such file or directory", path)
    if not (path / HEADER).is_file():
        raise InputError(f"is no Rankwright data folder; expected {HEADER} in it", path)
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"damaged data folder: {HEADER} cannot be read ({error})", path) from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InputError(f"is no Rankwright data folder; expected the format {_FORMAT!r} in {HEADER}", path)
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputError(f"damaged data folder: the version in {HEADER} is {version!r}; expected {_VERSION}", path)
    if version > _VERSION:
        raise InputError(f"written by a newer Rankwright; version {version}, this one reads {_VERSION}", path)
    return header


def _feature_names(path: Path, header: dict[str, Any], n_features: int) -> tuple[str, ...] | None:
    names = header.get("feature_names")
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise _damaged(path, f"the feature names in {HEADER} are not one string for each of {n_features} features")
    return tuple(names)


def _load_array(path: Path, name: str, described: dict[str, Any]) -> Array:
    file = path / f"{name}.npy"
    try:
        if 0 in described["shape"]:  # an empty array cannot be mapped
            array = np.load(file, allow_pickle=False)
        else:
            array = np.lib.format.open_memmap(file, mode="r")
            if file.stat().st_size != array.offset + array.nbytes:
                raise ValueError("the file is longer than its array")
    except OSError as error:
        raise _damaged(path, f"{file.name} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, EOFError, OverflowError, SyntaxError, TokenError) as error:  # of a mangled header
        raise _damaged(path, f"{file.name} is no complete array ({error})") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS.get(name, _ID_KINDS):
        raise _damaged(path, f"{file.name} holds {getattr(array, 'dtype', 'several arrays')}")
    if array.dtype.str != described["dtype"] or list(array.shape) != described["shape"]:
        raise _damaged(path, f"{file.name} holds {array.dtype} {array.shape}; {HEADER} says otherwise")
    if not (array.flags.c_contiguous and array.dtype.isnative):
        raise _damaged(path, f"{file.name} is stored in another order")
    if name in ("X", "X_data") and array.dtype not in (np.float32, np.float64):
        raise _damaged(path, f"{file.name} holds {array.dtype}; expected float32 or float64")
    return array


def _check_content(path: Path, arrays: dict[str, Array]) -> None:
    indptr, labels, query_ids = arrays["indptr"], arrays["labels"], arrays["query_ids"]
    if indptr.dtype != np.int64 or labels.dtype != np.float64:
        raise _damaged(path, f"indptr is {indptr.dtype} and labels are {labels.dtype}; expected int64 and float64")
    if indptr[0] != 0 or indptr[-1] != len(labels) or (np.diff(indptr) <= 0).any():
        raise _damaged(path, "the query boundaries do not rise from 0 to the number of documents")
    if not (np.isfinite(labels) & (labels >= 0)).all():
        raise _damaged(path, "labels must be finite and at least 0")
    if len(np.unique(query_ids)) != len(query_ids):
        raise _damaged(path, "a query id occurs twice")


def _csr(path: Path, arrays: dict[str, Array], shape: tuple[int, int]) -> sparse.csr_array:
    values, indices, indptr = arrays["X_data"], arrays["X_indices"], arrays["X_indptr"]
    if values.shape != indices.shape or values.ndim != 1 or indices.dtype != indptr.dtype:
        raise _damaged(path, f"{values.shape} sparse values but {indices.shape} positions")
    if indptr[0] != 0 or indptr[-1] != len(values) or (np.diff(indptr) < 0).any():
        raise _damaged(path, "the row boundaries do not rise from 0 to the number of sparse values")
    # A position outside the table would make compiled code read outside its memory: worth one pass.
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise _damaged(path, f"a sparse value stands outside the {shape[1]} features")
    return sparse.csr_array((values, indices, indptr), shape=shape)


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"damaged data folder: {what}", path)
