"""LambdaMART on a GPU, XGBoost's ranker beside it if it is there: the part of `bench_gpu` about trees.

All grow 100 trees of 31 leaves on 255 bins with learning rate 0.1, at least 20 documents per leaf, pairs down to rank
30.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from bench_lambda_mart import BINS, LEAVES, MIN_ROWS, N_FEATURES, RATE, TRUNCATION
from gpu_data import Limits, mark, measured, of_scores, timed
from gpu_max_margin import room_for
from rankwright import AutoRanker, LambdaMART, RankingData
from rankwright.gpu import device

__all__ = ["measure_auto", "measure_kinds", "measure_limited_trees", "measure_trees"]

Array = npt.NDArray[Any]
PART, SMALL = 40_000, 240_000  # documents
TREES = 100
LONGEST = 1.0  # seconds of 100 trees
CLOSE, FASTER = 0.001, 1.5
ADDS, OPERATIONS = 3, 25  # whole numbers for a row and feature; float64 for a pair


def measure_trees(data: RankingData, other: RankingData, limits: Limits, args: Any) -> None:
    """Training, its parts, scoring, our CPU code, XGBoost."""
    fitted("cuda", data.select(np.arange(50)), args.threads, 3)
    fits = [fitted("cuda", data, args.threads) for _ in range(args.repeat)]
    best = min(fits, key=lambda fit: fit[1].path_[-1].seconds)
    report(best, data, other, limits)
    seconds = best[1].path_[-1].seconds
    parts_of_a_tree(best[1], data, limits)
    scoring(best[1], data.X, limits, args.threads)
    on_the_cpu(data, other, args)
    against_xgboost(data, other, seconds, ndcg(best[1], other))


def fitted(
    device: str, data: RankingData, threads: int, n_trees: int = TREES, **given: Any
) -> tuple[float, LambdaMART]:
    """Seconds of a training, and the ranker."""
    settings: dict[str, Any] = {"max_bins": BINS, "min_rows": MIN_ROWS, "truncation": TRUNCATION, "device": device}
    ranker = LambdaMART(n_trees, RATE, LEAVES, n_jobs=threads, **settings | given)
    return measured(lambda: ranker.fit_data(data))[0], ranker


def ndcg(ranker: Any, data: RankingData) -> float:
    """nDCG@10 of held-out queries."""
    return of_scores(ranker.model_.score(data.X), data)


def report(fit: tuple[float, Any], data: RankingData, other: RankingData, limits: Limits) -> None:
    """Training as a whole, and its floor: that of histograms, gradients and the rows that are moved."""
    whole, ranker = fit
    seconds, forest = ranker.path_[-1].seconds, ranker.model_.forest
    added, moved = rows_of(forest, data.n_docs)
    adding = max(added * N_FEATURES * ADDS / limits.adds, added * (N_FEATURES + 12) / limits.bytes)
    gradients = pairs_of(data.sizes) * forest.n_trees * OPERATIONS / limits.doubles
    floor = adding + gradients + moved * 40 / limits.bytes
    print(f"{forest.n_trees} trees: {seconds:.3f} s after binning {mark(seconds <= LONGEST)}, floor {floor:.3f} s")
    print(f"    (histograms {adding:.3f} s, gradients {gradients:.3f} s); from arrays to a model {whole:.2f} s;")
    print(f"    nDCG@10 {ndcg(ranker, other):.4f}")


def rows_of(forest: Any, n: int) -> tuple[float, float]:
    """Rows added to histograms (all, then those of the smaller children), and rows of nodes that were divided."""
    inner = np.flatnonzero(forest.feature >= 0)
    left = forest.left[inner]
    smaller = np.minimum(forest.count[left], forest.count[left + 1])
    return float(smaller.sum() + n * forest.n_trees), float(forest.count[inner].sum())


def pairs_of(sizes: Array) -> float:
    """Pairs with at least one document above the truncation."""
    upper = np.minimum(TRUNCATION, sizes - 1)
    return float((upper * (sizes - 1) - upper * (upper - 1) / 2).sum())


def parts_of_a_tree(ranker: Any, data: RankingData, limits: Limits) -> None:
    """Binning and gradients apart."""
    from rankwright.boosting.binning import bin_features
    from rankwright.gpu.lambdas import DeviceLambdas
    from rankwright.gpu.trees.rows import bins_like
    from rankwright.measures import parse_measure

    ends = bin_features(data.X[:PART], BINS).ends
    seconds = min(measured(lambda: (bins_like(ends, data.X), cuda.synchronize()))[0] for _ in range(3))
    print(f"upload and bins: {seconds:.3f} s; {data.X.nbytes / 1e9:.2f} GB to the device")
    for name in ("ndcg", "map", "err"):
        labels = data.labels if name != "map" else (data.labels > 1) * 1.0
        measure = parse_measure(name).resolve("letor")
        lambdas = DeviceLambdas(labels, data.indptr, measure, TRUNCATION, 16, nearness=0.03, normalize=True)
        scores = cuda.to_device(np.random.default_rng(0).normal(size=data.n_docs))
        seconds = timed(partial(lambdas.evaluate, scores), 9)
        floor = pairs_of(data.sizes) * OPERATIONS / limits.doubles
        print(f"gradients, {name}: {1e3 * seconds:.2f} ms, floor {1e3 * floor:.2f} ms")


def scoring(ranker: Any, X: Array, limits: Limits, threads: int) -> None:
    """All rows by all trees, once they are on the device."""
    from rankwright.gpu.scoring import DeviceForest

    forest, rows = DeviceForest(ranker.model_.forest, X.dtype), device.upload(X)
    scores = device.zeros(len(X), np.float64)
    seconds = timed(lambda: forest.add(rows, scores), 9)
    steps = ranker.model_.forest
    mean = float(steps.count[steps.feature >= 0].sum() / steps.count[steps.roots].mean())  # splits on the way of a row
    floor = max(X.nbytes / limits.bytes, 2 * len(X) * mean / limits.adds)
    print(
        f"scores by {steps.n_trees} trees: {1e3 * seconds:.2f} ms, floor {1e3 * floor:.2f} ms ({mean:.0f} splits a row)"
    )
    few = X[: 1 << 17]
    cpu, expected = measured(lambda: ranker.model_.score(few))
    same = np.array_equal(expected, DeviceForest(ranker.model_.forest, X.dtype).score(few))
    print(f"    CPU, one thread: {cpu * len(X) / len(few):.1f} s; same bits: {same}")


def on_the_cpu(data: RankingData, other: RankingData, args: Any) -> None:
    """Our CPU code: time on all data for a few trees, values after all trees on less."""
    first = int(np.searchsorted(data.indptr, SMALL))
    few = data.select(np.arange(min(first, data.n_queries)))
    fitted("cpu", data.select(np.arange(50)), args.threads, 3)
    fits = {device: fitted(device, few, args.threads) for device in ("cpu", "cuda")}
    values = {device: ndcg(ranker, other) for device, (_, ranker) in fits.items()}
    times = ", ".join(f"{device} {ranker.path_[-1].seconds:.2f} s" for device, (_, ranker) in fits.items())
    is_close = abs(values["cpu"] - values["cuda"]) <= CLOSE
    print(f"{few.n_docs:,} documents, {TREES} trees after binning: {times};")
    print(f"    nDCG@10 {values['cpu']:.5f} and {values['cuda']:.5f} {mark(is_close)}")
    if args.cpu_trees:
        _, ranker = fitted("cpu", data, args.threads, args.cpu_trees)
        each = ranker.path_[-1].seconds / args.cpu_trees
        print(f"CPU, {args.threads} threads, all documents: {each:.2f} s a tree, after binning")


def against_xgboost(data: RankingData, other: RankingData, seconds: float, value: float) -> None:
    """XGBoost's GPU ranker, after binning; its other settings as they come."""
    try:
        import xgboost
    except ImportError:
        print("XGBoost: not here")
        return
    given = {"objective": "rank:ndcg", "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": TRUNCATION}
    grown = {"max_leaves": LEAVES, "max_depth": 0, "grow_policy": "lossguide", "max_bin": BINS, "eta": RATE}
    settings = given | grown | {"tree_method": "hist", "device": "cuda", "verbosity": 0}
    began = time.perf_counter()
    matrix = xgboost.QuantileDMatrix(data.X, data.labels, group=np.asarray(data.sizes), max_bin=BINS)
    xgboost.train(settings, matrix, 1)
    binned = time.perf_counter() - began
    took = []
    for _ in range(2):
        began = time.perf_counter()
        booster = xgboost.train(settings, matrix, TREES)
        took.append(time.perf_counter() - began)
    theirs = of_scores(booster.predict(xgboost.DMatrix(other.X)).astype(np.float64), other)
    ratio = min(took) / seconds
    times = f"{min(took):.3f} s after binning ({binned:.2f} s), nDCG@10 {theirs:.4f}"
    print(f"XGBoost {xgboost.__version__}: {times}")
    print(f"    {ratio:.2f} times our time {mark(ratio >= FASTER)}, value {mark(value >= theirs - CLOSE)}", flush=True)


