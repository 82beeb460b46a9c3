"""Thresholds in the number type and by the rule of another program, exactly, in both directions.

Our rule is ``x <= t`` in float64.

To a consumer that holds x in a narrower type: ``x <= t`` is ``x <= d`` with d the largest number of the type up to t,
and ``x < n`` with n the next number after d. Solr adds a slack of 1e-6f to what is written: the number s has to be
found with ``s + 1e-6f == d`` in float32, which tiny thresholds may not have. Infinite thresholds (missing values
against the rest) become the largest finite number, as JSON has no infinity; features are finite.

From a program that rounds x to float32 before it compares it: rounding keeps the order, so ``round(x) <= c`` is
``x <= T`` for one T, the largest float64 that is rounded to c or less. Rows in single precision take the same side of T
as of c.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array

SOLR_SLACK = np.float32(1e-6)
_STEPS = 64  # numbers next to the difference that may give the sum


def rounded_down(threshold: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> Array:
    """The largest number of a type up to each threshold, infinite ones too."""
    wide = np.asarray(threshold, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        near = wide.astype(dtype)
        return np.where(near > wide, np.nextafter(near, np.array(-np.inf, dtype)), near)


def for_at_most(threshold: npt.ArrayLike, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """What to write for ``x <= …``: finite, the same side for every finite value of the type but the extremes."""
    limits = np.finfo(dtype)
    return np.clip(rounded_down(threshold, dtype), limits.min, limits.max)


def for_below(threshold: npt.ArrayLike, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """What to write for ``x < …``."""
    limits = np.finfo(dtype)
    with np.errstate(over="ignore", under="ignore"):
        above = np.nextafter(rounded_down(threshold, dtype), np.array(np.inf, dtype))
    return np.clip(above, limits.min, limits.max)


def for_slack(threshold: npt.ArrayLike, slack: np.float32 = SOLR_SLACK) -> tuple[Array, Array]:
    """What to write for ``x <= … + slack`` in float32, and what that comes to.

    Where no number gives the threshold, the one that comes to the next below is taken; the two then differ. 0 stays on
    its side: there is a number that comes to 0.
    """
    wanted = np.atleast_1d(for_at_most(threshold))
    with np.errstate(over="ignore", under="ignore"):
        written = (wanted - slack).astype(np.float32)
        for _ in range(_STEPS):
            written = np.where(written + slack > wanted, np.nextafter(written, np.float32(-np.inf)), written)
        for _ in range(_STEPS):
            higher = np.nextafter(written, np.float32(np.inf))
            written = np.where((written + slack < wanted) & (higher + slack <= wanted), higher, written)
    shape = np.shape(threshold)
    return written.reshape(shape), (written + slack).reshape(shape)


def number_text(value: float | np.floating[Any]) -> str:
    """A number as text that gives it back, whether it is read as its own type or as float64 first.

    Examples
    --------
    >>> number_text(np.float32(0.1)), number_text(0.1), number_text(np.float32(3.0))
    ('0.1', '0.1', '3.0')
    """
    if isinstance(value, np.float32):
        is_extreme = 0 < abs(value) < 1e-4 or abs(value) >= 1e16
        form = np.format_float_scientific if is_extreme else np.format_float_positional
        short = form(value, unique=True, trim="0")
        return short if np.float32(float(short)) == value else repr(float(value))
    return repr(float(value))


_OVER = 2.0**128 - 2.0**103  # from here on, numbers are rounded to infinity


def single(value: float) -> float:
    """A number rounded to float32."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def from_at_most(limit: float) -> float:
    """The largest float64 that is rounded to a float32 of at most ``limit``, which is one.

    Examples
    --------
    >>> from_at_most(1.0) == 1 + 2**-24, from_at_most(single(0.1)) > single(0.1)
    (True, True)
    """
    with np.errstate(over="ignore"):
        return from_below(float(np.nextafter(np.float32(limit), np.float32(np.inf)))) if limit != math.inf else math.inf


def from_below(limit: float) -> float:
    """The largest float64 that is rounded to a float32 below ``limit``, which is one.

    Examples
    --------
    >>> np.float32(from_below(1.0)) < 1, np.float32(np.nextafter(from_below(1.0), 2)) < 1
    (np.True_, np.False_)
    """
    if limit == -math.inf:
        return -math.inf
    upper, lower = np.float32(limit), np.nextafter(np.float32(limit), np.float32(-np.inf))
    if math.isinf(upper):
        return math.nextafter(_OVER, -math.inf)
    if math.isinf(lower):
        return -_OVER
    middle = (float(upper) + float(lower)) / 2
    return middle if np.float32(middle) == lower else math.nextafter(middle, -math.inf)
