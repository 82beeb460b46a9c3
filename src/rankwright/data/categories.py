"""Categories in a table of numbers: every value has a number of its own, the same in all data.

A number stands for itself, a text is 2⁵² plus 52 bits of its hash, a missing value 2⁵³: float64 holds all of them
exactly. So tables are taken apart, joined and matched like any others, and models find their categories by value. Among
100,000 texts two have the same number with a probability of one in a million; they then count as one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.errors import InputError, shown

Categories = Mapping[int, tuple[Any, ...]]
"""For each categorical column its values, all strings or all numbers."""

NO_CATEGORY = float(1 << 53)
"""Stands for a missing value."""

_TEXT = 1 << 52
_DIGITS = 10  # of the number of a column
_LISTED = 5  # columns named in an error


def number_of(value: str | float) -> float:
    """The number that stands for a category.

    Examples
    --------
    >>> number_of(3), number_of("de") == number_of("de"), 2**52 <= number_of("de") < 2**53
    (3.0, True, True)
    """
    if not isinstance(value, str):
        return float(value)
    digest = hashlib.blake2b(value.encode(), digest_size=8).digest()
    return float(_TEXT | (int.from_bytes(digest, "little") & (_TEXT - 1)))


def is_text(numbers: Array) -> Array:
    """Mask of the numbers that stand for text."""
    return np.asarray((numbers >= _TEXT) & (numbers < NO_CATEGORY))


def category_numbers(values: Iterable[Any], what: str) -> tuple[tuple[Any, ...], Array]:
    """Values as the categories of a column, all strings or all numbers, and the numbers that stand for them.

    `values`: different values. `what`: where they are, for messages.
    """
    plain = tuple(_plain(value) for value in values)
    texts = [isinstance(value, str) for value in plain]
    if (any(texts) and not all(texts)) or not all(is_category(value) for value in plain):
        odd = next((text for text in plain if not is_category(text)), plain[0])
        content = "both strings and numbers" if is_category(odd) else ascii(odd)[:40]
        raise InputError(f"{what} has the categories {content}; expected strings, or finite numbers below 2^52")
    return plain, np.array([number_of(value) for value in plain])


def is_category(value: Any) -> bool:
    """Whether a value can be a category: a string, or a finite number that cannot be mistaken for a text."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)  # halves of a pair
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and abs(value) < _TEXT


def _plain(value: Any) -> Any:
    """A numpy or pandas value as a Python one; whole numbers as int."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return str(value) if isinstance(value, str) else value


def codes_of(column: Array, values: Sequence[Any]) -> Array:
    """Index in ``values`` of each category that the column's numbers stand for; −1 where it is missing."""
    numbers = np.array([number_of(value) for value in values])
    if not len(numbers):
        return np.full(len(column), -1)
    order = np.argsort(numbers)
    at = order[np.minimum(np.searchsorted(numbers, column, sorter=order), len(numbers) - 1)]
    return np.where(numbers[at] == column, at, -1)


def checked_categories(stored: Any, n_features: int) -> dict[int, tuple[Any, ...]]:
    """Check categories read from a file: lists of strings or numbers, by column number as text."""
    listed = stored.items() if isinstance(stored, dict) else [("", None)]
    if not all(isinstance(values, list) and _is_column(key, n_features) for key, values in listed):
        expected = "a list of values for each categorical feature, by its number from 0"
        raise InputError(f"its categories are {shown(stored)}; expected {expected}")
    return {int(key): category_numbers(stored[key], f"feature {key} (from 0)")[0] for key in sorted(stored, key=int)}


def _is_column(key: str, n_features: int) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < _DIGITS and int(key) < n_features and key == str(int(key))


def given_categories(categories: Categories, n_features: int) -> dict[int, tuple[Any, ...]]:
    for column in categories:
        if not isinstance(column, int | np.integer) or not 0 <= column < n_features:
            raise InputError(f"categories of column {column!r}; expected one of {n_features} columns, from 0")
    return {int(key): category_numbers(values, f"column {key} (from 0)")[0] for key, values in categories.items()}


def joined(parts: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """The categories of several data sets with the same columns."""
    columns = {column for data in parts for column in data.categories}
    categories = {}
    for column in sorted(columns):
        name = parts[0].names[column]
        if any(column not in data.categories for data in parts):
            problem = f"the column {name!r} is categorical in some data sets, but not in all"
            raise InputError(f"{problem}; data sets with different columns cannot be joined")
        values = dict.fromkeys(value for data in parts for value in data.categories[column])
        categories[column] = category_numbers(values, f"the column {name!r}")[0]
    return categories


def check_holds(data: Any, dtype: npt.DTypeLike) -> None:
    """Reject a dtype that is too small for the categories of a data set."""
    if data.categories and np.dtype(dtype) != np.float64:
        columns = named(data.names[column] for column in sorted(data.categories))
        raise InputError(f"{np.dtype(dtype)} cannot hold the categories of {columns}; expected float64")


def named(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    more = f" and {len(listed) - _LISTED:,} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more


def shown_category(value: str) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
