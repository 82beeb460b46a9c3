"""Inner products of cutting planes, kept from pass to pass: for more features than planes in use.

A Newton step needs (τI + γWᵀW + RᵀR/μ)⁻¹ g, R the rows whose products are the covariance of the planes in use, block by
block, and W orthogonal rows. Over planes in use that is a system with

    A = μτI + R Rᵀ − (R Wᵀ) D (W Rᵀ),   D = γ / (τ + γ W Wᵀ)

R is planes less the mean of those before them in their block, so R Rᵀ and R Wᵀ are differences of V Vᵀ and V Wᵀ, of
which only the rows of new planes are computed. Slacks and gradients do not depend on these products: what is rounded
here makes a step shorter, not a result wrong. (Newton's method in the space of the planes, all from inner products, did
not converge on few documents.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.solvers.algebra import add_products, dot, product, solve_in_place

Array = npt.NDArray[Any]
_FIRST = 256  # planes that there is room for at first


class InnerSpace(NamedTuple):
    """What a step needs: the products, their numbers by block and plane, and room for rows, a system and its side."""

    gram: Array
    slots: Array
    cross: Array
    rows: Array
    A: Array
    x: Array


class InnerProducts:
    """V Vᵀ and V Wᵀ of the planes of a book; plane p of block b has the number ``slots[b, p]`` there.

    ``is_kept`` says whether there is anything: otherwise all arrays are empty, and nothing is done.
    """

    def __init__(self, n_blocks: int, capacity: int, is_kept: bool) -> None:
        self.is_kept = is_kept
        self.changed = np.zeros((n_blocks, capacity), np.bool_)
        self.slots = np.full((n_blocks, capacity) if is_kept else (0, 0), -1)
        self.gram, self.cross = np.empty((0, 0)), np.empty((0, 0))
        self._n = 0
        self._wide: Array | None = None

    @property
    def room(self) -> int:
        """The number of planes that there is room for."""
        return len(self.gram)

    def space(self) -> InnerSpace:
        """The products, with new room to work in."""
        room = self.room + 3
        of_work = np.empty((room, self.cross.shape[1])), np.zeros((room, room)), np.zeros(room)
        return InnerSpace(self.gram, self.slots, self.cross, *of_work)

    def clear(self) -> None:
        """Forget all planes."""
        self.slots[:], self._n = -1, 0

    def rescale(self, factor: float) -> None:
        """The products of planes that were multiplied by ``factor``."""
        self.gram *= factor * factor
        self.cross *= factor

    def update(self, vectors: Array, counts: Array, wide: Array) -> None:
        """Compute the products of the planes that are new or have changed; ``wide`` is W."""
        if not self.is_kept:
            return
        in_use = np.arange(self.slots.shape[1]) < counts[:, None]
        in_use[:, 0] = False
        new = in_use & (self.slots < 0)
        self.slots[new] = self._n + np.arange(new.sum())
        self._n += int(new.sum())
        changed = in_use & (new | self.changed | (self._wide is not wide))
        self.changed[:], self._wide = False, wide
        self._make_room(wide)
        planes = vectors[in_use]
        of_plane, which = self.slots[in_use], self.slots[changed]
        found = product(planes, vectors[changed]) if len(which) else np.empty((len(planes), 0))
        self.gram[of_plane[:, None], which] = found
        self.gram[which[:, None], of_plane] = found.T
        if len(wide) and len(which):
            self.cross[which] = product(vectors[changed], wide)

    def _make_room(self, wide: Array) -> None:
        """Rows for every plane, twice as many as before if there are too few."""
        room = max(self.room, _FIRST)
        while room < self._n:
            room *= 2
        if room > self.room:
            gram = np.zeros((room, room))
            gram[: self.room, : self.room] = self.gram
            self.gram = gram
        if self.cross.shape != (room, len(wide)):
            cross = np.zeros((room, len(wide)))
            if self.cross.shape[1] == len(wide):
                cross[: len(self.cross)] = self.cross
            self.cross = cross


@njit(cache=True, error_model="numpy", inline="always")
def _list_in_use(
    alpha: Any, counts: Any, cut: float, blocks: Any, places: Any, roots: Any, parts: Any
) -> int:  # fmt: skip
    """List the planes with α above ``cut``, block after block, without the zero planes; return how many.

    A plane's row of R is root · (v − the mean of those before), after which the mean moves to v by ``part`` of the way.
    """
    n = 0
    for b in range(counts.size):
        mass = alpha[b, 0] if alpha[b, 0] > cut else 0.0
        for p in range(1, counts[b]):
            weight = alpha[b, p]
            if weight > cut:
                blocks[n], places[n], parts[n] = b, p, weight / (weight + mass)
                roots[n] = np.sqrt(parts[n] * mass)
                mass += weight
                n += 1
    return n


@njit(cache=True, error_model="numpy", inline="always")
def _system(
    V: Any, g: Any, G: Any, slots: Any, cross: Any, share: Any, along: Any, n_used: int, blocks: Any, places: Any,
    roots: Any, parts: Any, numbers: Any, mean: Any, A: Any, rows: Any, x: Any,
) -> int:  # fmt: skip
    """Put −R Rᵀ into ``A``, R Wᵀ √D into ``rows``, R (g − WᵀD W g) into ``x``; return how many rows R has.

    ``share`` is D, ``along`` W g. Planes are listed by `_list_in_use`; of A, the upper half.
    """
    n = begin = before = 0
    k, middle = share.size, 0.0
    for i in range(n_used):
        numbers[i] = slots[blocks[i], places[i]]
    for i in range(n_used):
        if i == 0 or blocks[i] != blocks[i - 1]:
            begin, before, middle = i, n, 0.0
            for j in range(n_used + k):
                mean[j] = 0.0
        root, part, row = roots[i], parts[i], G[numbers[i]]
        for j in range(begin, n_used):
            apart = row[numbers[j]] - mean[j]
            A[n, j] = -root * apart
            mean[j] += part * apart
        value = dot(V[blocks[i], places[i]], g)
        for c in range(k):
            seen = cross[numbers[i], c]
            value -= seen * share[c] * along[c]
            apart = seen * np.sqrt(share[c]) - mean[n_used + c]
            rows[n, c] = root * apart
            mean[n_used + c] += part * apart
        apart = value - middle
        x[n] = root * apart
        middle += part * apart
        if root == 0.0:
            continue
        at, centre = before, 0.0  # the differences of columns
        for j in range(begin, n_used):
            if j > begin and blocks[j] != blocks[j - 1]:
                centre = 0.0
            apart = A[n, j] - centre
            centre += parts[j] * apart
            if roots[j] > 0.0:
                A[n, at] = roots[j] * apart
                at += 1
        n += 1
    return n


@njit(cache=True, error_model="numpy", inline="always")
def _direction(
    V: Any, g: Any, cross: Any, share: Any, along: Any, wide: Any, strength: float, n_used: int, n: int, blocks: Any,
    places: Any, roots: Any, parts: Any, numbers: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """Put −(τI + γWᵀW)⁻¹ (g − Rᵀx) into ``out``; ``along`` is W g before, W (g − Rᵀx) after."""
    for j in range(out.size):
        out[j] = g[j]
    row, of_mean = n, 0.0
    for at in range(n_used):
        i = n_used - 1 - at
        if at == 0 or blocks[i] != blocks[i + 1]:
            of_mean = 0.0
        own = 0.0
        if roots[i] > 0.0:
            row -= 1
            own = roots[i] * x[row]
        factor = own + parts[i] * of_mean
        of_mean = (1.0 - parts[i]) * of_mean - own
        v = V[blocks[i], places[i]]
        for j in range(out.size):
            out[j] -= factor * v[j]
        for c in range(share.size):
            along[c] -= factor * cross[numbers[i], c]
    for c in range(share.size):
        for j in range(out.size):
            out[j] -= share[c] * along[c] * wide[c, j]
    for j in range(out.size):
        out[j] /= -strength


def inner_step(
    space: Any, V: Any, alpha: Any, counts: Any, cut: Any, mu: Any, g: Any, strength: Any, curvature: Any, sigma: Any,
    wide: Any, out: Any,
) -> None:  # fmt: skip
    """A Newton step over the planes in use; for compiled code."""
    G, slots, cross, rows, A, x = space
    room, k = x.size, wide.shape[0]
    blocks, places, numbers = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    roots, parts, mean = np.empty(room), np.empty(room), np.empty(room + k)
    share, along = np.zeros(k), np.zeros(k)
    if curvature > 0.0:
        for r in range(k):
            share[r] = curvature / (strength + curvature * dot(wide[r], wide[r]))
            along[r] = dot(wide[r], g)
    n_used = _list_in_use(alpha, counts, cut, blocks, places, roots, parts)
    n = _system(
        V, g, G, slots, cross, share, along, n_used, blocks, places, roots, parts, numbers, mean, A, rows, x
    )  # fmt: skip
    padded = (n + 3) // 4 * 4
    for i in range(padded):
        for j in range(max(i, n), padded):
            A[i, j] = 0.0
        if i >= n:
            A[i, i], x[i] = -1.0, 0.0
            for c in range(k):
                rows[i, c] = 0.0
    add_products(rows, padded, k, A)
    for i in range(padded):
        for j in range(i, padded):
            A[i, j] = -A[i, j]
        A[i, i] += mu * strength
    solve_in_place(A, x, padded)
    _direction(
        V, g, cross, share, along, wide, strength, n_used, n, blocks, places, roots, parts, numbers, x, out
    )  # fmt: skip
