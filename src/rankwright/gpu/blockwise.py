"""Operations by all threads of a block: sums, running sums, sorting, searching. The order of additions is fixed.

``partial`` is a place for one number per thread, whose number is a power of two. Every function is called by all
threads, finds its arguments written, and leaves its results written (`cuda.syncthreads` before it returns).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64

from rankwright._types import Arguments, Array
from rankwright.gpu.device import is_simulated


@cuda.jit(device=True)
def padded(n: int) -> int:
    """The smallest power of two that is at least n."""
    size = 1
    while size < n:
        size *= 2
    return size


@cuda.jit(device=True, inline="always")  # arrays cannot be returned
def whole(array: Array) -> Any:
    """The same bytes as integers."""
    return array.view(np.int64)


@cuda.jit(device=True)
def add_up(value: float, partial: Array) -> Any:
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    partial[t] = value
    cuda.syncthreads()
    while step > 0:
        if t < step:
            partial[t] += partial[t + step]
        cuda.syncthreads()
        step //= 2
    total = partial[0]
    cuda.syncthreads()
    return total


@cuda.jit(device=True)
def best_of(value: float, at: int, partial: Array) -> int:
    """Place of the largest of one value per thread, the first of equal ones; −1 without a place."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    partial[t] = value
    places = whole(partial[threads : 2 * threads])
    places[t] = at
    cuda.syncthreads()
    step = threads // 2
    while step > 0:
        if t < step:
            other = places[t + step]
            better = partial[t + step] > partial[t] or (partial[t + step] == partial[t] and other < places[t])
            if other >= 0 and (places[t] < 0 or better):
                partial[t], places[t] = partial[t + step], other
        cuda.syncthreads()
        step //= 2
    winner = places[0]
    cuda.syncthreads()
    return winner


@cuda.jit(device=True)
def running(values: Array, n: int, partial: Array) -> None:
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    share = (n + threads - 1) // threads
    first, last = min(n, t * share), min(n, (t + 1) * share)
    for i in range(first + 1, last):
        values[i] += values[i - 1]
    partial[t] = values[last - 1] if last > first else 0
    cuda.syncthreads()
    step = 1
    while step < threads:
        before = partial[t - step] if t >= step else 0
        cuda.syncthreads()
        if t >= step:
            partial[t] += before
        cuda.syncthreads()
        step *= 2
    if t > 0:
        for i in range(first, last):
            values[i] += partial[t - 1]
    cuda.syncthreads()


@cuda.jit(device=True)
def scan(values: Array) -> None:
    """Replace the value of every thread by the sum up to it."""
    t, step = cuda.threadIdx.x, 1
    while step < cuda.blockDim.x:
        add = values[t - step] if t >= step else 0
        cuda.syncthreads()
        values[t] += add
        cuda.syncthreads()
        step *= 2


