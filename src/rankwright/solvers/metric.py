"""The shape of an objective's curvature: covariance of a sample, shrunk towards the identity by as much as it is noise.

The share of noise is that of Ledoit and Wolf (2004).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.solvers.algebra import add_products

__all__ = ["IDENTITY", "shape_of"]

Array = npt.NDArray[Any]
IDENTITY = np.empty((0, 0))
_CHUNK = 64  # rows that fit the nearest cache


def shape_of(sample: Callable[[], Array]) -> Array | None:
    """Second moments of the rows of a centred sample, with a mean eigenvalue of 1; None if there are none."""
    rows = sample()
    n, d = rows.shape
    if n == 0:
        return None
    padded = (d + 3) // 4 * 4
    total, part, fourth = np.zeros((padded, padded)), np.zeros((padded, _CHUNK)), 0.0
    for start in range(0, n, _CHUNK):
        chunk = rows[start : start + _CHUNK]
        part[:d, : len(chunk)] = chunk.T
        add_products(part, padded, len(chunk), total)
        squares = np.einsum("ij,ij->i", chunk, chunk)
        fourth += float((squares * squares).sum())
    upper = np.triu(total[:d, :d]) / n
    found = upper + np.triu(upper, 1).T
    mean = float(np.trace(found)) / d
    if not (np.isfinite(mean) and mean > 0):
        return IDENTITY
    found /= mean
    share = _noise(float((found * found).sum()), fourth / (mean * mean), n, d)
    return np.asarray((1.0 - share) * found + share * np.eye(d))


def _noise(square: float, fourth: float, n: int, d: int) -> float:
    """The share of noise, from ‖S‖² of the moments S and Σ‖x‖⁴ of the rows, with a mean eigenvalue of 1."""
    return min(1.0, max(0.0, (fourth / n - square) / n) / max(square - d, 1e-300))