def measure_kinds(data: RankingData, threads: int) -> None:
    """Kinds of trees beside the plain ones, on both: time after binning, and how many splits are the same."""
    few = data.select(np.arange(int(np.searchsorted(data.indptr, SMALL))))
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "random nodes": {"randomize_nodes": True},
        "monotone": {"monotone": {0: 1, 1: 1, 12: 1}},
        "categories": {"categorical": [13, 14]},
        "squared, half of the rows and features": {"gain": "squared", "tree_rows": 0.5, "tree_features": 0.5},
    }
    print(f"{few.n_docs:,} documents, 20 trees:")
    for name, given in kinds.items():
        for target in ("cuda", "cpu"):
            fitted(target, few, threads, 2, **given)
        rankers = {target: fitted(target, few, threads, 20, **given)[1] for target in ("cuda", "cpu")}
        there, here = (rankers[target].model_.forest for target in ("cuda", "cpu"))
        first = int(here.roots[1])
        same = np.array_equal(there.feature[:first], here.feature[:first]) and np.array_equal(
            there.threshold[:first], here.threshold[:first]
        )
        times = ", ".join(f"{target} {ranker.path_[-1].seconds:.2f} s" for target, ranker in rankers.items())
        n = min(len(there.feature), len(here.feature))
        alike = float(np.mean((there.feature[:n] == here.feature[:n]) & (there.threshold[:n] == here.threshold[:n])))
        print(f"    {name}: {times}; first tree the same: {same}; nodes alike: {alike:.1%}", flush=True)