@cuda.jit(device=True)
def exchange(keys: Array, places: Array, size: int, first: int, width: int, apart: int) -> None:
    """One step of sorting, from place ``first`` on: swap keys ``apart`` places apart that are out of order."""
    for i in range(cuda.threadIdx.x, size // 2, cuda.blockDim.x):
        a = 2 * i - (i & (apart - 1))
        b = a + apart
        forward = keys[a] > keys[b] or (keys[a] == keys[b] and places[a] < places[b])
        if forward != (((first + a) & width) == 0):
            keys[a], keys[b] = keys[b], keys[a]
            places[a], places[b] = places[b], places[a]
    cuda.syncthreads()


@cuda.jit(device=True)
def exchange_near(keys: Array, places: Array, size: int, width: int, last: int, near: Array) -> None:
    """The steps of widths ``width`` to ``last`` that stay within chunks, each chunk in shared memory."""
    t, threads, chunk = cuda.threadIdx.x, cuda.blockDim.x, near.size // 2
    near_keys, near_places = near[:chunk], whole(near[chunk:])
    for first in range(0, size, chunk):
        for i in range(t, chunk, threads):
            near_keys[i], near_places[i] = keys[first + i], places[first + i]
        cuda.syncthreads()
        current_width = width
        while current_width <= last:
            apart = min(current_width, chunk) // 2
            while apart > 0:
                exchange(near_keys, near_places, chunk, first, current_width, apart)
                apart //= 2
            current_width *= 2
        for i in range(t, chunk, threads):
            keys[first + i], places[first + i] = near_keys[i], near_places[i]
        cuda.syncthreads()


@cuda.jit(device=True)
def sort(keys: Array, places: Array, size: int, near: Array) -> None:
    """Sort by falling keys, then by rising places; their number is a power of two.

    ``near`` is shared memory where these are in that of the device, and more than fit in there: twice a power of two;
    or it is empty.
    """
    chunk, width = near.size // 2, 2
    if 0 < chunk < size:
        exchange_near(keys, places, size, 2, chunk, near)
        width = 2 * chunk
    while width <= size:
        apart = width // 2
        while apart > 0 and not 0 < apart < chunk < size:
            exchange(keys, places, size, 0, width, apart)
            apart //= 2
        if apart > 0:
            exchange_near(keys, places, size, width, width, near)
        width *= 2


@cuda.jit(device=True)
def above(keys: Array, first: int, last: int, value: float, also: bool) -> int:
    """How many of the falling keys in first … last − 1 are above a value, or ``also`` equal to it."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if keys[middle] > value or (also and keys[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low - first


@cuda.jit(device=True)
def out_of_reach(keys: Array, n: int, value: float) -> int:
    """How many of the n falling keys are at least 1 above a value; keys − 1 is what is compared."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if keys[middle] - 1.0 < value:
            high = middle
        else:
            low = middle + 1
    return low


@cuda.jit(device=True)
def up_to(counts: Array, first: int, last: int, value: int) -> int:
    """How many of the rising counts in first … last − 1 are at most a value."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if counts[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - first


@cuda.jit(device=True)
def rising(values: Array, first: int, stride: int, n: int, partial: Array) -> None:
    """Raise each of n values, a ``stride`` apart, to the largest before it; n is at most the number of threads."""
    t, step = cuda.threadIdx.x, 1
    if t < n:
        partial[t] = values[first + stride * t]
    cuda.syncthreads()
    while step < n:
        before = partial[t - step] if step <= t < n else 0
        cuda.syncthreads()
        if step <= t < n and before > partial[t]:
            partial[t] = before
        cuda.syncthreads()
        step *= 2
    if t < n:
        values[first + stride * t] = partial[t]
    cuda.syncthreads()


# The start and end of every oracle on the device: a query in score order, and its coefficients, loss and hinge.
#
# A block of threads has a query at a time. Its arrays lie one after the other in `space`: shared memory, or for long
# queries a part of the device's memory.


NEAR = 8 if is_simulated() else 4096
"""Numbers of 8 bytes in shared memory that sorting takes, of queries that are in the memory of the device."""


def room_for(n: int, threads: int, further: int = 0) -> int:
    """8-byte words that a query of n documents needs."""
    return 2 * (1 << max(0, n - 1).bit_length()) + 4 * (n + 1) + 2 * threads + further


@cuda.jit(device=True, inline="always")  # arrays cannot be returned
def slices(space: Array, n: int) -> Any:
    """Two arrays of a padded length, four of n + 1, a word or two per thread, and the remainder."""
    size, threads = padded(n), cuda.blockDim.x
    first, length = 2 * size, n + 1
    keys, places = space[:size], whole(space[size:first])
    a, b = space[first : first + length], space[first + length : first + 2 * length]
    c, d = space[first + 2 * length : first + 3 * length], space[first + 3 * length : first + 4 * length]
    last = first + 4 * length
    return keys, places, a, b, c, d, space[last : last + 2 * threads], space[last + 2 * threads :]


@cuda.jit(device=True)
def arranged(n: int, start: int, scores: Array, keys: Array, places: Array, near: Array) -> None:
    """Sort the scores of a query, highest first, ties in input order; ``near`` as for `sort`."""
    size = padded(n)
    for i in range(cuda.threadIdx.x, size, cuda.blockDim.x):
        keys[i] = scores[start + i] if i < n else -float("inf")
        places[i] = i
    cuda.syncthreads()
    sort(keys, places, size, near)


@cuda.jit(device=True)
def goods_first(
    n: int, start: int, labels: Array, keys: Array, places: Array, ordered: Array, which: Array, others: Array,
    counts: Array, partial: Array,
) -> int:  # fmt: skip
    """Good documents (label above 0), then bad ones, each in score order; how many goods.

    For each: its place in the query, its score less the highest one, and how many of the other kind are above it.
    """
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for i in range(t, n, threads):
        counts[i] = 1 if labels[start + places[i]] > 0.0 else 0
    cuda.syncthreads()
    running(counts, n, whole(partial))
    n_good = counts[n - 1]
    for i in range(t, n, threads):
        goods = counts[i]
        is_good = labels[start + places[i]] > 0.0
        at = goods - 1 if is_good else n_good + i - goods
        ordered[at] = keys[i] - keys[0]
        which[at] = places[i]
        others[at] = i + 1 - goods if is_good else goods
    cuda.syncthreads()
    return n_good


@cuda.jit(device=True)
def finish(
    q: int, n: int, start: int, loss: float, scores: Array, cost: float, added: Array, coef: Array, losses: Array,
    values: Array, partial: Array,
) -> None:  # fmt: skip
    """Loss and hinge of a query; its coefficients, plus ``added``, times its cost."""
    cuda.syncthreads()
    margin = 0.0
    for i in range(start + cuda.threadIdx.x, start + n, cuda.blockDim.x):
        coefficient = coef[i]
        if added.size > 0:
            coefficient += added[i]
        margin += coefficient * scores[i]
        coef[i] = coefficient * cost
    margin = add_up(margin, partial)
    if cuda.threadIdx.x == 0:
        losses[q] = loss
        values[q] = loss - margin
    cuda.syncthreads()


@cuda.jit(device=True)
def each_query(oracle: Any, queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    """Run an oracle on a block's queries, one after the other; numba compiles this loop for each oracle.

    `oracle`: as in `rankwright.gpu.oracles`; its ``room`` are the arrays of `slices` from the third on, and what
    sorting takes. `queries`: their numbers. `data`: query boundaries, scores, labels, parameters, costs, and
    coefficients to add, or none. `results`: where coefficients of documents go, and losses and hinges of queries.
    `scratch`, `room`: as of a `rankwright.gpu.training.Launch`.
    """
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    near = shared[: NEAR if scratch.size else 0]
    indptr, scores, labels, parameters, cost, added = data
    coef, losses, values = results
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:  # a query that does not count
            for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
                coef[start + i] = 0.0
            continue
        keys, places, a, b, c, d, partial, rest = slices(space, n)
        arranged(n, start, scores, keys, places, near)
        loss = oracle((q, n, start), (keys, places), (labels, parameters), coef, (a, b, c, d, partial, rest, near))
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, partial)
