"""Categorical features for consumers that know categories as small whole numbers.

Categories that are such numbers already stay as they are. Others, texts above all, are counted from 0, and the file
``categories.json`` says which number each is to be given as.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import codes_of
from rankwright.exporting.form import Form

__all__ = ["CATEGORIES", "coded", "coding_files", "left_codes"]

Array = npt.NDArray[Any]
CATEGORIES = "categories.json"
_MOST = 1 << 16


def _stays(values: tuple[Any, ...]) -> bool:
    """Whether categories are small whole numbers."""
    return all(not isinstance(value, str) and value == int(value) and 0 <= value < _MOST for value in values)


def coding_files(form: Form) -> dict[str, bytes]:
    """The file that says how categories are numbered; none if all stay as they are."""
    tables = {form.names[j]: list(values) for j, values in form.categories.items() if not _stays(values)}
    return {CATEGORIES: (json.dumps(tables, indent=1, ensure_ascii=False) + "\n").encode()} if tables else {}


def left_codes(form: Form, node: int) -> tuple[list[int], list[int]]:
    """The categories of a split, as numbers for the consumer: those that go left, and those that go right."""
    values = form.categories[int(form.trees.feature[node])]
    words, stays = form.trees.sets[form.trees.subset[node]], _stays(values)
    sides: tuple[list[int], list[int]] = ([], [])
    for code, value in enumerate(values):
        is_left = (int(words[code >> 6]) >> (code & 63)) & 1
        sides[0 if is_left else 1].append(int(value) if stays else code)
    return sorted(sides[0]), sorted(sides[1])


def coded(X: Array, files: Mapping[str, bytes], names: tuple[str, ...]) -> Array:
    """Rows with the numbers that ``categories.json`` gives to categories; others are missing."""
    if CATEGORIES not in files:
        return X
    X = X.copy()
    for name, values in json.loads(files[CATEGORIES]).items():
        j = names.index(name)
        codes = codes_of(X[:, j], values)
        X[:, j] = np.where(codes < 0, np.nan, codes)
    return X
