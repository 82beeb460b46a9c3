"""The kinds of models that a file can hold. A model's own module says how it becomes facts and arrays, and back.

Modules are loaded when their kind is met, so that a linear ranker loads neither trees nor nets.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.container import Format
from rankwright.errors import InputError, shown
from rankwright.models.base import Model

__all__ = [
    "KINDS",
    "MODEL",
    "Arrays",
    "Kind",
    "Read",
    "bounded_numbers",
    "kind_of",
    "names_from",
    "names_of",
    "version_of",
    "whole_number",
]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
_LARGEST = 1e300  # a sum this large leaves room for a few more terms
Read = Callable[[str, Any, tuple[int | None, ...]], Array]
"""Returns the array of a name, type and shape, or raises InputError."""

_WRITERS = "`rankwright train` or `rankwright import`"
MODEL = Format("rankwright-model", "model.json", "model", _WRITERS, is_folder=False, version=2)


@dataclass(frozen=True)
class Kind:
    """Converts one kind of model to header facts and arrays, and back; version: that of files that hold it."""

    model: type[Model]
    to_parts: Callable[[Any], tuple[dict[str, Any], Arrays]]
    from_parts: Callable[[dict[str, Any], Read], Any]
    version: Callable[[Any], int] = lambda model: 1


class _Kinds(Mapping[str, Kind]):
    """All kinds by name, each loaded on demand."""

    _HOMES = {  # noqa: RUF012 - never changed
        "linear": "rankwright.models.linear:LINEAR",
        "trees": "rankwright.models.trees.model:TREES",
        "grades": "rankwright.models.trees.model:GRADES",
        "binned": "rankwright.models.binned:BINNED",
        "net": "rankwright.models.net:NET",
        "sum": "rankwright.models.sum:SUM",
    }

    def __getitem__(self, name: str) -> Kind:
        module, _, kind = self._HOMES[name].partition(":")
        loaded: Kind = getattr(importlib.import_module(module), kind)
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(self._HOMES)

    def __len__(self) -> int:
        return len(self._HOMES)

    def of(self, model: Any) -> str | None:
        """Name of a model's kind; None if it cannot be saved."""
        module = type(model).__module__
        names = [name for name, home in self._HOMES.items() if home.startswith(f"{module}:")]
        return next((name for name in names if self[name].model is type(model)), None)


KINDS = _Kinds()


def kind_of(model: Any) -> tuple[str, Kind]:
    name = KINDS.of(model)
    if name is None:
        raise InputError(f"a {type(model).__name__} cannot be saved; expected one of: {', '.join(KINDS)}")
    return name, KINDS[name]


def version_of(model: Any) -> int:
    """The first file version that can hold the model."""
    name = KINDS.of(model)
    return 1 if name is None else KINDS[name].version(model)


def names_of(model: Model) -> dict[str, Any]:
    """Feature names of a model, for its header."""
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