def measure_auto(data: RankingData, other: RankingData, threads: int) -> None:
    """The committee on both, all choices included."""
    few, warm = data.select(np.arange(500)), data.select(np.arange(20))
    found = {}
    for target in ("cuda", "cpu"):
        AutoRanker(device=target, n_jobs=threads).fit_data(warm)
        ranker = AutoRanker(device=target, n_jobs=threads)
        found[target] = measured(partial(ranker.fit_data, few))[0], ranker
    for target, (took, ranker) in found.items():
        members = ", ".join(f"{one.name} {one.seconds:.1f}" for one in ranker.committee_.members)
        print(f"auto, {few.n_docs:,} documents, {target}: {took:.1f} s ({members}); nDCG@10 {ndcg(ranker, other):.4f}")


def measure_limited_trees(data: RankingData, other: RankingData, threads: int) -> None:
    """Trees over data of which a quarter of the bins may stay on the device, and over all of it in the same way."""
    size = -(-data.n_features // 16) * 16 * data.n_docs
    over_parts(data.select(np.arange(50)), threads)
    for name, room in (("all bins", None), ("a quarter of the bins", size // 4)):
        with room_for(device.free_bytes() if room is None else room):
            took, ranker = fitted("cuda", data, threads, 5) if room else over_parts(data, threads)
        each = ranker.path_[-1].seconds / 5
        print(f"5 trees over parts, room for {name}: {each:.2f} s a tree, {took:.1f} s in all;", end=" ")
        print(f"nDCG@10 {ndcg(ranker, other):.5f}", flush=True)


def over_parts(data: RankingData, threads: int) -> tuple[float, LambdaMART]:
    """The same way of growing trees, with room for everything."""
    plain = LambdaMART._has_room
    LambdaMART._has_room = lambda self, data: False  # type: ignore[method-assign]
    try:
        return fitted("cuda", data, threads, 5)
    finally:
        LambdaMART._has_room = plain  # type: ignore[method-assign]
