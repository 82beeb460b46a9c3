"""Operations by all threads of a block: sums, running sums, sorting, searching. The order of additions is fixed.

``part`` is a place for one number per thread, whose number is a power of two. Every function is called by all threads,
finds its arguments written, and leaves its results written (`cuda.syncthreads` before it returns).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

__all__ = [
    "above",
    "add_up",
    "best_of",
    "out_of_reach",
    "padded",
    "rising",
    "running",
    "scan",
    "sort",
    "up_to",
    "whole",
]


@cuda.jit(device=True)
def padded(n: int) -> int:
    """The smallest power of two that is at least n."""
    size = 1
    while size < n:
        size *= 2
    return size


@cuda.jit(device=True, inline="always")  # arrays cannot be returned
def whole(array: Any) -> Any:
    """The same bytes as integers."""
    return array.view(np.int64)


@cuda.jit(device=True)
def add_up(value: Any, part: Any) -> Any:
    """Sum over all threads of the block."""
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    part[t] = value
    cuda.syncthreads()
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    total = part[0]
    cuda.syncthreads()
    return total


@cuda.jit(device=True)
def best_of(value: Any, at: int, part: Any) -> int:
    """Place of the largest of one value per thread, the first of equal ones; −1 without a place."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    part[t] = value
    places = whole(part[threads : 2 * threads])
    places[t] = at
    cuda.syncthreads()
    step = threads // 2
    while step > 0:
        if t < step:
            other = places[t + step]
            better = part[t + step] > part[t] or (part[t + step] == part[t] and other < places[t])
            if other >= 0 and (places[t] < 0 or better):
                part[t], places[t] = part[t + step], other
        cuda.syncthreads()
        step //= 2
    winner = places[0]
    cuda.syncthreads()
    return winner


@cuda.jit(device=True)
def running(values: Any, n: int, part: Any) -> None:
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    share = (n + threads - 1) // threads
    first, last = min(n, t * share), min(n, (t + 1) * share)
    for i in range(first + 1, last):
        values[i] += values[i - 1]
    part[t] = values[last - 1] if last > first else 0
    cuda.syncthreads()
    step = 1
    while step < threads:
        before = part[t - step] if t >= step else 0
        cuda.syncthreads()
        if t >= step:
            part[t] += before
        cuda.syncthreads()
        step *= 2
    if t > 0:
        for i in range(first, last):
            values[i] += part[t - 1]
    cuda.syncthreads()


@cuda.jit(device=True)
def scan(values: Any) -> None:
    """Replace the value of every thread by the sum up to it."""
    t, step = cuda.threadIdx.x, 1
    while step < cuda.blockDim.x:
        add = values[t - step] if t >= step else 0
        cuda.syncthreads()
        values[t] += add
        cuda.syncthreads()
        step *= 2


@cuda.jit(device=True)
def exchange(keys: Any, places: Any, size: int, first: int, width: int, apart: int) -> None:
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
def exchange_near(keys: Any, places: Any, size: int, width: int, last: int, near: Any) -> None:
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
def sort(keys: Any, places: Any, size: int, near: Any) -> None:
    """Sort by falling keys, then by rising places; their number is a power of two.

    ``near`` is shared memory where these are in that of the card, and more than fit in there: twice a power of two; or
    it is empty.
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
def above(keys: Any, first: int, last: int, value: float, also: bool) -> int:
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
def out_of_reach(keys: Any, n: int, value: float) -> int:
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
def up_to(counts: Any, first: int, last: int, value: int) -> int:
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
def rising(values: Any, first: int, stride: int, n: int, part: Any) -> None:
    """Raise each of n values, a ``stride`` apart, to the largest before it; n is at most the number of threads."""
    t, step = cuda.threadIdx.x, 1
    if t < n:
        part[t] = values[first + stride * t]
    cuda.syncthreads()
    while step < n:
        before = part[t - step] if step <= t < n else 0
        cuda.syncthreads()
        if step <= t < n and before > part[t]:
            part[t] = before
        cuda.syncthreads()
        step *= 2
    if t < n:
        values[first + stride * t] = part[t]
    cuda.syncthreads()
