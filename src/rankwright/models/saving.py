"""Model files: one uncompressed zip archive of ``model.json`` and plain .npy arrays, by custom named ``.rkw``.

Loading reads numbers and text only and never runs code; nothing is unpacked, so a file cannot take more memory than it
has bytes. The same model gives the same bytes. A new kind of model is one entry of ``KINDS``
in :mod:`rankwright.models.kinds`.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import __version__
from rankwright.data.files import replace_file
from rankwright.errors import InputError
from rankwright.models.base import Model
from rankwright.models.kinds import HEADER, KINDS, kind_of

__all__ = ["SavedModel", "load_model", "save_model"]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
_FORMAT = "rankwright-model"
_VERSION = 1
_EXTRA = "extra/"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biuf][1248])', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip entries need a date; a fixed one keeps files the same
_BROKEN_ZIP = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError, ValueError, OverflowError, struct.error,
    zlib.error,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    model : Model
        The model itself: a LinearModel, TreeModel, NetModel, …
    method : str
        How it was trained, such as ``"svm-map"``.
    parameters, training, measures : dict
        Of the method; facts of the training; values reached.
    extra_arrays : dict of ndarray
        What else the method keeps, such as a state to continue from.
    header : dict
        All of ``model.json``.
    """

    model: Model
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    extra_arrays: Arrays = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the model's features, or None."""
        return self.model.feature_names

    def predict(self, X: Any, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None) -> Array:
        """One score per row, higher is better, in the caller's order; see :meth:`Model.predict`."""
        return self.model.predict(X, qid, group)


