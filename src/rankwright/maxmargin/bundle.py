"""Max-margin training with a certificate: passes over the data give planes, a small problem over them gives weights.

    P(w) = ½‖w‖² + Σ_b H_b(w)  ≥  optimum  ≥  D(α) = Σ_b α_b·ℓ_b − ½‖Σ_b V_bᵀ α_b‖²,   α_b on the simplex

Every pass evaluates P at the current weights, exactly, and gives each block of queries its most violated plane. With
one block per query this is the n-slack cutting plane, or block-coordinate Frank–Wolfe with cached planes and all blocks
moved together; with a single block it is the papers' 1-slack cutting plane. Training stops when (P − D)/P ≤ tol.

The small problem, ½‖w‖² + Σ_b max_p (ℓ_bp − v_bp·w), has its maximum smoothed, max ≈ μ log Σ_p exp(·/μ), which is off
by at most μ log(planes) a block, and is solved by Newton's method from the last w, μ falling on the way. The softmax
weights are a feasible α, so every w comes with a bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

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
# and Wolf (2004). Of many, the directions in which features vary most, and one number for all others: then systems have
# as many rows as planes are in use, not as many as features. Half of the sample finds the directions, the other half
# says how much features vary there, so what is noise in the first half is found to be no larger than the rest.


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
            products = np.einsum("ij,j->i", self.rows, v)
            along += np.einsum("i,i->", products, products)
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
    total, columns, fourth = np.zeros((padded, padded)), np.zeros((padded, _CHUNK)), 0.0
    for start in range(0, n, _CHUNK):
        chunk = rows[start : start + _CHUNK]
        columns[:, len(chunk) :] = 0.0
        columns[:d, : len(chunk)] = chunk.T
        add_products(columns, padded, len(chunk), total)
        squares = np.einsum("ij,ij->i", chunk, chunk)
        fourth += float((squares * squares).sum())
    upper = np.triu(total[:d, :d]) / n
    moments = upper + np.triu(upper, 1).T
    square = float((moments * moments).sum())
    share = min(1.0, max(0.0, (fourth / n - square) / n) / max(square - d, 1e-300))
    return Shape(share, (1.0 - share) * moments, _NONE)


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
    directions = orthonormal(np.random.default_rng(0).standard_normal((min(wanted, d, len(rows)), d)))
    for _ in range(_ROUNDS):
        directions = orthonormal(product(np.ascontiguousarray(product(rows, directions).T), columns))
    scores = np.ascontiguousarray(product(rows, directions).T)
    moments = product(scores, scores)
    for _ in range(2):  # the fourth power: as good as four rounds more, among these directions
        moments /= max(float(moments.max()), 1e-300)
        moments = product(moments, moments)
    return np.asarray(product(orthonormal(moments), np.ascontiguousarray(directions.T)))


# The planes of every block, and the problem over them.


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
    V: Array, losses: Array, alpha: Array, counts: Array, slack: Array, changed: Array, vectors: Array, new: Array,
    w: Array, enough: int
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
    """Planes of every block, the zero plane (the ideal ranking) included, their α, and the resulting weights.

    `w`: weights that nearly minimise the problem over the planes. `dual`: the best lower bound of the objective so far;
    it never falls. `curvature`: that of the objective which the planes lacked when last seen; scales with the costs.
    `shape`, `has_shape`: the shape of that curvature, if it can be known, and whether that was asked. `steps`: Newton
    steps taken.
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

        Returns how many were given, and the hinge there by the cached planes.
        """
        at = self.w if at is None else at
        given, predicted = _add_planes(
            self.vectors, self.losses, self.alpha, self.counts, self._slack, self._inner.changed, vectors, losses, at,
            self._enough,
        )  # fmt: skip
        return int(given), float(predicted)

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
        solved = [
            minimise(
                self.vectors, self.losses, self.counts, self._slack, self._move, alpha, w, self._combined, mu,
                larger, steps, centre, curvature, shape.level, shape.whole, shape.rows, self._space,
            )
            for larger, mu in zip([0.0, *levels], levels, strict=False)
        ]  # fmt: skip
        for loss, square, taken in solved:
            self._bound(loss, square)
            self.steps += taken
        return solved[-1][0], solved[-1][1]

    def _make_space(self, shape: Shape) -> None:
        """Working space of the compiled code; made anew when the shape is another, or inner products have more room."""
        inner = self._inner
        if self._space_for == (shape, inner.room):
            return
        if inner.is_kept:
            self._space = inner.space()
        else:
            d, size = len(self.w), self.losses.size
            self._space = np.empty((size + 3, d)), *working_space(d, size, shape.whole.size > 0)
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


# The solver: its certificate, and the choice of the next weights.
#
# Planes say nothing where no pass has been, hence the second problem, with the curvature that they lacked in the last
# pass in the shape of the features' covariance within queries. Isotropic curvature is right for uncorrelated features
# only: on real ones it took more passes than none; the covariance of the blocks' gradients did not work either.
# Block-coordinate Frank–Wolfe steps over the same planes needed hundreds of sweeps a pass at C = 1000.


_DAMPING = 0.4  # share of the curvature seen that is assumed for the next step
_MIN_DAMPING = 0.1  # of the last one
_BALANCE = 0.03  # of the gap: what the next weights must promise to gain, or they go further for a better bound
_BOLDEST = 0.01
_FEW = 8  # blocks: with fewer, assuming a curvature is no help
_LONG = 20  # passes after which it is none either, where the whole shape is known
_REACH, _MIN_REACH = 0.7, 0.1  # part of the way to the minimum over the planes that is gone then
_FLAT = 3  # passes without a better bound after which the small problem is solved exactly
_IDLE = 4  # passes without a new plane after which only rounding is left
_MANY = 80  # blocks
_STEPS = (8, 20)  # of Newton's method, at each smoothing, between passes: with many blocks, with few
_ACCURACY = 0.35  # of the current gap, to which the small problem is solved between passes
_NEAR_ACCURACY, _NEAR_STEPS = 0.05, 8  # the same for the next weights


class Objective(Protocol):
    """What the solver needs: the hinge of every block at given weights, as a plane."""

    @property
    def n_blocks(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    def evaluate(self, w: Array) -> Any:
        """Losses, vectors and values of the blocks' planes at ``w``."""

    def sample(self) -> Array:
        """Rows whose second moments have the shape of the hinge's curvature; none if they are few or cost much."""


