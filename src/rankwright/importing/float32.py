"""Thresholds of programs that compute in single precision, for rows in double precision.

Such a program rounds a value x to float32 before it compares it. Rounding keeps the order, so "round(x) ≤ c" is
"x ≤ T" for one T: the largest float64 that is rounded to c or less. Rows in single precision take the same side of T as
of c.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["at_most", "below", "single"]

_OVER = 2.0**128 - 2.0**103  # from here on, numbers are rounded to infinity


def single(value: float) -> float:
    """A number rounded to float32.

    Examples
    --------
    >>> single(0.1)
    0.10000000149011612
    """
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def at_most(limit: float) -> float:
    """The largest float64 that is rounded to a float32 of at most ``limit``, which is one.

    Examples
    --------
    >>> at_most(1.0) == 1 + 2**-24, at_most(single(0.1)) > single(0.1)
    (True, True)
    """
    with np.errstate(over="ignore"):
        return below(float(np.nextafter(np.float32(limit), np.float32(np.inf)))) if limit != math.inf else math.inf


def below(limit: float) -> float:
    """The largest float64 that is rounded to a float32 below ``limit``, which is one.

    Examples
    --------
    >>> np.float32(below(1.0)) < 1, np.float32(np.nextafter(below(1.0), 2)) < 1
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
