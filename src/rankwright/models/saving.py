"""Model files: a container in a single file, usually named ``.rkw``.

The same model gives the same bytes. A new kind of model is one entry of ``KINDS``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.display import Displayed, Tabled, cell
from rankwright.errors import InputError, shown
from rankwright.io.container import Container, Format, write_file
from rankwright.io.files import Source
from rankwright.io.tables import is_shallow
from rankwright.models.base import Model

__all__ = ["SavedModel", "load_model", "save_model"]

# The kinds of models that a file can hold. A model's own module says how it becomes facts and arrays, and back.
#
# Modules are loaded when their kind is met, so that a linear ranker loads neither trees nor nets.


Arrays = dict[str, Array]
_LARGEST = 1e300  # a sum this large leaves room for a few more terms
Read = Callable[[str, Any, tuple[int | None, ...]], Array]
"""Returns the array of a name, type and shape, or raises InputError."""

_WRITERS = "`rankwright train` or `rankwright import`"
MODEL = Format("rankwright-model", "model.json", "model", _WRITERS, is_folder=False, version=3)


@dataclass(frozen=True)
class ModelKind:
    """Converts one kind of model to header facts and arrays, and back; version: that of files that hold it."""

    model: type[Model]
    encode: Callable[[Any], tuple[dict[str, Any], Arrays]]
    decode: Callable[[dict[str, Any], Read], Any]
    version: Callable[[Any], int] = lambda model: 1


class _Kinds(Mapping[str, ModelKind]):
    """All kinds by name, each loaded on demand."""

    _HOMES = {  # noqa: RUF012 - never changed
        "linear": "rankwright.models.linear:LINEAR",
        "trees": "rankwright.boosting.tree_model:TREES",
        "grades": "rankwright.boosting.tree_model:GRADES",
        "binned": "rankwright.models.linear:BINNED",
        "net": "rankwright.nets.model:NET",
        "sum": "rankwright.models.sum:SUM",
    }

    def __getitem__(self, name: str) -> ModelKind:
        module, _, kind = self._HOMES[name].partition(":")
        loaded: ModelKind = getattr(importlib.import_module(module), kind)
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(self._HOMES)

    def __len__(self) -> int:
        return len(self._HOMES)

    def of(self, model: Any) -> str | None:
        module = type(model).__module__
        names = [name for name, home in self._HOMES.items() if home.startswith(f"{module}:")]
        return next((name for name in names if self[name].model is type(model)), None)


KINDS = _Kinds()


def kind_of(model: Any) -> tuple[str, ModelKind]:
    name = KINDS.of(model)
    if name is None:
        raise InputError(f"a {type(model).__name__} cannot be saved; expected one of: {', '.join(KINDS)}")
    return name, KINDS[name]


def version_of(model: Any) -> int:
    """The first file version that can hold the model."""
    name = KINDS.of(model)
    return 1 if name is None else KINDS[name].version(model)


def names_of(model: Model) -> dict[str, Any]:
    return {"feature_names": None if model.feature_names is None else list(model.feature_names)}


def names_from(facts: dict[str, Any]) -> tuple[str, ...] | None:
    if "feature_names" not in facts:
        raise InputError("feature_names is missing")
    names = facts["feature_names"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError("the feature names are not strings")
    return None if names is None else tuple(names)


def whole_number(facts: dict[str, Any], key: str) -> int:
    number = facts.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"{key} is {shown(number)}; expected a whole number of at least 0")
    return number


def bounded_numbers(read: Read, name: str, shape: tuple[int | None, ...]) -> Array:
    """An array of numbers whose sum is at most the largest sum of scores."""
    numbers = read(name, np.float64, shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.abs(numbers).sum() <= _LARGEST:
            raise InputError(f"{name}.npy holds numbers that are not finite or too large; expected finite numbers")
    return numbers


_EXTRA = "extra."
_FACTS: dict[str, type] = {"kind": str, "method": str, "parameters": dict, "training": dict, "measures": dict}


@dataclass(frozen=True, eq=False, repr=False)
class SavedModel(Displayed):
    """A loaded model file.

    Attributes
    ----------
    model : Model
        The model itself: a LinearModel, TreeModel, NetModel, …
    method : str
        How it was trained, such as ``"svm-map"``.
    parameters, training, measures : dict
        Parameters of the method, facts of the training, and values reached.
    extra_arrays : dict of ndarray
        Other arrays of the method, such as a state to continue from.
    header : dict
        All of ``model.json``.
    """

    model: Model
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    extra_arrays: dict[str, Array] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features; None if they have none."""
        return self.model.feature_names

    def _shown_table(self) -> Tabled:
        table = self.model._shown_table()
        values = (f"{name} {cell(value)}" for name, value in self.measures.items())
        return replace(table, title=repr(self), notes=(*table.notes, *values))

    def to_frame(self) -> Any:
        """All features with their weights or importances; see :meth:`Model.to_frame`."""
        return self.model.to_frame()

    def _drawing(self) -> Any:
        return self.model._drawing()

    def __repr__(self) -> str:
        return f"SavedModel({self.method}: {self.model!r})"

    def predict(
        self,
        X: Any,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        *,
        missing_as_zero: bool = False,
    ) -> Array:
        """One score per row, higher is better, in the caller's order; see :meth:`Model.predict`."""
        return self.model.predict(X, qid, group, missing_as_zero=missing_as_zero)

    def predict_contributions(
        self, X: Any, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None, **settings: Any
    ) -> Array:
        """How much each feature adds to every score; see :meth:`Model.predict_contributions`."""
        return self.model.predict_contributions(X, qid, group, **settings)


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
        The model to write.
    path : path
        The file, usually with the suffix ``.rkw``.
    method : str
        How the model was trained, one word.
    parameters, training, measures : mapping
        Parameters of the method, facts of the training, and values reached: numbers, strings, lists and mappings.
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
        raise InputError("model files are not compressed; expected a name such as model.rkw", path)
    if len(method.split()) != 1 or method != method.strip():
        raise InputError(f"method is {method!r}; expected one word")
    name, kind = kind_of(model)
    described, arrays = kind.encode(model)
    facts = {
        "version": version_of(model),
        "kind": name,
        "method": method,
        "parameters": _plain(parameters, "parameters"),
        "training": _plain(training or {}, "training"),
        "measures": _plain(measures or {}, "measures"),
        **described,
    }
    extra = {_EXTRA + key: array for key, array in (extra_arrays or {}).items()}
    write_file(path, MODEL, facts, {**arrays, **extra})