@dataclass(frozen=True)
class Check:
    """One row of the path: the state after a pass.

    `passes`: so far. `primal`, `dual`: the lowest objective and the highest lower bound seen. `gap`: (primal − dual) /
    primal, the proof of how good the weights are. `seconds`, `seconds_planes`: wall time so far, and the part of it
    spent on the small problem over the planes.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    seconds: float
    seconds_planes: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The best weights, their objective, and the certificate.

    ``stalled``: rounding kept the gap from closing. ``rounds``: of `rankwright.maxmargin.ramp`, whose certificate is
    that of the last round's convex problem. ``converged``: a rule other than the gap was met. ``flat``: gradient
    descent ended as passes hardly lowered the objective, whatever the gap. ``constraints``: those that the n-slack
    cutting plane added.
    """

    w: Array
    objective: float
    gap: float
    path: tuple[Check, ...]
    interrupted: bool = False
    stalled: bool = False
    rounds: tuple[Any, ...] = ()
    converged: bool = False
    flat: bool = False
    constraints: int | None = None


def solve(
    objective: Objective,
    book: PlaneBook,
    *,
    tol: float,
    max_passes: int,
    start: tuple[Array, float] | None = None,
    constant: float = 0.0,
    callback: Callable[[Check], Any] | None = None,
) -> Solution:
    """Train from the weights and planes in ``book`` until the certificate is reached, or for ``max_passes``.

    Two small problems over the planes follow each pass. The first gives the bound. Its weights are far out where the
    planes say little, so the next weights are those of the second, which assumes that the hinge is curved where no
    plane has been yet: ½γ (w − centre)·Σ(w − centre) is added. Σ is the shape of the objective's sample, γ measured by
    how much the planes were wrong in the last pass, and the centre the best weights so far.

    ``start``: weights and their hinge from a training with other costs.

    A callback that returns True stops training; so does Ctrl-C. Either way the best weights so far are returned, with
    the gap that they have.
    """
    began = time.perf_counter()
    run = _Run(objective, book, start, constant)
    path: list[Check] = []
    interrupted = stalled = False
    try:
        for passes in range(1, max_passes + 1):
            planes = run.evaluate()
            if run.gap() > tol:
                run.learn(planes)
            path.append(run.check(passes, began))
            stop = callback(path[-1]) if callback is not None else False
            stalled = run.idle > _IDLE and path[-1].gap > tol
            if path[-1].gap <= tol or stop is True or stalled:
                break
    except KeyboardInterrupt:
        if run.best.hinge == np.inf:
            raise
        interrupted = True
        if not path or run.best.value + constant < path[-1].primal:
            path.append(run.check(passes, began))
    return Solution(run.best.w, path[-1].primal, path[-1].gap, tuple(path), interrupted, stalled)


