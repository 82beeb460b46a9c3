"""Categorical features of trees: the categories that a model knows, numbered from 0, and values turned into these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import NO_CATEGORY, category_numbers, is_text, number_of
from rankwright.errors import InputError

Array = npt.NDArray[Any]
MOST_CATEGORIES = 255


class Coding:
    """Turns the values of categorical features into the numbers of their categories, others into NaN.

    Parameters
    ----------
    categories : mapping
        For each categorical feature the categories that a model knows, all strings or all numbers.
    names : sequence of str
        The names of all features, for messages.
    """

    def __init__(self, categories: Mapping[int, Sequence[Any]], names: Sequence[str]) -> None:
        self.categories: dict[int, tuple[Any, ...]] = {}
        self._tables: dict[int, tuple[Array, Array, bool]] = {}
        self._names = names
        for j, given in sorted(categories.items()):
            if not (isinstance(j, int) and 0 <= j < len(names)):
                raise InputError(f"categories of feature {j!r}; expected one of {len(names)} features, from 0")
            values, numbers = category_numbers(given, f"the feature {names[j]!r}")
            order = np.argsort(numbers)
            if len(values) > MOST_CATEGORIES or len(set(numbers.tolist())) < len(values):
                what = f"the feature {names[j]!r} has {len(values)} categories"
                raise InputError(f"{what}; expected up to {MOST_CATEGORIES}, all different")
            self.categories[j] = values
            self._tables[j] = (numbers[order], order, bool(values) and isinstance(values[0], str))

    def __call__(self, X: Array) -> Array:
        """Dense rows with all features as columns, the categorical ones coded; unchanged if there are none."""
        if not self._tables or not len(X):
            return X
        X = np.array(X)
        for j, (numbers, order, texts) in self._tables.items():
            values = X[:, j].astype(np.float64)
            self._check(values, j, texts)
            at = np.minimum(np.searchsorted(numbers, values), max(len(numbers) - 1, 0))
            is_known = numbers[at] == values if len(numbers) else np.zeros(len(values), bool)
            X[:, j] = np.where(is_known, order[at] if len(order) else 0, np.nan)
        return X

    def _check(self, values: Array, j: int, texts: bool) -> None:
        """Reject numbers where the model knows text, and text where it knows numbers; 0 is a value left out."""
        given = (values != 0) & (values != NO_CATEGORY) & ~np.isnan(values)
        wrong = given & (is_text(values) != texts)
        if len(self.categories[j]) and wrong.any():
            row = int(np.argmax(wrong))
            held = f"the number {values[row]:g}" if texts else "text"
            what = f"the feature {self._names[j]!r} is {held} in row {row} (from 0)"
            raise InputError(f"{what}; the model was trained on {'text' if texts else 'numbers'} there")


def counted(numbers: Array) -> tuple[Array, Array]:
    """The different values of a column, ascending, and how often each occurs."""
    is_value = ~np.isnan(numbers) & (numbers != NO_CATEGORY)
    values, counts = np.unique(numbers[is_value], return_counts=True)
    return values, counts


def most_common(numbers: Array, counts: Array, values: Sequence[Any] | None, most: int) -> tuple[Any, ...]:
    """The most common values of a column, most common first, equal ones by their number.

    Parameters
    ----------
    numbers, counts : ndarray
        The values, as `counted` gives them.
    values : sequence or None
        What the numbers stand for; None: for themselves.
    most : int
        How many at most; the others, the rarest, are as if they were missing.
    """
    by_count = numbers[np.lexsort((numbers, -counts))].tolist()
    if values is None:
        return tuple(int(number) if number == int(number) else number for number in by_count[:most])
    by_number = {number_of(value): value for value in sorted(values, reverse=True)}
    return tuple([by_number[number] for number in by_count if number in by_number][:most])
