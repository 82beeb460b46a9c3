"""The file of a model: its bytes, lines with their numbers, and values of JSON that are checked where they are used.

A reader takes a file with its settings and gives what was imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.errors import InputError, shown
from rankwright.io.files import open_file

_DIGITS = 18  # of a whole number: more than any of a model


@dataclass(frozen=True)
class ImportSettings:
    """How a model is taken over: see :func:`rankwright.import_model`.

    `names`: those of the features instead of the file's; empty: none.
    """

    first_feature: int | None = None
    n_features: int | None = None
    all_trees: bool = False
    constant: bool = True
    names: tuple[str, ...] | None = None

    def named(self, names: Sequence[str] | None, first: int) -> tuple[str, ...] | None:
        """The names of the features, from the number of the first on."""
        if self.names is not None:
            return self.names or None
        return None if names is None else tuple(names[first:])

    def start(self, numbered_from: int) -> int:
        """The number that the file gives to the first feature; the format counts from `numbered_from`."""
        return numbered_from if self.first_feature is None else self.first_feature


@dataclass(frozen=True)
class ModelFile:
    """A file with a model, read whole and unpacked."""

    path: str | Path
    content: bytes

    @classmethod
    def read(cls, path: str | Path) -> ModelFile:
        with open_file(path, as_it_is=True) as file:  # models that are not read have messages of their own
            packed = file.is_gzip
            file.raw.seek(0)
            return cls(path, b"".join(file.chunks()) if packed else file.raw.read())

    @cached_property
    def lines(self) -> list[str]:
        try:
            return self.content.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            line = self.content[: error.start].count(b"\n") + 1
            raise self.error("is not text in UTF-8; expected a complete model file", line) from None

    def numbered_lines(self, after: int = 0) -> list[tuple[int, str]]:
        """The lines that are not empty, with their numbers, after some at the start."""
        lines = [(number, text.strip()) for number, text in enumerate(self.lines[after:], after + 1)]
        return [(number, text) for number, text in lines if text]

    @property
    def last_line(self) -> int:
        return max(1, len(self.lines))

    def error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, self.path, line)

    def json(self) -> Any:
        try:
            return json.loads(self.content.decode("utf-8"))
        except json.JSONDecodeError as error:
            problem = f"is not complete JSON ({error.msg}, column {error.colno})"
            raise self.error(f"{problem}; expected the whole model file", error.lineno) from None
        except UnicodeDecodeError:
            raise self.error("is not text in UTF-8; expected a complete model file") from None
        except RecursionError:
            raise self.error("is nested too deeply; expected a model file") from None
        except ValueError:  # a whole number of thousands of digits
            raise self.error("holds a number of too many digits; expected a model file") from None


@dataclass(frozen=True)
class Facts:
    """An object of JSON: values are checked when they are asked for. `place`: where it is, such as ``"tree 3"``."""

    file: ModelFile
    place: str
    values: dict[str, Any]

    @classmethod
    def of(cls, file: ModelFile, value: Any, place: str = "") -> Facts:
        if not isinstance(value, dict):
            where = f"{place} is" if place else "is"
            raise file.error(f"{where} {shown(value)}; expected an object of a model file")
        return cls(file, place, value)

    @classmethod
    def trees(cls, file: ModelFile, trees: Iterable[Any]) -> Iterator[Facts]:
        for at, tree in enumerate(trees):
            yield cls.of(file, tree, f"tree {at} (from 0)")

    def inside(self, value: Any) -> Facts:
        """An object at the same place."""
        return Facts.of(self.file, value, self.place)

    def error(self, message: str) -> InputError:
        return self.file.error(f"{self.place}: {message}" if self.place else message)

    def get(self, key: str, wanted: type | tuple[type, ...], expected: str) -> Any:
        value = self.values.get(key)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            problem = f"{key} is {shown(value)}" if key in self.values else f"{key} is missing"
            raise self.error(f"{problem}; expected {expected}")
        return value

    def object(self, key: str) -> Facts:
        return Facts(self.file, self.place, self.get(key, dict, "an object"))

    def list(self, key: str) -> Any:
        """Return a list, or an array of numbers."""
        return self.get(key, (list, np.ndarray), "a list")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty if there is none."""
        texts = self.list(key) if self.values.get(key) is not None else []
        if not all(isinstance(text, str) for text in texts):
            raise self.error(f"{key} is {shown(texts)}; expected a list of strings")
        return tuple(texts)

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number, also one written as text."""
        value = self.values.get(key, default)
        number = integer_of(value)
        if number is None:
            raise self.error(f"{key} is {shown(value)}; expected a whole number of at least 0")
        return number

    def number(self, key: str) -> float:
        number = number_of(self.values.get(key))
        if number is None or not math.isfinite(number):
            raise self.error(f"{key} is {shown(self.values.get(key))}; expected a finite number")
        return number

    def array(self, key: str, dtype: Any, size: int | None = None) -> Any:
        """A list of numbers as an array; whole numbers must be whole."""
        values = self.list(key)
        try:
            if len(values) and isinstance(values, list) and not all(isinstance(value, int | float) for value in values):
                raise ValueError
            with np.errstate(over="ignore", invalid="ignore"):
                numbers = np.asarray(values, np.float64)
                array = numbers.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"{key} is {shown(values)}; expected a list of numbers") from None
        odd = np.issubdtype(dtype, np.integer) and not np.array_equal(array, numbers)
        if array.ndim != 1 or odd or (size is not None and len(array) != size):
            many = "" if size is None else f"{size:,} "
            raise self.error(f"{key} is {shown(values)}; expected a list of {many}numbers")
        return array


def number_of(value: Any) -> float | None:
    """A number, or a text that is one; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return None if isinstance(value, str) and "_" in value else float(value)
    except (ValueError, OverflowError):
        return None


def integer_of(value: Any) -> int | None:
    """A whole number of at least 0, or a text that is one; None if it is neither."""
    if isinstance(value, str):
        value = value.strip()
        return int(value) if value.isascii() and value.isdecimal() and len(value) <= _DIGITS else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def numbers_of(words: Sequence[str], file: ModelFile, line: int, name: str) -> list[float]:
    numbers = []
    for word in words:
        number = number_of(word)
        if number is None:
            raise file.error(f"{name} has {shown(word)}; expected numbers", line)
        numbers.append(number)
    return numbers


@dataclass(frozen=True)
class Imported:
    """A model, what its file says of its training, and notices of what was left out, and whether it matters."""

    model: Any
    facts: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