class _Run:
    def __init__(
        self, objective: Objective, book: PlaneBook, start: tuple[Array, float] | None, constant: float
    ) -> None:
        self._objective, self._book, self._constant = objective, book, constant
        self._steps = _STEPS[objective.n_blocks < _MANY]
        book.resume(_ACCURACY, self._steps)
        self.best = _Centre(book.w.copy()) if start is None else _Centre(*start)
        self.dual = book.dual
        self.idle, self._flat, self._passes, self._on_planes = 0, 0, 0, 0.0
        self._boldness, self._reach = 1.0, _REACH
        self._next = self.best.w
        if start is not None and book.n_planes:
            self._go_on(max(self.best.value - book.dual, 1e-300))

    def evaluate(self) -> Any:
        planes = self._objective.evaluate(self._next)
        self._passes += 1
        self._before, self._here = self.best, _Centre(self._next, float(planes.values.sum()))
        better = self._here.value < self.best.value
        self.best = self._here if better else self.best
        self._reach = min(_REACH, 1.2 * self._reach) if better else max(_MIN_REACH, 0.7 * self._reach)
        return planes

    def learn(self, planes: Any) -> None:
        """Add the planes to the book and solve the small problems over them."""
        started, book = time.perf_counter(), self._book
        seen_before = book.n_planes > 0
        given, predicted = book.add(planes.losses, planes.vectors, self._here.w)
        self.idle = 0 if given else self.idle + 1
        if self._by_reach():
            pass
        elif seen_before:
            book.curvature = self._missing(self._here.hinge - predicted)
        elif book.curvature == 0.0:
            book.curvature = self._steepness(planes)
        room = max(self.best.value - book.dual, 1e-300)
        if self.idle:
            book.solve_exactly(0.1**self.idle * room)
        elif self._flat >= _FLAT:
            book.solve_exactly(_ACCURACY * room)
        else:
            book.improve(room, _ACCURACY, self._steps)
        self._go_on(room)
        self._flat = 0 if book.dual > self.dual else self._flat + 1
        self.dual = max(self.dual, book.dual)
        self._on_planes += time.perf_counter() - started

    def _go_on(self, room: float) -> None:
        """Choose the next weights. If nothing new was found, go all the way to the minimum over the planes."""
        book = self._book
        if self.idle:
            self._next = book.w.copy()
            return
        if self._by_reach():
            self._next = self.best.w + self._reach * (book.w - self.best.w)
            return
        damping = self._boldness * book.curvature
        self._next, value = book.near(self.best.w, damping, room, _NEAR_ACCURACY, _NEAR_STEPS)
        bolder = self.best.value - value < _BALANCE * room
        self._boldness = max(_BOLDEST, 0.5 * self._boldness) if bolder else min(1.0, 2.0 * self._boldness)

    def _missing(self, wrong: float) -> float:
        """The curvature to assume, from how much the planes were ``wrong`` at the weights just tried."""
        square = self._square(self._here.w - self._before.w)
        seen = 2.0 * max(wrong, 0.0) / square if square > 0 else 0.0
        return max(_DAMPING * seen, _MIN_DAMPING * self._book.curvature)

    def _steepness(self, planes: Any) -> float:
        """The curvature with which the first step takes the hinge to 0, if the first planes are right."""
        total = planes.vectors.sum(axis=0)
        square = float(total @ total)
        return square * square / max(float(planes.losses.sum()) * self._square(total), 1e-300)

    def _square(self, v: Array) -> float:
        return (self._book.shape or FLAT).square(v)

    def _by_reach(self) -> bool:
        """Whether steps go by reach, as the curvature is unknown or was no help; finds its shape when first called."""
        book = self._book
        if self._objective.n_blocks < _FEW:
            return True
        if not book.has_shape:
            book.shape, book.has_shape = shape_of(self._objective.sample), True
        return book.shape is None or (self._passes > _LONG and book.shape.whole.size > 0)

    def check(self, passes: int, began: float) -> Check:
        """The row of the path. Rounding may put the bound above the objective by a hair; a gap is not negative."""
        primal, seconds = self.best.value + self._constant, time.perf_counter() - began
        dual = min(self.dual + self._constant, primal)
        return Check(passes, primal, dual, self.gap(), seconds, self._on_planes)

    def gap(self) -> float:
        """(P − D)/P of the best weights."""
        primal = self.best.value
        return max(0.0, primal - self.dual) / (primal + self._constant) if primal + self._constant > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _Centre:
    w: Array
    hinge: float = np.inf

    @property
    def value(self) -> float:
        return 0.5 * float(self.w @ self.w) + self.hinge
