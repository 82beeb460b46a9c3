"""Newton's method on the problem over cutting planes with its maximum smoothed, as one compiled function.

    minimise over w   ½‖w‖² + Σ_b μ log Σ_p exp((ℓ_bp − v_bp·w)/μ)

The softmax weights α are the smooth problem's dual point: its gradient is w − Σ_b V_bᵀ α_b, and its Hessian the
identity plus 1/μ times the covariance of the planes of every block under α. Blocks with one plane in use add nothing to
it; the system has as many rows as there are further planes in use, or features, whichever is less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from rankwright._types import Arguments, Array
from rankwright.models.products import FASTMATH

# The small dense algebra of the solvers: compiled loops, as the sums of BLAS depend on its number of threads.


_FEW = 64  # rows that fit the nearest cache


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def dot(a: Array, b: Array) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def solve_in_place(A: Array, x: Array, n: int) -> None:
    """Solve A x = x in place for the first ``n``, a multiple of 4; A symmetric, positive, its upper half used.

    Its factor L, A = L Lᵀ, takes the lower half, with 1 / L_kk on the diagonal; sums over rows of it, four at a time.
    A pivot that rounding reduces to less than 1e-14 of itself is set to that.
    """
    for i in range(0, n, 4):
        m0, m1, m2, m3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        for j in range(i):
            p = A[j]
            a = b = c = d = 0.0
            for k in range(j):  # nothing is written here, so this is vectorised without checks of overlap
                a += m0[k] * p[k]
                b += m1[k] * p[k]
                c += m2[k] * p[k]
                d += m3[k] * p[k]
            m0[j], m1[j] = (p[i] - a) * p[j], (p[i + 1] - b) * p[j]
            m2[j], m3[j] = (p[i + 2] - c) * p[j], (p[i + 3] - d) * p[j]
        for r in range(i, i + 4):
            row = A[r]
            for q in range(i, r + 2):  # the last one is the right side
                other = A[min(q, r)] if q <= r else x
                total = other[r]
                for k in range(min(q, r)):
                    total -= row[k] * other[k]
                if q < r:
                    row[q] = total * other[q]
                elif q == r:
                    row[r] = 1.0 / np.sqrt(max(total, 1e-14 * row[r]))
                else:
                    x[r] = total * row[r]
    for k in range(n - 1, -1, -1):
        x[k] *= A[k, k]
        for j in range(k):
            x[j] -= x[k] * A[k, j]


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def add_products(M: Array, n: int, length: int, A: Array) -> None:
    """A += M Mᵀ, its upper half, over the first ``length`` columns; ``n`` is a multiple of 4, for tiles of 4 × 2."""
    for i in range(0, n, 4):
        m0, m1, m2, m3 = M[i], M[i + 1], M[i + 2], M[i + 3]
        for j in range(0, i + 4, 2):
            p0, p1 = M[j], M[j + 1]
            a = b = c = d = e = f = g = h = 0.0
            for k in range(length):
                x, y = p0[k], p1[k]
                a += m0[k] * x
                b += m1[k] * x
                c += m2[k] * x
                d += m3[k] * x
                e += m0[k] * y
                f += m1[k] * y
                g += m2[k] * y
                h += m3[k] * y
            A[j, i] += a
            A[j, i + 1] += b
            A[j, i + 2] += c
            A[j, i + 3] += d
            A[j + 1, i] += e
            A[j + 1, i + 1] += f
            A[j + 1, i + 2] += g
            A[j + 1, i + 3] += h


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def product(A: Array, B: Array) -> Any:
    """A Bᵀ, both stored by rows; four rows of B at a time."""
    n, k = A.shape[0], B.shape[0]
    out = np.empty((n, k))
    for start in range(0, k, 4):
        last = k - 1
        b0, b1, b2, b3 = B[start], B[min(start + 1, last)], B[min(start + 2, last)], B[min(start + 3, last)]
        for i in range(n):
            a = A[i]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(a.size):
                s0 += a[j] * b0[j]
                s1 += a[j] * b1[j]
                s2 += a[j] * b2[j]
                s3 += a[j] * b3[j]
            out[i, min(start + 3, last)], out[i, min(start + 2, last)] = s3, s2
            out[i, min(start + 1, last)], out[i, start] = s1, s0
    return out


@njit(cache=True, error_model="numpy")
def orthonormal(rows: Array) -> Any:
    """Make the rows orthonormal, in place: each less its part along those before, twice; what is left of none is 0."""
    for i in range(rows.shape[0]):
        before = dot(rows[i], rows[i])
        for _ in range(2):
            for k in range(i):
                along = dot(rows[k], rows[i])
                for j in range(rows.shape[1]):
                    rows[i, j] -= along * rows[k, j]
        length = dot(rows[i], rows[i])
        factor = 1.0 / np.sqrt(length) if length > 1e-20 * before else 0.0
        for j in range(rows.shape[1]):
            rows[i, j] *= factor
    return rows


@njit(cache=True, error_model="numpy", inline="always")
def newton_direction(  # noqa: C901
    rows: Array,
    n: int,
    mu: float,
    g: Array,
    level: float,
    curvature: float,
    sigma: Array,
    A: Array,
    few: Array,
    x: Array,
    out: Array,
) -> None:
    """Put −(level · I + γΣ + RᵀR/μ)⁻¹ g into ``out``, R the first ``n`` rows; without Σ, in the smaller space.

    ``A``, ``few`` and ``x`` are from `working_space`; ``rows`` has room for three more.
    """
    d = g.size
    metric = sigma.size > 0 and curvature > 0.0
    over_features = n > d or metric
    padded = ((d if over_features else n) + 3) // 4 * 4
    for i in range(padded):
        for j in range(padded):
            A[i, j] = mu * curvature * sigma[i, j] if metric and i < d and j < d else 0.0
        A[i, i] += mu * level
        x[i] = 0.0
    M, length = rows, d
    if not over_features:
        for i in range(n, padded):
            for j in range(d):
                rows[i, j] = 0.0
    for start in range(0, n if over_features else 1, few.shape[1]):
        if over_features:
            M, length = few, min(few.shape[1], n - start)
            for i in range(length):
                for j in range(d):
                    few[j, i] = rows[start + i, j]
        add_products(M, padded, length, A)
    if not over_features:
        for i in range(n):
            x[i] = dot(rows[i], g)
    else:
        for j in range(d):
            x[j] = -mu * g[j]
    solve_in_place(A, x, padded)
    if not over_features:
        for j in range(d):
            out[j] = -g[j]
        for i in range(n):
            for j in range(d):
                out[j] += x[i] * rows[i, j]
        for j in range(d):
            out[j] /= level
    else:
        for j in range(d):
            out[j] = x[j]


def working_space(d: int, n: int, has_sigma: bool) -> tuple[Array, Array, Array]:
    """What `newton_direction` needs: a matrix, some rows the other way round, a vector.

    For ``d`` features and at most ``n`` rows; ``has_sigma``: whether there will be a Σ.
    """
    size = (d if has_sigma else min(d, n)) + 3
    return np.zeros((size, size)), np.zeros((d + 3 if size >= d else 0, _FEW)), np.zeros(size)


# Inner products of cutting planes, kept from pass to pass: for more features than planes in use.
#
# A Newton step needs (τI + γWᵀW + RᵀR/μ)⁻¹ g, R the rows whose products are the covariance of the planes in use, block
# by block, and W orthogonal rows. Over planes in use that is a system with
#
#     A = μτI + R Rᵀ − (R Wᵀ) D (W Rᵀ),   D = γ / (τ + γ W Wᵀ)
#
# R is planes less the mean of those before them in their block, so R Rᵀ and R Wᵀ are differences of V Vᵀ and V Wᵀ, of
# which only the rows of new planes are computed. Slacks and gradients do not depend on these products: what is rounded
# here makes a step shorter, not a result wrong. (Newton's method in the space of the planes, all from inner products,
# did not converge on few documents.)


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
        return len(self.gram)

    def space(self) -> InnerSpace:
        """The products, with new room to work in."""
        room = self.room + 3
        of_work = np.empty((room, self.cross.shape[1])), np.zeros((room, room)), np.zeros(room)
        return InnerSpace(self.gram, self.slots, self.cross, *of_work)

    def clear(self) -> None:
        self.slots[:], self._n = -1, 0

    def rescale(self, factor: float) -> None:
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
        products = product(planes, vectors[changed]) if len(which) else np.empty((len(planes), 0))
        self.gram[of_plane[:, None], which] = products
        self.gram[which[:, None], of_plane] = products.T
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
    alpha: Array, counts: Array, cut: float, blocks: Array, places: Array, roots: Array, parts: Array
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
    V: Array, g: Array, G: Array, slots: Array, cross: Array, share: Array, along: Array, n_used: int, blocks: Array,
    places: Array, roots: Array, parts: Array, numbers: Array, mean: Array, A: Array, rows: Array, x: Array,
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
    V: Array, g: Array, cross: Array, share: Array, along: Array, wide: Array, strength: float, n_used: int, n: int,
    blocks: Array, places: Array, roots: Array, parts: Array, numbers: Array, x: Array, out: Array,
) -> None:  # fmt: skip
    """Put −(τI + γWᵀW)⁻¹ (g − Rᵀx) into ``out``; ``along`` is W g before, W (g − Rᵀx) after."""
    for j in range(out.size):
        out[j] = g[j]
    row, of_mean = n, 0.0
    for at in range(n_used):
        i = n_used - 1 - at
        if at == 0 or blocks[i] != blocks[i + 1]:
            of_mean = 0.0
        direct = 0.0
        if roots[i] > 0.0:
            row -= 1
            direct = roots[i] * x[row]
        factor = direct + parts[i] * of_mean
        of_mean = (1.0 - parts[i]) * of_mean - direct
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
    space: Arguments, V: Array, alpha: Array, counts: Array, cut: float, mu: float, g: Array, strength: float,
    curvature: float, sigma: Array, wide: Array, out: Array,
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


_LOOSE = 3.0  # the first, smoothest problem need not be solved as well as the last
_LOWEST = -14.0  # exponents below this give weights of 0
_SHORTEST = 1e-6  # part of a Newton step that is tried
_NEGLIGIBLE = 3e-2  # softmax weights below this do not enter the Hessian at first
_SMALL = 1e-5  # and below this, if that was too coarse
_LEAST = 1e-11  # and below this, never


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def _add(w: Array, factor: float, v: Array) -> None:
    for j in range(w.size):
        w[j] += factor * v[j]


@njit(cache=True, error_model="numpy", inline="always")
def _fall(V: Array, counts: Array, w: Array, out: Array) -> None:
    """−v·w of every plane."""
    for b in range(counts.size):
        for p in range(1, counts[b]):  # plane 0 is zero
            out[b, p] = -dot(V[b, p], w)


@njit(cache=True, error_model="numpy")
def _combine(V: Array, alpha: Array, counts: Array, out: Array) -> None:
    """Σ_b V_bᵀ α_b."""
    for j in range(out.size):
        out[j] = 0.0
    for b in range(counts.size):
        for p in range(1, counts[b]):
            if alpha[b, p] > 0.0:
                _add(out, alpha[b, p], V[b, p])


@njit(cache=True, error_model="numpy")
def _soften(slack: Array, move: Array, length: float, counts: Array, mu: float, alpha: Array) -> float:
    """Softmax of every block of slack + length · move into ``alpha``; returns Σ_b μ log Σ_p exp(·/μ)."""
    total = 0.0
    for b in range(counts.size):
        highest = -np.inf
        for p in range(counts[b]):
            alpha[b, p] = slack[b, p] + length * move[b, p]
            highest = max(highest, alpha[b, p])
        mass = 0.0
        for p in range(counts[b]):
            power = (alpha[b, p] - highest) / mu
            alpha[b, p] = np.exp(power) if power > _LOWEST else 0.0
            mass += alpha[b, p]
        for p in range(counts[b]):
            alpha[b, p] /= mass
        total += highest + mu * np.log(mass)
    return total


@njit(cache=True, error_model="numpy", inline="always")
def _spread(V: Array, alpha: Array, counts: Array, cut: float, mean: Array, rows: Array) -> int:
    """Rows R with RᵀR = Σ_b covariance of the block's planes with α above ``cut``; return how many.

    A block's k-th plane in use gives the row √(α m / (α + m)) (v − mean of those before), m the weight of those before.
    """
    n = 0
    for b in range(counts.size):
        mass = 0.0
        for p in range(counts[b]):
            weight = alpha[b, p]
            if weight <= cut:
                continue
            v = V[b, p]
            if mass == 0.0:
                for j in range(mean.size):
                    mean[j] = v[j]
            else:
                root, part = np.sqrt(weight * mass / (weight + mass)), weight / (weight + mass)
                for j in range(mean.size):
                    apart = v[j] - mean[j]
                    rows[n, j] = root * apart
                    mean[j] += part * apart
                n += 1
            mass += weight
    return n


@njit(cache=True, error_model="numpy", inline="always")
def _sharpen(V: Array, counts: Array, slack: Array, alpha: Array, factor: float, gradient: Array) -> None:
    """At weights that solve the problem for a larger μ, add to ``gradient`` what the step to a smaller one needs.

    Planes in use should keep their α, so their slacks must draw closer as μ falls: by ``factor`` = (1 − μ/μ_old)/μ.
    """
    for b in range(counts.size):
        mean = 0.0
        for p in range(counts[b]):
            mean += alpha[b, p] * slack[b, p]
        for p in range(1, counts[b]):
            if alpha[b, p] > 0.0:
                _add(gradient, -factor * alpha[b, p] * (slack[b, p] - mean), V[b, p])


@njit(cache=True, error_model="numpy", inline="always")
def _pull(level: float, sigma: Array, wide: Array, curvature: float, v: Array, out: Array) -> None:
    for i in range(v.size):
        out[i] = curvature * level * v[i]
        if sigma.size and curvature > 0.0:
            out[i] += curvature * dot(sigma[i], v)
    if curvature > 0.0:
        for r in range(wide.shape[0]):
            _add(out, curvature * dot(wide[r], v), wide[r])


def _newton_step(
    space: Arguments, V: Array, alpha: Array, counts: Array, cut: float, mu: float, g: Array, strength: float,
    curvature: float, sigma: Array, wide: Array, out: Array,
) -> None:  # fmt: skip
    """Put −(τI + γ sigma + γ wideᵀwide + covariance of the planes with α above ``cut`` / μ)⁻¹ g into ``out``."""
    raise NotImplementedError("for compiled code only")


def _plain_step(
    space: Arguments, V: Array, alpha: Array, counts: Array, cut: float, mu: float, g: Array, strength: float,
    curvature: float, sigma: Array, wide: Array, out: Array,
) -> None:  # fmt: skip
    rows, A, few, x = space
    n = _spread(V, alpha, counts, cut, out, rows)
    newton_direction(rows, n, mu, g, strength, curvature, sigma, A, few, x, out)


@overload(_newton_step, jit_options={"cache": True, "error_model": "numpy", "forceinline": True})
def _step_by_space(
    space: Arguments, V: Array, alpha: Array, counts: Array, cut: float, mu: float, g: Array, strength: float,
    curvature: float, sigma: Array, wide: Array, out: Array,
) -> Any:  # fmt: skip
    return inner_step if len(space) == len(InnerSpace._fields) else _plain_step


@njit(cache=True, error_model="numpy", inline="always")
def _search(
    slack: Array, move: Array, counts: Array, alpha: Array, before: float, along: float, bend: float, slope: float,
    mu: float, value: float,
) -> tuple[float, float]:  # fmt: skip
    """How far to go, and the value there; ``alpha`` is left as that of the last length tried.

    The quadratic part is before + along · length + bend · length². If the ``value`` here is unknown (inf), any lower
    one will do.
    """
    length, moved = 0.0 if value == np.inf else 1.0, value
    while length > _SHORTEST or value == np.inf:
        moved = _soften(slack, move, length, counts, mu, alpha)
        moved += before + length * along + length * length * bend
        if value == np.inf:
            value, slope, length = moved, 0.0, 1.0
        elif moved <= value + 0.1 * length * slope:
            break
        else:
            length *= 0.4
    return length, moved


@njit(cache=True, error_model="numpy")
def minimise(

    V: Array, losses: Array, counts: Array, slack: Array, move: Array, alpha: Array, w: Array, combined: Array,
    mu: float, larger: float, max_steps: int, centre: Array, curvature: float, level: float, sigma: Array, wide: Array,
    space: Arguments,
) -> tuple[float, float, int]:  # fmt: skip
    """Newton steps until the smooth problem's gap, ½‖gradient‖², is as small as the error of smoothing.

    ``slack`` is ℓ − v·w of every plane and kept up to date; ``alpha`` and ``combined`` are left as those of the last
    ``w``. If ``larger`` is above ``mu``, they are given as those of the problem with that smoothing, solved at ``w``.
    With a ``curvature`` γ, ½γ (w − centre)·Σ(w − centre) is added to the problem, Σ = level · I + sigma + wideᵀ wide.
    ``space`` says how systems are solved: over planes in use or features, or with the inner products of planes.
    Returns Σ_b α_b·ℓ_b, ‖Σ_b V_bᵀ α_b‖² and the number of steps.
    """
    direction, gradient = np.empty(w.size), np.empty(w.size)
    pull, bent = np.empty(w.size), np.empty(w.size)
    for j in range(w.size):
        direction[j] = w[j] - centre[j]
    strength = 1.0 + curvature * level
    _pull(level, sigma, wide, curvature, direction, pull)
    predict = larger > mu  # go to where the planes in use keep their α
    stale, value, square, cut = not predict, np.inf, 0.0, _NEGLIGIBLE
    close = mu * counts.size * (1.0 if predict else _LOOSE)
    for step in range(max_steps + 1):
        if stale:
            value = _soften(slack, move, 0.0, counts, mu, alpha)
        _combine(V, alpha, counts, combined)
        gap = square = before = 0.0
        for j in range(w.size):
            gradient[j] = w[j] - combined[j] + pull[j]
            gap += 0.5 * gradient[j] * gradient[j] / (1.0 + curvature)
            square += combined[j] * combined[j]
            before += 0.5 * (w[j] * w[j] + (w[j] - centre[j]) * pull[j])
        value += before if stale else 0.0
        if not predict and (step == max_steps or gap <= close or cut < _LEAST):
            break
        if predict:
            _sharpen(V, counts, slack, alpha, (1.0 - mu / larger) / mu, gradient)
        threshold = _NEGLIGIBLE * _NEGLIGIBLE if predict else cut
        _newton_step(space, V, alpha, counts, threshold, mu, gradient, strength, curvature, sigma, wide, direction)
        _fall(V, counts, direction, move)
        _pull(level, sigma, wide, curvature, direction, bent)
        slope = along = bend = 0.0
        for j in range(w.size):
            slope += gradient[j] * direction[j]
            along += (w[j] + pull[j]) * direction[j]
            bend += 0.5 * (direction[j] + bent[j]) * direction[j]
        length, value = _search(slack, move, counts, alpha, before, along, bend, slope, mu, value)
        stale = length < 0.1
        if length > _SHORTEST and (not stale or predict or cut <= _LEAST):
            _add(w, length, direction)
            _add(pull, length, bent)
            for b in range(counts.size):
                for p in range(1, counts[b]):
                    slack[b, p] += length * move[b, p]
            stale = False
        elif not predict:  # planes of little weight matter here: try again with more of them, in the end with all
            cut = _SMALL if cut > _SMALL else (_LEAST if cut > _LEAST else 0.0)
        predict = False
    loss = 0.0
    for b in range(counts.size):
        for p in range(1, counts[b]):
            loss += alpha[b, p] * losses[b, p]
    return loss, square, step


# The quadratic programme over cutting planes, exactly: a primal-dual interior point method.


def interior_point(V: Array, losses: Array, block: Array, n_blocks: int, close: float) -> tuple[Array, Array]:
    """Weights and α of the unsmoothed problem by a primal-dual interior point method, to a gap of ``close``.

    Slower than the smoothed Newton steps, but reliable where these stall: many planes of little weight in one block.
    Variables: w, ξ per block, and per plane the slack s = ξ + v·w − ℓ and its multiplier z, which is α.
    """
    w, top = np.zeros(V.shape[1]), np.zeros(n_blocks)
    np.maximum.at(top, block, losses)
    xi = 1.1 * top + 0.1 * top.max() + 1e-12
    s = xi[block] - losses
    z = 1.0 / np.bincount(block, minlength=n_blocks)[block]
    for _ in range(80):
        rest_w = w - np.einsum("i,ij->j", z, V)
        rest_z = 1.0 - np.bincount(block, z, n_blocks)
        miss = np.einsum("ij,j->i", V, w) + xi[block] - losses - s
        if max(s @ z, 0.5 * (rest_w @ rest_w)) <= 0.3 * close and np.abs(rest_z).max() < 1e-9:
            break
        target = 0.1 * (s @ z) / len(z)
        weight = z / s
        push = (target - z * miss) / s - z
        in_block = np.bincount(block, weight, n_blocks)
        mean = np.zeros((n_blocks, V.shape[1]))
        np.add.at(mean, block, (weight / in_block[block])[:, None] * V)
        rows = np.sqrt(weight)[:, None] * (V - mean[block])
        g_xi = np.bincount(block, push, n_blocks) - rest_z
        uphill = rest_w - np.einsum("i,ij->j", push, V) + np.einsum("i,ij->j", g_xi, mean)
        step_w = _interior_step(rows, uphill)
        step_xi = g_xi / in_block - np.einsum("ij,j->i", mean, step_w)
        step_s = np.einsum("ij,j->i", V, step_w) + step_xi[block] + miss
        step_z = (target - z * step_s) / s - z
        both, steps = np.concatenate([s, z]), np.concatenate([step_s, step_z])
        falls = steps < 0
        length = min(1.0, 0.99 * float((-both[falls] / steps[falls]).min(initial=np.inf)))
        w, xi, s, z = w + length * step_w, xi + length * step_xi, s + length * step_s, z + length * step_z
    return w, z / np.bincount(block, z, n_blocks)[block]


def _interior_step(rows: Array, g: Array) -> Array:
    """−(I + RᵀR)⁻¹ g, solved in the smaller of the two spaces: `newton_direction`, without compiling it again."""
    n, d = rows.shape
    size = min(n, d)
    padded = (size + 3) // 4 * 4
    M = np.zeros((padded, max(n, d)))
    M[:size] = rows if n <= d else rows.T
    A, x = np.eye(padded), np.zeros(padded)
    add_products(M, padded, max(n, d), A)
    x[:size] = np.einsum("ij,j->i", rows, g) if n <= d else -g
    solve_in_place(A, x, padded)
    return np.einsum("ij,i->j", rows, x[:n]) - g if n <= d else x[:d]
