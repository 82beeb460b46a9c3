"""Lambda gradients of a measure on the device: scores, gradients and second derivatives stay there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda, float64, int32

from rankwright._types import Arguments, Array
from rankwright.boosting.lambdas import LambdaSetup
from rankwright.boosting.tree_rankers import Grades
from rankwright.data.order import as_bounds, sizes_to_indptr
from rankwright.data.threads import Team
from rankwright.gpu import device
from rankwright.gpu.blockwise import add_up
from rankwright.gpu.device import Recorded
from rankwright.measures import Measure
from rankwright.measures.base import STATE

# Lambda gradients of queries on the device, a block for each query; as rankwright.boosting.lambdas has them.
#
# Each thread owns documents: it adds up the pairs of each with those above and those below, in the order of ranks.
# Every pair is computed twice, once for each of its documents, so sums have a fixed order and the same bits in every
# run. Documents of a tie are given ranks, and share their gradients, as on the CPU.


_QUERY_THREADS = 256  # of a block, at most
_COUNTED = 1024  # documents up to which ranks are found by counting, otherwise by sorting
_FARTHEST = 600.0  # differences of scores up to this have finite exponentials, and finite products of them
SHORT = 512
"""Documents of a query whose vectors fit shared memory."""
ROWS = 128
"""Ranks whose changes are held at a time, where they come from a function."""
# Vectors of a query: scores, these and worths by place, worths by rank, e^s and e^−s, gradients and hessians by rank.
_SCORE, _ORDERED, _PLACED, _RANKED, _POWER, _INVERSE, _UP, _HESSIAN, OF_DOCUMENT = range(9)
_DISCOUNT = _SCORE  # of every rank, once documents are ranked
# Whole numbers: the document at each place, and its rank.
_ORDER, _RANK, PLACES = range(3)


@cuda.jit(device=True, cache=True)
def _sort(scores: Array, order: Array, n: int) -> None:
    """Fill ``order`` with the places of the scores, highest first, equal ones in their order."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    if n <= _COUNTED:
        for i in range(t, n, threads):
            rank, score = 0, scores[i]
            for j in range(n):
                other = scores[j]
                if other > score or (other == score and j < i):
                    rank += 1
            order[rank] = i
        cuda.syncthreads()
        return
    for i in range(t, n, threads):
        order[i] = i
    cuda.syncthreads()
    size = 2
    while size < 2 * n:
        step = size
        while step > 1:
            for k in range(t, (n // step + 1) * (step // 2), threads):
                i = k // (step // 2) * step + k % (step // 2)
                # The first step of a round compares from both ends, so that places beyond n never have to move.
                j = i // size * size + size - 1 - i % size if step == size else i + step // 2
                if j < n:
                    first, second = order[i], order[j]
                    if scores[second] > scores[first] or (scores[second] == scores[first] and second < first):
                        order[i], order[j] = second, first
            cuda.syncthreads()
            step //= 2
        size *= 2


@cuda.jit(device=True, cache=True)
def _end(values: Array, first: int, last: int, way: float) -> int:
    """End of the run of equal values that begins at ``first``, at most ``last``; values rise (1) or fall (−1)."""
    low, high, value = first + 1, last, values[first]
    while low < high:
        middle = (low + high) // 2
        if way * values[middle] > way * value:
            high = middle
        else:
            low = middle + 1
    return low


@cuda.jit(device=True, cache=True)
def _begin(values: Array, first: int, at: int, way: float) -> int:
    """Start of the run of equal values around ``at``, at least ``first``."""
    low, high, value = first, at, values[at]
    while low < high:
        middle = (low + high) // 2
        if way * values[middle] < way * value:
            low = middle + 1
        else:
            high = middle
    return low


@cuda.jit(device=True, cache=True)
def _rank_in_tie(placed: Array, first: int, last: int, at: int) -> int:
    """The rank of the document at a place of the tie ``first … last − 1``; see `lambdas._spread`."""
    start = _begin(placed, first, at, 1.0)
    m, rank, other = _end(placed, start, last, 1.0) - start, first + at - start, first
    while other < last:
        end = _end(placed, other, last, 1.0)
        if other != start:
            doubled = (2 * (at - start) + 1) * (end - other) - (1 if other > start else 0)
            rank += (doubled // m + 1) // 2
        other = end
    return rank


@cuda.jit(device=True, cache=True)
def _rank(scores: Array, docs: Array, worth: Array, start: int, n: int, places: Array, vectors: Array) -> bool:
    """Rank the documents of a query; returns whether there are ties."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    order, rank_of = places[_ORDER], places[_RANK]
    ordered, placed = vectors[_ORDERED], vectors[_PLACED]
    for i in range(t, n, threads):
        vectors[_SCORE, i] = scores[docs[start + i]]
    cuda.syncthreads()
    _sort(vectors[_SCORE], order, n)
    for at in range(t, n, threads):
        ordered[at], placed[at] = vectors[_SCORE, order[at]], worth[start + order[at]]
        vectors[_UP, at] = vectors[_HESSIAN, at] = 0.0
    cuda.syncthreads()
    tie = 0
    for at in range(t, n, threads):
        rank, first, last = at, at, at + 1
        if (at > 0 and ordered[at - 1] == ordered[at]) or (last < n and ordered[last] == ordered[at]):
            tie = 1
            first = _begin(ordered, 0, at, -1.0)
            last = _end(ordered, first, n, -1.0)
            if placed[first] != placed[last - 1]:
                rank = _rank_in_tie(placed, first, last, at)
        rank_of[at] = rank
        vectors[_RANKED, rank] = placed[at]
    return cuda.syncthreads_or(tie) != 0


@cuda.jit(device=True, cache=True)
def _raise_powers(vectors: Array, n: int) -> bool:
    """e^s of all scores around their middle, and e^−s; False, with nothing written, where they are too far apart."""
    ordered = vectors[_ORDERED]
    first, last = ordered[0], ordered[n - 1]
    together = first - last <= _FARTHEST
    if together:
        middle = last + (first - last) / 2
        for at in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            power = math.exp(ordered[at] - middle)
            vectors[_POWER, at], vectors[_INVERSE, at] = power, 1.0 / power
    cuda.syncthreads()
    return together


@cuda.jit(device=True, cache=True)
def _pair(change: float, wins: bool, power: float, near_by: float) -> Any:
    """Gradient of the upper document of a pair, its second derivative, and λ."""
    inverse = 1.0 / ((1.0 + power) * near_by)
    won = abs(change) * inverse
    lost = won * power
    return (won, lost * (inverse * near_by), won) if wins else (-lost, lost * (inverse * near_by), lost)


@cuda.jit(device=True, cache=True)
def _write(
    docs: Array, start: int, n: int, tied: bool, norm: float, weight: float, places: Array, vectors: Array,
    gradients: Array, hessians: Array,
) -> None:  # fmt: skip
    """Gradients by rank, over the norm, to the documents; those alike in score and worth get their mean."""
    order, rank_of = places[_ORDER], places[_RANK]
    factor = 1.0 / norm
    for at in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        if not tied:
            doc = docs[start + order[at]]
            gradients[doc], hessians[doc] = vectors[_UP, at] * factor * weight, vectors[_HESSIAN, at] * factor * weight
            continue
        ordered, placed = vectors[_ORDERED], vectors[_PLACED]
        if at > 0 and ordered[at - 1] == ordered[at] and placed[at - 1] == placed[at]:
            continue  # the first one does it
        last = at + 1
        while last < n and ordered[last] == ordered[at] and placed[last] == placed[at]:
            last += 1
        total, hessian = 0.0, 0.0
        for other in range(at, last):
            total += vectors[_UP, rank_of[other]]
            hessian += vectors[_HESSIAN, rank_of[other]]
        total, hessian = total / (norm * (last - at)) * weight, hessian / (norm * (last - at)) * weight
        for other in range(at, last):
            doc = docs[start + order[other]]
            gradients[doc], hessians[doc] = total, hessian


@cuda.jit(device=True, cache=True)
def _power(i: int, j: int, far: Any, vectors: Array) -> float:
    """e^(s_i − s_j); beyond a reach it makes no difference. ``far`` is None where scores are not far apart."""
    if far is None:
        return vectors[_POWER, i] * vectors[_INVERSE, j]
    return math.exp(min(vectors[_ORDERED, i] - vectors[_ORDERED, j], _FARTHEST))


@cuda.jit(device=True, cache=True)
def _change(i: int, j: int, first: int, table: Any, vectors: Array) -> float:
    """The change if two documents swap, from the table of the ranks from ``first`` on; None: they swap discounts."""
    if table is None:
        return (vectors[_RANKED, j] - vectors[_RANKED, i]) * (vectors[_DISCOUNT, i] - vectors[_DISCOUNT, j])
    return table[j, i - first]


@cuda.jit(device=True, cache=True)
def _below(first: int, stop: int, n: int, factors: Arguments, table: Any, far: Any, vectors: Array) -> None:
    """Pairs of every document with those above it, from ``first`` on; without branches: equal worths change nothing."""
    ranked, ordered = vectors[_RANKED], vectors[_ORDERED]
    for at in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        gradient, hessian, worth, score = 0.0, 0.0, ranked[at], ordered[at]
        for i in range(first, min(at, stop)):
            near_by = factors[0] + factors[1] * (ordered[i] - score)
            change = _change(i, at, first, table, vectors)
            rise, bend, _ = _pair(change, ranked[i] > worth, _power(i, at, far, vectors), near_by)
            gradient -= rise
            hessian += bend
        vectors[_UP, at] += gradient
        vectors[_HESSIAN, at] += hessian
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _above(
    first: int, stop: int, n: int, factors: Arguments, table: Any, far: Any, vectors: Array, sums: Array
) -> float:
    """Pairs of documents from ``first`` on with those below, which threads to spare share; returns a thread's Σ λ."""
    ranked, ordered = vectors[_RANKED], vectors[_ORDERED]
    rows, t = stop - first, cuda.threadIdx.x
    shares, forces = max(1, cuda.blockDim.x // max(rows, 1)), 0.0
    for item in range(t, rows * shares, cuda.blockDim.x):
        at = first + item % rows
        gradient, hessian, worth, score = 0.0, 0.0, ranked[at], ordered[at]
        for j in range(at + 1 + item // rows, n, shares):
            near_by = factors[0] + factors[1] * (score - ordered[j])
            change = _change(at, j, first, table, vectors)
            rise, bend, force = _pair(change, worth > ranked[j], _power(at, j, far, vectors), near_by)
            gradient += rise
            hessian += bend
            forces += force
        if shares == 1:
            vectors[_UP, at] += gradient
            vectors[_HESSIAN, at] += hessian
        else:
            sums[0, t], sums[1, t] = gradient, hessian
    cuda.syncthreads()
    if shares > 1 and t < rows:
        for share in range(shares):
            vectors[_UP, first + t] += sums[0, t + share * rows]
            vectors[_HESSIAN, first + t] += sums[1, t + share * rows]
    cuda.syncthreads()
    return forces


@cuda.jit(device=True, cache=True)
def _add_pairs(
    first: int, stop: int, n: int, together: bool, factors: Arguments, table: Any, vectors: Array, sums: Array
) -> float:  # fmt: skip
    """Add up pairs whose upper rank is from ``first`` to ``stop − 1``; returns a thread's Σ λ."""
    if together:
        _below(first, stop, n, factors, table, None, vectors)
        return _above(first, stop, n, factors, table, None, vectors, sums)
    _below(first, stop, n, factors, table, 1, vectors)
    return _above(first, stop, n, factors, table, 1, vectors, sums)


@cuda.jit(device=True, cache=True)
def _norm(forces: float, norm: float, normalize: bool) -> float:
    forces *= 2.0 / norm
    return norm * (forces / math.log2(1.0 + forces)) if normalize and forces > 0.0 else norm


@cuda.jit(device=True, cache=True)
def _finish(
    q: int, forces: float, tied: bool, data: Arguments, settings: Arguments, places: Array, vectors: Array, sums: Array,
    gradients: Array, hessians: Array,
) -> None:  # fmt: skip
    docs, indptr, _, _, norms, weights, _ = data
    norm = _norm(add_up(forces, sums[0]), norms[q], settings[3])
    start, n = indptr[q], indptr[q + 1] - indptr[q]
    _write(docs, start, n, tied, norm, weights[q], places, vectors, gradients, hessians)
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _by_positions(
    q: int, scores: Array, data: Arguments, settings: Arguments, places: Array, vectors: Array, sums: Array,
    gradients: Array, hessians: Array
) -> None:  # fmt: skip
    """One query of a measure that is a sum over positions without credits; the parameters are its discounts."""
    docs, indptr, worth, _, _, _, parameters = data
    truncation, near, slope, _ = settings
    start, n = indptr[q], indptr[q + 1] - indptr[q]
    tied = _rank(scores, docs, worth, start, n, places, vectors)
    for r in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        vectors[_DISCOUNT, r] = parameters[r]
    together = _raise_powers(vectors, n)
    forces = _add_pairs(0, min(truncation, n - 1), n, together, (near, slope), None, vectors, sums)
    _finish(q, forces, tied, data, settings, places, vectors, sums, gradients, hessians)


@cuda.jit(cache=True)
def _short_by_positions(
    queries: Array, working: int, scores: Array, data: Arguments, settings: Arguments, places: Array, vectors: Array,
    states: Array, tables: Array, gradients: Array, hessians: Array,
) -> None:  # fmt: skip
    sums = cuda.shared.array((2, _QUERY_THREADS), float64)
    vector = cuda.shared.array((OF_DOCUMENT, SHORT), float64)
    order = cuda.shared.array((PLACES, SHORT), int32)
    block = cuda.blockIdx.x
    for number in range(block, queries.size if block < working else 0, working):
        _by_positions(queries[number], scores, data, settings, order, vector, sums, gradients, hessians)


@cuda.jit(cache=True)
def _long_by_positions(
    queries: Array, working: int, scores: Array, data: Arguments, settings: Arguments, places: Array, vectors: Array,
    states: Array, tables: Array, gradients: Array, hessians: Array,
) -> None:  # fmt: skip
    sums = cuda.shared.array((2, _QUERY_THREADS), float64)
    block = cuda.blockIdx.x
    vector, order = vectors[block % vectors.shape[0]], places[block % places.shape[0]]
    for number in range(block, queries.size if block < working else 0, working):
        _by_positions(queries[number], scores, data, settings, order, vector, sums, gradients, hessians)


@cache
def lambda_kernels(changes: Callable[..., None] | None, prepare: Callable[..., None] | None) -> tuple[Any, Any]:
    """The kernels of short queries, whose vectors fit shared memory, and of long ones; ``working`` blocks share them.

    ``changes`` and ``prepare`` are those of :class:`rankwright.measures.base.Swaps`; without them, the measure is a
    sum over positions without credits.
    """
    if changes is None or prepare is None:
        return _short_by_positions, _long_by_positions
    own_changes, own_prepare = cuda.jit(device=True)(changes), cuda.jit(device=True)(prepare)

    @cuda.jit(device=True)
    def by_changes(
        q: int, scores: Array, data: Arguments, settings: Arguments, places: Array, vector: Array, sums: Array,
        state: Array, table: Array, gradients: Array, hessians: Array,
    ) -> None:  # fmt: skip
        docs, indptr, worth, judged, _, _, parameters = data
        truncation, near, slope, _ = settings
        start, n, t = indptr[q], indptr[q + 1] - indptr[q], cuda.threadIdx.x
        tied = _rank(scores, docs, worth, start, n, places, vector)
        together = _raise_powers(vector, n)
        ranked = vector[_RANKED, :n]
        if t == 0:
            own_prepare(ranked, judged[start : start + n], parameters, state)
        cuda.syncthreads()
        last, forces = min(truncation, n - 1), 0.0
        for first in range(0, last, ROWS):
            stop = min(first + ROWS, last)
            for i in range(first + t, stop, cuda.blockDim.x):
                own_changes(i, ranked, parameters, state, table[:n, i - first])
            cuda.syncthreads()
            forces += _add_pairs(first, stop, n, together, (near, slope), table, vector, sums)
        _finish(q, forces, tied, data, settings, places, vector, sums, gradients, hessians)

    @cuda.jit
    def short(
        queries: Array, working: int, scores: Array, data: Arguments, settings: Arguments, places: Array,
        vectors: Array, states: Array, tables: Array, gradients: Array, hessians: Array,
    ) -> None:  # fmt: skip
        sums = cuda.shared.array((2, _QUERY_THREADS), float64)
        vector = cuda.shared.array((OF_DOCUMENT, SHORT), float64)
        order = cuda.shared.array((PLACES, SHORT), int32)
        block = cuda.blockIdx.x
        outputs = (states[block % states.shape[0]], tables[block % tables.shape[0]], gradients, hessians)
        for number in range(block, queries.size if block < working else 0, working):
            by_changes(queries[number], scores, data, settings, order, vector, sums, *outputs)

    @cuda.jit
    def long(
        queries: Array, working: int, scores: Array, data: Arguments, settings: Arguments, places: Array,
        vectors: Array, states: Array, tables: Array, gradients: Array, hessians: Array,
    ) -> None:  # fmt: skip
        sums = cuda.shared.array((2, _QUERY_THREADS), float64)
        block = cuda.blockIdx.x
        vector, order = vectors[block % vectors.shape[0]], places[block % places.shape[0]]
        outputs = (states[block % states.shape[0]], tables[block % tables.shape[0]], gradients, hessians)
        for number in range(block, queries.size if block < working else 0, working):
            by_changes(queries[number], scores, data, settings, order, vector, sums, *outputs)

    return short, long


_FEW, _MANY = 128, 256  # threads: more would have too few registers each
_BLOCKS = 16  # of few threads, for every multiprocessor
_THREADS, _GRID = (4, 2) if device.is_simulated() else (256, 1024)
_ROOM = 1 << 32  # bytes of working memory, at most
OF_GRADIENT = 64
"""Bytes of the device that the gradients of a document take, working memory apart."""


@dataclass(frozen=True, eq=False)
class _Group:
    """Short or long queries, and the working memory of the blocks that share them."""

    is_short: bool
    queries: Any
    blocks: int
    threads: int
    space: tuple[Any, ...]


class DeviceCopies:
    """Rows that are copies of documents: their scores, and sums over the copies of each document, on the device."""

    def __init__(self, rows: Array, n_docs: int) -> None:
        order = np.argsort(rows, kind="stable")  # so that sums have the order of the CPU's
        starts = sizes_to_indptr(np.bincount(rows, minlength=n_docs))
        self._rows, self._order, self._starts = device.upload(rows), device.upload(order), device.upload(starts)
        self._scores = device.zeros(len(rows), np.float64)
        self._sums = (device.zeros(n_docs, np.float64), device.zeros(n_docs, np.float64))

    def take(self, scores: Array) -> Any:
        """The scores of the rows; the next call overwrites them."""
        _take_copies[_GRID, _THREADS](scores, self._rows, self._scores)
        return self._scores

    def sums(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Sums over the rows of each document; the next call overwrites them."""
        for of_rows, of_docs in zip(gradients, self._sums, strict=True):
            _sum_copies[_GRID, _THREADS](of_rows, self._order, self._starts, of_docs)
        return self._sums


@cuda.jit(cache=True)
def _take_copies(scores: Array, rows: Array, taken: Array) -> None:
    for k in range(cuda.grid(1), rows.size, cuda.gridsize(1)):
        taken[k] = scores[rows[k]]


@cuda.jit(cache=True)
def _sum_copies(values: Array, order: Array, starts: Array, sums: Array) -> None:
    for doc in range(cuda.grid(1), sums.size, cuda.gridsize(1)):
        total = 0.0
        for at in range(starts[doc], starts[doc + 1]):
            total += values[order[at]]
        sums[doc] = total


class DeviceLambdas:
    """Lambda gradients of a measure on given data; arguments as for :class:`rankwright.boosting.lambdas.Lambdas`.

    The measure has compiled changes. From the same scores the gradients are those of the CPU but for rounding.
    """

    copies = DeviceCopies

    def __init__(
        self,
        labels: Array,
        indptr: Array,
        measure: Measure,
        truncation: int | None = None,
        threads: int = 1,
        *,
        query_weights: Array | None = None,
        nearness: float = 0.0,
        normalize: bool = False,
    ) -> None:
        indptr, swaps = as_bounds(indptr), measure.swaps()
        assert swaps is not None
        positions = measure.position_sum()
        is_sum = positions is not None and positions.credits(np.arange(1)) is None
        self._kernels = lambda_kernels(*((None, None) if is_sum else (swaps.changes, swaps.prepare)))
        team = Team(threads)
        try:
            shared = LambdaSetup.of(labels, indptr, measure, swaps, truncation, nearness, normalize, None, team)
        finally:
            team.close()
        sizes = np.diff(indptr)
        weights = np.ones(len(sizes)) if query_weights is None else np.asarray(query_weights, np.float64)
        arrays = (shared.docs, indptr, shared.worth, shared.highest, shared.norms, weights, np.array(shared.parameters))
        self._data = tuple(device.upload(array) for array in arrays)
        self._factors = (shared.truncation, *shared.factors)
        self._groups = _groups(sizes, 0 if is_sum else ROWS)
        self._gradients = (device.zeros(len(labels), np.float64), device.zeros(len(labels), np.float64))
        self._launches = Recorded(partial(_launch, self._kernels, self._groups))

    def evaluate(self, scores: Array) -> tuple[Any, Any]:
        """The gradient of every document, and its second derivative, at the given scores; all on the device.

        The next call overwrites them.
        """
        self._launches(scores, self._data, self._factors, self._gradients)
        return self._gradients

    def close(self) -> None:
        """Forget the scores; what else is on the device goes with this object."""
        self._launches.close()


def _launch(
    kernels: Arguments,
    groups: list[_Group],
    stream: int,
    scores: Array,
    data: Arguments,
    factors: Arguments,
    gradients: Arguments,
) -> None:
    for group in groups:
        kernel = kernels[0 if group.is_short else 1]
        given = (group.queries, group.blocks, scores, data, factors, *group.space, *gradients)
        kernel[device.blocks(group.blocks), group.threads, stream](*given)


class CpuLambdas:
    """Gradients that the CPU computes, of measures without compiled changes, for scores that are on the device."""

    def __init__(self, lambdas: Any) -> None:
        self._lambdas, self._gradients = lambdas, ()

    def evaluate(self, scores: Any) -> tuple[Any, ...]:
        """The gradient of every document, and its second derivative, at the given scores; the next call overwrites."""
        computed = self._lambdas.evaluate(scores.copy_to_host())
        places = self._gradients or (None, None)
        self._gradients = tuple(device.upload(own, place) for own, place in zip(computed, places, strict=True))
        return self._gradients

    def close(self) -> None:
        self._lambdas.close()


class DownloadedLambdas:
    """Gradients that the device computes, for scores that are here."""

    def __init__(self, lambdas: Any) -> None:
        self._lambdas, self._scores = lambdas, None

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        self._scores = device.upload(scores, self._scores)
        gradients, hessians = self._lambdas.evaluate(self._scores)
        return gradients.copy_to_host(), hessians.copy_to_host()

    def close(self) -> None:
        self._lambdas.close()


def _groups(sizes: Array, rows: int) -> list[_Group]:
    """Short queries and long ones, the longest first; ``rows`` is how many changes of a document are held."""
    order = np.argsort(-sizes, kind="stable").astype(np.int32)
    order = order[sizes[order] > 0]
    few, many = (32, 32) if device.is_simulated() else (_FEW, _MANY)
    groups = []
    for is_short in (False, True):
        some, threads = order[(sizes[order] <= SHORT) == is_short], few if is_short else many
        if not len(some):
            continue
        longest = int(sizes[some[0]])
        each = 8 * longest * (OF_DOCUMENT + PLACES + rows) + 8 * STATE * (longest + 1)
        most = _BLOCKS * device.multiprocessors() * few // threads
        blocks = max(1, min(len(some), most, min(_ROOM, device.free_bytes() // 2) // each))
        copies = 1 if is_short else blocks
        changes = (blocks, longest) if rows else (1, 1)
        space = (
            cuda.device_array((copies, PLACES, longest), np.int32),
            cuda.device_array((copies, OF_DOCUMENT, longest), np.float64),
            cuda.device_array((changes[0], STATE, changes[1] + 1), np.float64),
            cuda.device_array((*changes, max(rows, 1)), np.float64),
        )
        groups.append(_Group(is_short, device.upload(some), blocks, threads, space))
    return groups


# Class probabilities for McRank on the device: the gradients of `rankwright.boosting.tree_rankers`.


_FARTHEST_SUM = 500.0


class DeviceGrades:
    """Gradients and second derivatives of the log-likelihood of the grades.

    `grades`: the same on the CPU.
    """

    def __init__(self, grades: Grades) -> None:
        n_rows, self._ordinal = len(grades.starts), grades.link == "ordinal"
        self._codes, self._weights = device.upload(grades.codes), device.upload(grades.weights)
        n = len(grades.weights)
        self._scores = cuda.device_array((n_rows, n), np.float64)
        self.scores = [self._scores[row] for row in range(n_rows)]
        for row, start in zip(self.scores, grades.starts, strict=True):
            row.copy_to_device(np.full(n, start))
        n_found = 0 if self._ordinal else n
        self._highest, self._totals = (device.zeros(n_found, np.float64) for _ in range(2))
        self._factor = grades.factor
        self._found = [(device.zeros(n, np.float64), device.zeros(n, np.float64)) for _ in range(n_rows)]

    def evaluate(self, scores: Array) -> tuple[Sequence[Any], Sequence[Any]]:
        """Gradients and second derivatives for each row of :attr:`scores`, all on the device.

        The next call overwrites them.
        """
        assert scores is self.scores
        if not self._ordinal:
            _add_up[_GRID, _THREADS](self._scores, self._highest, self._totals)
        for row, row_arrays in enumerate(self._found):
            inputs = (self._codes, self._weights, self._highest, self._totals)
            how = (row + 1 if self._ordinal else row, self._ordinal, self._factor)
            _differ[_GRID, _THREADS](self.scores[row], *inputs, *how, *row_arrays)
        gradients, weights = zip(*self._found, strict=True)
        return gradients, weights


@cuda.jit(cache=True)
def _add_up(scores: Array, highest: Array, totals: Array) -> None:
    """The highest score of every document, and the sum of e^(score less it)."""
    for i in range(cuda.grid(1), scores.shape[1], cuda.gridsize(1)):
        highest_score, total = scores[0, i], 0.0
        for row in range(1, scores.shape[0]):
            highest_score = max(highest_score, scores[row, i])
        for row in range(scores.shape[0]):
            total += math.exp(scores[row, i] - highest_score)
        highest[i], totals[i] = highest_score, total


@cuda.jit(cache=True)
def _differ(
    scores: Array, codes: Array, weights: Array, highest: Array, totals: Array, wanted: int, ordinal: bool,
    factor: float, gradients: Array, hessians: Array,
) -> None:  # fmt: skip
    """Gradient and second derivative of every document, for one class, or for reaching one grade."""
    for i in range(cuda.grid(1), scores.size, cuda.gridsize(1)):
        if ordinal:
            chance = 1.0 / (1.0 + math.exp(-min(max(scores[i], -_FARTHEST_SUM), _FARTHEST_SUM)))
            target = 1.0 if codes[i] >= wanted else 0.0
        else:
            chance = math.exp(scores[i] - highest[i]) / totals[i]
            target = 1.0 if codes[i] == wanted else 0.0
        gradients[i] = (target - chance) * weights[i]
        hessians[i] = factor * chance * (1.0 - chance) * weights[i]
