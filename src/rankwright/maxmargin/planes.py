"""Cached cutting planes, block by block, and the quadratic programme over them.

    minimise over w   ½‖w‖² + Σ_b max_p (ℓ_bp − v_bp·w)
    its dual          D(α) = Σ_b α_b·ℓ_b − ½‖Σ_b V_bᵀ α_b‖²,   α_b on the simplex for each block b

The maximum is smoothed, max ≈ μ log Σ_p exp(·/μ), which is off by at most μ log(planes) a block, and the smooth problem
solved by Newton's method from the last w, μ falling on the way. The softmax weights are a feasible α, so every w comes
with a bound. Blocks with one plane in use add nothing to the Hessian; the system has as many rows as there are
fractional α, or features, whichever is less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.maxmargin.smoothed import (
    InnerProducts,
    add_products,
    dot,
    interior_point,
    minimise,
    orthonormal,
    product,
    working_space,
)

# The shape of an objective's curvature: second moments of a sample, with a mean eigenvalue of 1.
#
# Of few features the whole matrix is kept, shrunk towards the identity by as much as it is noise: the share of Ledoit
# and
# Wolf (2004). Of many, the directions in which features vary most, and one number for all others: then systems have as
# many rows as planes are in use, not as many as features. Half of the sample finds the directions, the other half says
# how much features vary there, so what is noise in the first half is found to be no larger than the rest.


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


_IN_USE = 1e-6  # planes with less α are dropped when a block is full
_OF_USE = 1e-3  # and with less than this, when it has enough
_SHARPER = 0.1  # how fast smoothing is reduced
_ENOUGH = 560  # planes in total


@njit(cache=True, error_model="numpy", inline="always")
def _merge(V: Any, losses: Any, slack: Any, alpha: Any, place: int) -> int:
    """Merge the plane at ``place``, the one with least α, into the next: their mean, weighted by α; return which."""
    other = 1 if place != 1 else 2
    for p in range(1, alpha.size):
        if p != place and alpha[p] < alpha[other]:
            other = p
    total = alpha[place] + alpha[other]
    share = alpha[place] / total
    for j in range(V.shape[1]):
        V[other, j] = share * V[place, j] + (1.0 - share) * V[other, j]
    losses[other] = share * losses[place] + (1.0 - share) * losses[other]
    slack[other] = share * slack[place] + (1.0 - share) * slack[other]
    alpha[other] = total
    return other


@njit(cache=True, error_model="numpy")
def _add_planes(
    V: Any, losses: Any, alpha: Any, counts: Any, slack: Any, changed: Any, vectors: Any, new: Any, w: Any, enough: int
) -> tuple[int, float]:  # fmt: skip
    """Give every block its new plane if it lies above the cached ones at ``w``.

    Returns how many were given, and the sum of the blocks' highest cached planes at ``w``. Also fills ``slack`` and
    marks what has ``changed``.

    A block with ``enough`` planes drops the one with least α, if it is of little use. In a full block the two with
    least α are replaced by their mean.
    """
    given, total = 0, 0.0
    capacity = V.shape[1]
    for b in range(counts.size):
        highest = value = -np.inf
        for p in range(counts[b] + 1):  # the last one is the new plane
            highest = max(highest, value)
            loss, v = (losses[b, p], V[b, p]) if p < counts[b] else (new[b], vectors[b])
            value = loss - dot(v, w)
            if p < counts[b]:
                slack[b, p] = value
        total += highest
        if value <= highest + 1e-12 * (abs(highest) + abs(new[b])):
            continue
        given += 1
        place = counts[b]
        if place >= enough:
            place = 1
            for p in range(2, counts[b]):
                if alpha[b, p] < alpha[b, place]:
                    place = p
            if counts[b] < capacity and alpha[b, place] > _OF_USE:
                place = counts[b]
            elif counts[b] == capacity and alpha[b, place] > _IN_USE:
                changed[b, _merge(V[b], losses[b], slack[b], alpha[b], place)] = True
        if place == counts[b]:
            counts[b] += 1
        for j in range(w.size):
            V[b, place, j] = vectors[b, j]
        losses[b, place] = new[b]
        slack[b, place] = value
        alpha[b, place] = 0.0
        changed[b, place] = True
    return given, total


class PlaneBook:
    """Planes, their α, and the resulting weights.

    `n_blocks`, `capacity`, `n_features`: ``capacity`` planes are kept per block, the zero plane (the ideal ranking)
    included. `w`: weights that nearly minimise the problem over the planes. `dual`: the best lower bound of the
    objective so far; it never falls. `curvature`: that of the objective which the planes lacked when last seen; scales
    with the costs. `shape`, `has_shape`: the shape of that curvature, if it can be known, and whether that was asked.
    `steps`: Newton steps taken.
    """

    _drops_planes = True  # so that there are few, and their inner products take little room

    def __init__(self, n_blocks: int, capacity: int, n_features: int) -> None:
        self.vectors = np.zeros((n_blocks, capacity, n_features))
        self.losses = np.zeros((n_blocks, capacity))
        self.alpha = np.zeros((n_blocks, capacity))
        self.alpha[:, 0] = 1.0
        self.counts = np.ones(n_blocks, np.int64)
        self.w = np.zeros(n_features)
        self.dual = 0.0
        self.curvature = 0.0
        self.shape: Shape | None = None
        self.has_shape = False
        self.steps = 0
        self._point = (0.0, 0.0)
        self._slack, self._move = np.zeros((n_blocks, capacity)), np.zeros((n_blocks, capacity))
        self._enough = min(capacity, max(5, _ENOUGH // n_blocks))  # planes a block keeps even if they are of little use
        self._combined = np.zeros(n_features)  # Σ_b V_bᵀ α_b
        self._inner = InnerProducts(n_blocks, capacity, self._drops_planes and n_features > MANY_FEATURES)
        self._space: tuple[Array, ...] = ()
        self._space_for: tuple[Shape, int] | None = None

    @property
    def n_planes(self) -> int:
        """Number of planes, not counting the zero planes."""
        return int(self.counts.sum()) - len(self.counts)

    def add(self, losses: Array, vectors: Array, at: Array | None = None) -> tuple[int, float]:
        """Give every block a plane found at the weights ``at`` (default: ``w``), unless the cached ones imply it.

        Returns how many were given, and what the cached planes said the hinge was there.
        """
        at = self.w if at is None else at
        given, said = _add_planes(
            self.vectors, self.losses, self.alpha, self.counts, self._slack, self._inner.changed, vectors, losses, at,
            self._enough,
        )  # fmt: skip
        return int(given), float(said)

    def improve(self, gap: float, accuracy: float, max_steps: int) -> None:
        """Solve the problem over the planes, from a gap of ``gap`` to about ``accuracy`` of it."""
        self._point = self._minimise(self.w, self.alpha, gap, accuracy, max_steps, self.w, 0.0)

    def near(self, centre: Array, curvature: float, gap: float, accuracy: float, steps: int) -> tuple[Array, float]:
        """Weights that nearly minimise the problem over the planes plus ½ curvature (w − centre)·Σ(w − centre).

        Also returns the value over the planes there, without that term.
        Σ is the ``shape``, the identity if it is None. The dual point of this problem gives a bound, too.
        """
        w = centre.copy()
        self._minimise(w, self.alpha.copy(), gap, accuracy, steps, centre, curvature)
        in_use = np.arange(self._slack.shape[1]) < self.counts[:, None]
        return w, float(np.where(in_use, self._slack, 0.0).max(axis=1).sum()) + 0.5 * float(w @ w)

    def _minimise(
        self, w: Array, alpha: Array, gap: float, accuracy: float, steps: int, centre: Array, curvature: float
    ) -> tuple[float, float]:
        """Newton's method with less and less smoothing, from ``w``; α·ℓ and ‖Vᵀα‖² of the last dual point."""
        n_blocks, in_use = len(self.counts), int(self.counts.max())
        last = accuracy * gap / (n_blocks * math.log(2.0 + self.counts.mean()))
        levels = [max(last, gap / n_blocks)]
        while levels[-1] > last:
            levels.append(max(last, levels[-1] * _SHARPER))
        shape, inner = self.shape or FLAT, self._inner
        inner.update(self.vectors, self.counts, shape.rows)
        self._make_space(shape)
        np.einsum("bpj,j->bp", self.vectors[:, :in_use], -w, out=self._slack[:, :in_use])
        self._slack[:, :in_use] += self.losses[:, :in_use]
        found = [
            minimise(
                self.vectors, self.losses, self.counts, self._slack, self._move, alpha, w, self._combined, mu,
                larger, steps, centre, curvature, shape.level, shape.whole, shape.rows, self._space,
            )
            for larger, mu in zip([0.0, *levels], levels, strict=False)
        ]  # fmt: skip
        for loss, square, taken in found:
            self._bound(loss, square)
            self.steps += taken
        return found[-1][0], found[-1][1]

    def _make_space(self, shape: Shape) -> None:
        """What the compiled code works in; made anew when the shape is another, or inner products have more room."""
        inner = self._inner
        if self._space_for == (shape, inner.room):
            return
        if inner.is_kept:
            self._space = inner.space()
        else:
            d, most = len(self.w), self.losses.size
            self._space = np.empty((most + 3, d)), *working_space(d, most, shape.whole.size > 0)
        self._space_for = shape, inner.room

    def resume(self, accuracy: float, max_steps: int) -> None:
        """Solve the problem over the existing planes, whose costs may have changed."""
        if self.n_planes:
            slack = self.losses - np.einsum("bpj,j->bp", self.vectors, self.w)
            in_use = np.arange(slack.shape[1]) < self.counts[:, None]
            value = float(np.where(in_use, slack, 0.0).max(axis=1).sum()) + 0.5 * float(self.w @ self.w)
            self.improve(max(value - self.dual, 1e-300), accuracy, max_steps)

    def solve_exactly(self, close: float) -> None:
        """Solve the problem over the planes to a gap of ``close``, whatever it takes."""
        block, plane = np.nonzero(np.arange(self.losses.shape[1]) < self.counts[:, None])
        w, z = interior_point(self.vectors[block, plane], self.losses[block, plane], block, len(self.counts), close)
        if not (np.isfinite(w).all() and np.isfinite(z).all()):
            return
        self.w[:] = w
        self.alpha[:] = 0.0
        self.alpha[block, plane] = np.maximum(z, 0.0)
        combined = np.einsum("bp,bpj->j", self.alpha, self.vectors)
        self._point = (float((self.alpha * self.losses).sum()), float((combined * combined).sum()))
        self._bound(*self._point)

    def _bound(self, loss: float, square: float) -> None:
        """D of the best share of an α with α·ℓ = ``loss``, ‖Vᵀα‖² = ``square``, the rest of it on the zero planes."""
        share = min(1.0, loss / square) if square > 0 else 1.0
        self.dual = max(self.dual, share * loss - 0.5 * share * share * square)

    def tilt(self, move: Array) -> None:
        """Add v·``move`` to the ℓ of every plane: the same planes around another origin, with no bound yet."""
        in_use = int(self.counts.max())
        self.losses[:, 1:in_use] += np.einsum("bpj,j->bp", self.vectors[:, 1:in_use], move)
        self.dual, self._point = 0.0, (0.0, 0.0)

    def clear(self) -> None:
        """Drop all planes."""
        self.counts[:] = 1
        self.alpha[:] = 0.0
        self.alpha[:, 0] = 1.0
        self.dual, self._point = 0.0, (0.0, 0.0)
        self._inner.clear()

    def rescale(self, factor: float) -> None:
        """Multiply all costs by ``factor``: planes scale with them, α stays feasible."""
        in_use = int(self.counts.max())
        self.vectors[:, 1:in_use] *= factor
        self.losses[:, 1:in_use] *= factor
        self.curvature *= factor
        self._inner.rescale(factor)
        self.dual, self._point = 0.0, (factor * self._point[0], factor * factor * self._point[1])
        self._bound(*self._point)
