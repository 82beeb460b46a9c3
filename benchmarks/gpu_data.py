"""What the parts of `bench_gpu` share: data drawn on the device, the device's limits, timing.

3.84 million documents × 136 float32 (2.1 GB) in 31,531 queries of 5 to 1,251, distributed as in `bench_lambda_mart`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda, float32
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_normal_float32,
    xoroshiro128p_uniform_float32,
)

from bench_lambda_mart import HIDDEN, N_FEATURES
from rankwright import RankingData, evaluate
from rankwright.gpu import device

__all__ = ["DOCS", "QUERIES", "Limits", "limits_of", "make", "mark", "measured", "of_scores", "regrouped", "timed"]

Array = npt.NDArray[Any]
QUERIES, DOCS = 31_531, 3_840_000
LANES, DOUBLES = 32, 64  # additions in shared memory and operations in float64, a clock and multiprocessor


@dataclass(frozen=True)
class Limits:
    """What the device can do in a second: bytes moved, additions in shared memory, operations in float64."""

    bytes: float
    adds: float
    doubles: float


def limits_of() -> Limits:
    """Bandwidth of a copy, and rates from the clock."""
    clocks = 1e3 * cuda.get_current_device().CLOCK_RATE * device.multiprocessors()
    one, other = (cuda.device_array(1 << 30, np.float32) for _ in range(2))
    bandwidth = 2 * one.nbytes / timed(lambda: other.copy_to_device(one), 10, times=10)
    return Limits(bandwidth, LANES * clocks, DOUBLES * clocks)


def timed(function: Callable[[], Any], repeat: int, times: int = 1) -> float:
    """Seconds on the device, the median of several; each of ``times`` calls in a row.

    The device waits for the first launch from Python, which is counted; further ones are made while it works.
    """
    function()
    found = []
    for _ in range(repeat):
        start, stop = cuda.event(), cuda.event()
        start.record()
        for _ in range(times):
            function()
        stop.record()
        stop.synchronize()
        found.append(cuda.event_elapsed_time(start, stop) / 1e3 / times)
    return float(np.median(found))


def measured(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    began = time.perf_counter()
    found = function()
    return time.perf_counter() - began, found


def mark(is_met: bool) -> str:
    """Whether a claim is met."""
    return "(met)" if is_met else "(NOT MET)"


def sizes_of(n_queries: int, n_docs: int) -> Array:
    """Documents per query: from 5 to 1,251, as uneven as those of web search."""
    drawn = np.random.default_rng(1).lognormal(0.0, 0.7, n_queries)
    return np.clip(drawn * n_docs / drawn.sum(), 5, 1251).astype(np.int64)


@cuda.jit
def _draw(states: Any, X: Any, good: Any) -> None:
    """Rows of features that are noisy views of hidden values, and what grades depend on."""
    t = cuda.grid(1)
    hidden = cuda.local.array(HIDDEN, float32)
    for i in range(t, X.shape[0], cuda.gridsize(1)):
        for k in range(HIDDEN):
            hidden[k] = xoroshiro128p_normal_float32(states, t)
        for j in range(X.shape[1]):
            value = math.exp(0.6 * hidden[j % HIDDEN] + 0.8 * xoroshiro128p_normal_float32(states, t))
            if j // HIDDEN % 3 == 1:
                value = math.floor(4 * value * math.sqrt(value))
            elif j // HIDDEN % 3 == 2 and xoroshiro128p_uniform_float32(states, t) < 0.85:
                value = 0.0
            X[i, j] = value
        value = hidden[0] + abs(hidden[1]) + 0.7 * hidden[2] * hidden[3] + 0.7 * min(hidden[4], 0.0)
        good[i] = value + 0.8 * xoroshiro128p_normal_float32(states, t)


def make(n_queries: int, seed: int = 0) -> RankingData:
    """The distribution of `bench_lambda_mart`, drawn on the device, with queries of different sizes."""
    sizes = sizes_of(n_queries, n_queries * DOCS // QUERIES)
    n_docs = int(sizes.sum())
    X, good = cuda.device_array((n_docs, N_FEATURES), np.float32), cuda.device_array(n_docs, np.float32)
    _draw[256, 128](create_xoroshiro128p_states(256 * 128, seed), X, good)
    drawn = good.copy_to_host()
    labels = np.digitize(drawn, np.quantile(drawn, [0.52, 0.84, 0.97, 0.99]))
    return RankingData.from_arrays(X.copy_to_host(), labels, group=sizes)


def regrouped(data: RankingData, size: int, n_queries: int) -> RankingData:
    """The first documents of a data set in queries of another size."""
    n_queries = max(2, min(n_queries, data.n_docs // size))
    n = min(n_queries * size, data.n_docs)
    return RankingData.from_arrays(data.X[:n], data.labels[:n], group=np.full(n_queries, n // n_queries))


def of_scores(scores: Array, data: RankingData) -> float:
    """nDCG@10 of scores."""
    return float(evaluate(data.labels, scores, group=data.sizes, measures=["ndcg@10"]).means["nDCG@10"])