def save_model(
    model: Any,
    path: str | Path,
    *,
    method: str,
    parameters: Mapping[str, Any],
    training: Mapping[str, Any] | None = None,
    measures: Mapping[str, float] | None = None,
    extra_arrays: Mapping[str, Array] | None = None,
) -> None:
    """Write a model to one file, which appears under its name only when it is complete.

    Parameters
    ----------
    model : LinearModel, TreeModel, NetModel, …
        What to write.
    path : path
        The file, by custom with the suffix ``.rkw``.
    method : str
        How the model was trained, one word.
    parameters, training, measures : mapping
        Parameters of the method, facts of the training, values reached: numbers, strings, lists and mappings of them.
        Numbers that are not finite are written as text.
    extra_arrays : mapping of str to ndarray, optional
        Further arrays of numbers; names are letters, digits, ``_`` and ``-``.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright.models.linear import LinearModel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.rkw"
    ...     save_model(LinearModel([2.0, -1.0]), path, method="svm-map", parameters={"C": 10.0})
    ...     saved = load_model(path)
    >>> saved.method, saved.parameters, saved.model.coef.tolist()
    ('svm-map', {'C': 10.0}, [2.0, -1.0])
    """
    path = Path(path)
    if path.suffix == ".gz":
        raise InputError("model files are not gzip; expected a name such as model.rkw", path)
    if len(method.split()) != 1 or method != method.strip():
        raise InputError(f"method is {method!r}; expected one word")
    name, kind = kind_of(model)
    facts, own = kind.to_parts(model)
    arrays = {key: _storable(key, array) for key, array in own.items()}
    arrays |= {_EXTRA + key: _storable(key, array) for key, array in (extra_arrays or {}).items()}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "rankwright": __version__,
        "kind": name,
        "method": method,
        "parameters": _plain(parameters, "parameters"),
        "training": _plain(training or {}, "training"),
        "measures": _plain(measures or {}, "measures"),
        **facts,
        "arrays": {key: {"dtype": array.dtype.str, "shape": list(array.shape)} for key, array in arrays.items()},
    }
    text = (json.dumps(header, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    with replace_file(path) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, HEADER, text)
        for key, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            _add(archive, f"{key}.npy", content.getvalue())


def load_model(path: str | Path) -> SavedModel:
    """Read a file that :func:`save_model` wrote; its scores are the same to the last bit.

    Examples
    --------
    >>> saved = load_model("model.rkw")  # doctest: +SKIP
    >>> saved.predict(X)  # doctest: +SKIP
    """
    path = Path(path)
    with _opened(path) as archive:
        header = _read_header(path, archive)
        kind = KINDS[header["kind"]]
        arrays = {name: _read_array(path, archive, name, about) for name, about in header["arrays"].items()}
    own = {name: array for name, array in arrays.items() if not name.startswith(_EXTRA)}
    extra = {name.removeprefix(_EXTRA): array for name, array in arrays.items() if name.startswith(_EXTRA)}
    try:
        model = kind.from_parts(header, own)
    except KeyError as error:
        raise _damaged(path, f"{error} is missing") from None
    except InputError as error:
        raise _damaged(path, error.message) from None
    facts = (header["parameters"], header["training"], header["measures"])
    return SavedModel(model, header["method"], *facts, extra, header)


def _storable(name: str, array: Any) -> Array:
    if not _NAME.fullmatch(name):
        raise InputError(f"an array cannot be called {name!r}; expected letters, digits, _ and -")
    array = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise InputError(f"the array {name} holds {array.dtype}; expected numbers of at most 8 bytes")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _plain(value: Any, what: str) -> Any:
    """The same in the types of JSON."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, f"{what}[{key!r}]") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, what) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{what} is a {type(value).__name__}, which a model file cannot hold; expected numbers and text")


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3  # the same bytes on every system
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, content)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, its entries checked; whatever is wrong with it becomes one line."""
    if path.is_dir():
        raise InputError("is a folder; expected a model file", path)
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise InputError("is no Rankwright model; expected a file that `rankwright train` wrote", path)
            with zipfile.ZipFile(file) as archive:
                _check_entries(path, archive, file.seek(0, io.SEEK_END))
                yield archive
    except InputError:
        raise
    except _BROKEN_ZIP as error:
        raise _damaged(path, _reason(error), "damaged or truncated") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None


def _check_entries(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    entries = archive.infolist()
    if HEADER not in archive.namelist():
        raise InputError(f"is a zip archive, but no Rankwright model; expected {HEADER} in it", path)
    if len(set(archive.namelist())) < len(entries):
        raise _damaged(path, "an entry occurs twice")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise _damaged(path, f"{entry.filename} is compressed or encrypted; expected plain entries")
    if sum(max(entry.file_size, entry.compress_size) for entry in entries) > size:
        raise _damaged(path, f"its entries claim more than the {size:,} bytes of the file")


def _read_header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        header = json.loads(archive.read(HEADER).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"{HEADER} cannot be read ({_reason(error)})") from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InputError(f"is no Rankwright model; expected the format {_FORMAT!r} in {HEADER}", path)
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise _damaged(path, f"the version in {HEADER} is {version!r}; expected {_VERSION}")
    if version > _VERSION:
        raise InputError(f"written by a newer Rankwright; version {version}, this one reads {_VERSION}", path)
    types = {"kind": str, "method": str, "parameters": dict, "training": dict, "measures": dict, "arrays": dict}
    for key, wanted in types.items():
        if not isinstance(header.get(key), wanted):
            raise _damaged(path, f"{key!r} in {HEADER} is missing or no {wanted.__name__}")
    if header["kind"] not in KINDS:
        raise InputError(f"holds a model of the kind {header['kind']!r}; expected one of: {', '.join(KINDS)}", path)
    return header


def _read_array(path: Path, archive: zipfile.ZipFile, name: str, about: Any) -> Array:
    file = f"{name}.npy"
    if file not in archive.namelist():
        raise _damaged(path, f"{file} is missing")
    content = archive.read(file)
    # Read by pattern: numpy's own reader evaluates the header as Python text.
    start = _NPY.match(content)
    if start is None or start.end() != 10 + int.from_bytes(content[8:10], "little"):
        raise _damaged(path, f"{file} is no plain array of numbers")
    try:
        dtype, shape = np.dtype(start[1].decode()), tuple(int(side) for side in start[2].split(b",") if side.strip())
    except (TypeError, ValueError):
        raise _damaged(path, f"{file} is no plain array of numbers") from None
    size = len(content) - start.end()
    if math.prod(shape) * dtype.itemsize != size:
        raise _damaged(path, f"{file} holds {size:,} bytes for {dtype} of shape {shape}")
    if about != {"dtype": dtype.str, "shape": list(shape)}:
        raise _damaged(path, f"{file} holds {dtype} of shape {shape}; {HEADER} says otherwise")
    array = np.frombuffer(content, dtype, offset=start.end()).reshape(shape).astype(dtype.newbyteorder("="))
    array.flags.writeable = False
    return array


def _reason(error: BaseException) -> str:
    """The first words of an error, in one line."""
    text = " ".join(str(error).split())
    return text[:100] if text else type(error).__name__


def _damaged(path: Path, what: str, how: str = "damaged") -> InputError:
    return InputError(f"{how} model file: {what}", path)
