"""Max-margin training and linear scoring on a GPU, with data of MSLR-WEB30K's size; needs one, and numba-cuda.

31,531 queries, 3.84 million documents × 136 float32 (2.1 GB), drawn as in `bench_lambda_mart`. Next to each time is its
floor: bytes that must be read over the bandwidth of a copy on the card, measured first. Claims, on one H200:

1. Pairs, MAP and nDCG@10 to a gap of 1e-3 in at most 0.5 s after upload, 1 s with it; from the call of fit to the
   certificate. The whole fit, which also ranks the training queries for what the bound proves, is given beside it.
2. Linear scoring at 60 % of the bandwidth.

``--queries`` for less data, ``--cpu`` for the same training on the CPU. Compilation is not counted: every training is
done once on a few queries first.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
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
from rankwright import RankingData, RankingSVM, StructuredSVM
from rankwright.gpu import card

Array = npt.NDArray[Any]
QUERIES, DOCS = 31_531, 3_840_000
AFTER, WITH, SHARE = 0.5, 1.0, 0.6
FITS = {
    "pairs": lambda **given: RankingSVM(0.01, **given),
    "MAP": lambda **given: StructuredSVM("map", 1.0, **given),
    "nDCG@10": lambda **given: StructuredSVM("ndcg@10", 1.0, **given),
}


def main() -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="Trainings whose names contain this.")
    parser.add_argument("--cpu", type=int, default=0, help="Queries on which the CPU trains as well.")
    args = parser.parse_args()
    card.check_card()
    data = make(args.queries)
    bandwidth = copy_bandwidth()
    print(f"{card.name()}; {data.n_queries:,} queries, {data.n_docs:,} documents × {data.n_features} float32,")
    print(f"{data.X.nbytes / 1e9:.2f} GB; a copy on the card moves {bandwidth / 1e12:.2f} TB/s")
    measure_upload(data.X)
    measure_scoring(data.X, bandwidth, args.repeat)
    for name, make_ranker in FITS.items():
        if args.only in name:
            measure_fit(name, make_ranker, data, bandwidth, args)
    return 0


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
    """The distribution of `bench_lambda_mart`, drawn on the card, with queries of different sizes."""
    sizes = sizes_of(n_queries, n_queries * DOCS // QUERIES)
    n_docs = int(sizes.sum())
    X, good = cuda.device_array((n_docs, N_FEATURES), np.float32), cuda.device_array(n_docs, np.float32)
    _draw[256, 128](create_xoroshiro128p_states(256 * 128, seed), X, good)
    drawn = good.copy_to_host()
    labels = np.digitize(drawn, np.quantile(drawn, [0.52, 0.84, 0.97, 0.99]))
    return RankingData.from_arrays(X.copy_to_host(), labels, group=sizes)


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a large copy on the card."""
    one, other = (cuda.device_array(1 << 30, np.float32) for _ in range(2))
    return 2 * one.nbytes / timed(lambda: other.copy_to_device(one), 10)


def timed(function: Any, repeat: int) -> float:
    """Seconds on the card, the median of several."""
    function()
    found = []
    for _ in range(repeat):
        start, stop = cuda.event(), cuda.event()
        start.record()
        function()
        stop.record()
        stop.synchronize()
        found.append(cuda.event_elapsed_time(start, stop) / 1e3)
    return float(np.median(found))


def measure_upload(X: Array) -> None:
    """The way to the card."""
    card.upload(X[:100_000])
    for _ in range(2):
        began = time.perf_counter()
        card.upload(X)
        cuda.synchronize()
        seconds = time.perf_counter() - began
        print(f"upload: {seconds:.3f} s, {X.nbytes / seconds / 1e9:.1f} GB/s")


def measure_scoring(X: Array, bandwidth: float, repeat: int) -> None:
    """Linear scores of all rows, once they are on the card."""
    from rankwright.gpu import products

    there, rows = card.upload(X), card.upload(np.arange(len(X)))
    weights = card.upload(np.random.default_rng(0).standard_normal((X.shape[1],)))
    scores, grid = cuda.device_array(len(X), np.float64), 16 * card.multiprocessors()
    seconds = timed(lambda: products.score_rows[grid, products.SUMMING](there, rows, weights, scores), 10 * repeat)
    floor = X.nbytes / bandwidth
    share = floor / seconds
    times = f"{seconds * 1e3:.2f} ms, floor {floor * 1e3:.2f} ms"
    print(f"scores: {times}: {share:.0%} of the bandwidth {mark(share >= SHARE)}")


def mark(is_met: bool) -> str:
    """Whether a claim is met."""
    return "(met)" if is_met else "(NOT MET)"


def forget(data: RankingData, *, features: bool) -> None:
    """Let go what earlier trainings kept with the data, and the features on the card."""
    for name in ("_statistics", "_has_both", *(["_on_card"] if features else [])):
        vars(data).pop(name, None)


def measure_fit(name: str, make_ranker: Any, data: RankingData, bandwidth: float, args: Any) -> None:
    """Train on the card, the first time with features that are still to be uploaded."""
    make_ranker(device="cuda").fit_data(data.select(np.arange(min(200, data.n_queries))))
    rows = []
    for at in range(args.repeat + 1):
        forget(data, features=at == 0)
        began = time.perf_counter()
        checks: list[float] = []
        ranker = make_ranker(device="cuda", callback=lambda check, now=checks: now.append(time.perf_counter()))
        ranker.fit_data(data)
        rows.append((checks[-1] - began, time.perf_counter() - began))
    passes = ranker.n_passes_total_
    floor = passes * 2 * data.X.nbytes / bandwidth
    after = float(np.median([gap for gap, _ in rows[1:]]))
    met = f"{mark(after <= AFTER)} {mark(rows[0][0] <= WITH)}"
    print(
        f"{name}: gap {ranker.gap_:.1e} after {passes} passes in {after:.3f} s, with upload {rows[0][0]:.3f} s {met};"
    )
    whole = float(np.median([all_of_it for _, all_of_it in rows[1:]]))
    last = ranker.path_[-1]
    print(f"    floor of the passes {floor:.3f} s; solver {last.seconds:.3f} s, on planes {last.seconds_planes:.3f} s;")
    print(f"    the whole fit {whole:.3f} s, with upload {rows[0][1]:.3f} s", flush=True)
    if args.cpu:
        compare(make_ranker, data.select(np.arange(min(args.cpu, data.n_queries))), args.threads)


def compare(make_ranker: Any, part: RankingData, threads: int) -> None:
    """The same training on the CPU and on the card."""
    make_ranker(n_jobs=threads).fit_data(part.select(np.arange(min(50, part.n_queries))))
    found = {device: make_ranker(device=device, n_jobs=threads) for device in ("cpu", "cuda")}
    took = {}
    for device, ranker in found.items():
        forget(part, features=True)
        began = time.perf_counter()
        ranker.fit_data(part)
        took[device] = time.perf_counter() - began
    cpu, there = found["cpu"].objective_, found["cuda"].objective_
    times = f"CPU, {threads} threads: {took['cpu']:.2f} s, card with upload {took['cuda']:.2f} s"
    print(f"    {part.n_queries:,} queries: {times}; objectives differ by {abs(cpu - there) / cpu:.1e}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
