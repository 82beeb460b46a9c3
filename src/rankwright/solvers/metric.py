"""The shape of an objective's curvature: second moments of a sample, with a mean eigenvalue of 1.

Of few features the whole matrix is kept, shrunk towards the identity by as much as it is noise: the share of Ledoit and
Wolf (2004). Of many, the directions in which features vary most, and one number for all others: then systems have as
many rows as planes are in use, not as many as features. Half of the sample finds the directions, the other half says
how much features vary there, so what is noise in the first half is found to be no larger than the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.solvers.algebra import add_products, orthonormal, product

Array = npt.NDArray[Any]
_CHUNK = 64  # rows that fit the nearest cache
MANY_FEATURES = 512  # more than these: the whole matrix is not kept
_ROWS = 2048  # enough to find directions
_DIRECTIONS = (24, 200)  # looked for; more where all of the first ones are of use
_ROUNDS = 3  # of the power method
_ABOVE = 2.0  # times as much variance as the rest has: a direction of use
_NONE = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Shape:
    """Σ = ``level`` · identity + ``whole`` + ``rows``ᵀ ``rows``, rows orthogonal; either matrix may be empty."""

    level: float
    whole: Array
    rows: Array

    def square(self, v: Array) -> float:
        """v·Σv."""
        along = self.level * np.einsum("j,j->", v, v)
        if self.whole.size:
            along += np.einsum("i,ij,j->", v, self.whole, v)
        if self.rows.size:
            part = np.einsum("ij,j->i", self.rows, v)
            along += np.einsum("i,i->", part, part)
        return float(along)


FLAT = Shape(1.0, _NONE, _NONE)


def shape_of(sample: Callable[[], Array]) -> Shape | None:
    """The shape of a centred sample, its rows in any order; None if it is empty."""
    rows = sample()
    n, d = rows.shape
    if n == 0:
        return None
    mean = float(np.einsum("ij,ij->", rows, rows)) / (n * d)
    if not (np.isfinite(mean) and mean > 0):
        return FLAT
    rows = rows / np.sqrt(mean)
    return _whole(rows) if d <= MANY_FEATURES else _few_directions(rows)


def _whole(rows: Array) -> Shape:
    n, d = rows.shape
    padded = (d + 3) // 4 * 4
    total, part, fourth = np.zeros((padded, padded)), np.zeros((padded, _CHUNK)), 0.0
    for start in range(0, n, _CHUNK):
        chunk = rows[start : start + _CHUNK]
        part[:, len(chunk) :] = 0.0
        part[:d, : len(chunk)] = chunk.T
        add_products(part, padded, len(chunk), total)
        squares = np.einsum("ij,ij->i", chunk, chunk)
        fourth += float((squares * squares).sum())
    upper = np.triu(total[:d, :d]) / n
    found = upper + np.triu(upper, 1).T
    square = float((found * found).sum())
    share = min(1.0, max(0.0, (fourth / n - square) / n) / max(square - d, 1e-300))
    return Shape(share, (1.0 - share) * found, _NONE)


def _few_directions(rows: Array) -> Shape:
    rows = rows[:: -(-len(rows) // _ROWS)]
    finding, judging = np.ascontiguousarray(rows[::2]), np.ascontiguousarray(rows[1::2])
    for wanted in _DIRECTIONS:
        directions = _directions(finding, wanted)
        scores = product(judging, directions)
        along = np.einsum("ni,ni->i", scores, scores) / max(len(judging), 1)
        total, rest = float(np.einsum("ij,ij->", judging, judging)) / max(len(judging), 1), 1.0
        for _ in range(3):
            used = int((along > _ABOVE * rest).sum())
            rest = max(total - float(along[:used].sum()), 1e-3 * total) / (rows.shape[1] - used)
        if used < wanted:
            break
    return Shape(rest, _NONE, np.sqrt(along[:used])[:, None] * directions[:used])


def _directions(rows: Array, wanted: int) -> Array:
    """About the ``wanted`` directions with most variance, by the power method from a draw with a fixed seed."""
    d = rows.shape[1]
    columns = np.ascontiguousarray(rows.T)
    found = orthonormal(np.random.default_rng(0).standard_normal((min(wanted, d, len(rows)), d)))
    for _ in range(_ROUNDS):
        found = orthonormal(product(np.ascontiguousarray(product(rows, found).T), columns))
    scores = np.ascontiguousarray(product(rows, found).T)
    moments = product(scores, scores)
    for _ in range(2):  # the fourth power: as good as four rounds more, among the directions found
        moments /= max(float(moments.max()), 1e-300)
        moments = product(moments, moments)
    return np.asarray(product(orthonormal(moments), np.ascontiguousarray(found.T)))