def load_model(path: Source) -> SavedModel:
    """Read a file written by :func:`save_model`; its scores are the same to the last bit.

    Examples
    --------
    >>> saved = load_model("model.rkw")  # doctest: +SKIP
    >>> saved.predict(X)  # doctest: +SKIP
    """
    stored = Container.open(path, MODEL)
    header = stored.header
    for key, expected in _FACTS.items():
        if not isinstance(header.get(key), expected):
            raise stored.damaged(f"{key!r} in {MODEL.header} is missing or not a {expected.__name__}")
    if not is_shallow(header):
        raise stored.damaged(f"{MODEL.header} is nested too deeply")
    if header["kind"] not in KINDS:
        message = f"holds a model of the kind {shown(header['kind'])}; expected one of: {', '.join(KINDS)}"
        raise InputError(message, stored.path)
    with stored.understood():
        model = KINDS[header["kind"]].decode(header, stored.array)
        extra = {name: stored.array(name, np.generic, None) for name in stored.names if name.startswith(_EXTRA)}
    facts = {key: header[key] for key in _FACTS if key != "kind"}
    extra = {name.removeprefix(_EXTRA): array for name, array in extra.items()}
    return SavedModel(model, **facts, extra_arrays=extra, header=header)


def _plain(value: Any, what: str) -> Any:
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
