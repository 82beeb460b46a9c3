"""Numbers of documents as features, by name: ``price``, or ``price(missing=0)`` to put a number in the place of NaN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.index.numbers import GivenNumbers, located
from rankwright.text.reading.numbers import as_number

__all__ = ["DocumentTable", "all_numbers", "number_feature"]

Array = npt.NDArray[Any]
_NAME = re.compile(r"(?P<name>[^()\[\]]+)(?:\(missing=(?P<fill>[^()\[\]]*)\))?")


@dataclass(frozen=True, eq=False)
class DocumentTable:
    """Query-independent features: one row per document of an index, in the order of the index."""

    names: tuple[str, ...]
    values: Array


def all_numbers(index: Index, given: GivenNumbers | DocumentTable | None) -> Mapping[str, Array]:
    """The numbers of an index, and over them those given, for the documents that they name."""
    if given is None:
        return index.numbers
    if isinstance(given, DocumentTable):
        given = dict(zip(given.names, np.asarray(given.values).T, strict=True))
    return located(given, index.find, index.n_docs, ()).over(index.numbers, index.n_docs)


def number_feature(name: str, numbers: Mapping[str, Array]) -> Array | None:
    """The values of a feature for all documents, in single precision; None if it is not one of the numbers."""
    found = _NAME.fullmatch(name)
    if found is None or found["name"] not in numbers:
        return None
    with np.errstate(over="ignore"):
        values = numbers[found["name"]].astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"a number {found['name']!r} is not finite in single precision; expected finite numbers")
    if found["fill"] is not None:
        values[np.isnan(values)] = _fill(name, found["fill"])
    return values


def _fill(name: str, text: str) -> float:
    try:
        number = as_number(text)
    except InputError as error:
        raise InputError(f"feature {name!r}: missing {error.message}") from None
    if np.isnan(number):
        raise InputError(f"feature {name!r}: missing is {text!r}; expected a number, as in price(missing=0)")
    return number
