"""Max-margin training and linear scoring on a GPU: the part of `bench_gpu` about these."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda
from sklearn.base import clone

from gpu_data import Limits, mark, measured, regrouped, timed
from rankwright import RankingData, RankingSVM, StructuredSVM
from rankwright.gpu import device as device
from rankwright.gpu import training
from rankwright.maxmargin.losses import TrainingSet
from rankwright.maxmargin.problem import RAMP, Problem

__all__ = ["measure_fits", "measure_limited", "measure_long_queries", "measure_scoring", "measure_upload"]

Array = npt.NDArray[Any]
AFTER, WITH, SHARE, CLOSE = 0.5, 1.0, 0.6, 1e-6
FITS = {
    "pairs": lambda **given: RankingSVM(0.01, **given),
    "MAP": lambda **given: StructuredSVM("map", 1.0, **given),
    "nDCG@10": lambda **given: StructuredSVM("ndcg@10", 1.0, **given),
}
LONG_FITS = {
    "pairs, weighed by query": lambda **given: RankingSVM(1.0, query_weights=True, **given),
    "MAP": FITS["MAP"],
    "nDCG@10": lambda **given: StructuredSVM("ndcg@10", 0.1, **given),
    "DORM@10": lambda **given: StructuredSVM("dorm@10", 1.0, **given),
}
LONG, N_LONG = 100_000, 38  # documents, queries


def measure_upload(X: Array) -> None:
    """The way to the device."""
    device.upload(X[:100_000])
    for _ in range(2):
        seconds, _ = measured(lambda: (device.upload(X), cuda.synchronize()))
        print(f"upload: {seconds:.3f} s, {X.nbytes / seconds / 1e9:.1f} GB/s")


def measure_scoring(X: Array, limits: Limits, repeat: int) -> None:
    """Linear scores of all rows, once they are on the device."""
    from rankwright.gpu import scoring

    rng, floor = np.random.default_rng(0), X.nbytes / limits.bytes
    there, weights = device.upload(X), device.upload(rng.standard_normal((X.shape[1],)))
    scores = cuda.device_array(len(X), np.float64)
    for name, order in (("in order", np.arange(len(X))), ("shuffled", rng.permutation(len(X)))):
        launch = partial(scoring.launch_scores, 0, there, device.upload(order), weights, scores)
        seconds = timed(launch, 3 * repeat, times=10)
        share = floor / seconds
        times = f"{seconds * 1e3:.3f} ms, floor {floor * 1e3:.3f} ms"
        print(f"scores, rows {name}: {times}: {share:.0%} of the bandwidth {mark(share >= SHARE)}")


def forget(data: RankingData, *, features: bool) -> None:
    """Drop what earlier trainings kept with the data, and the features on the device."""
    for name in ("_statistics", "_has_both", *(["_on_device"] if features else [])):
        vars(data).pop(name, None)


def measure_fits(data: RankingData, limits: Limits, args: Any) -> None:
    """Train on the device, the first time with features that are still to be uploaded; then on the CPU."""
    for name, make_ranker in FITS.items():
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
        floor = passes * 2 * data.X.nbytes / limits.bytes
        after, whole = (float(np.median([row[kind] for row in rows[1:]])) for kind in range(2))
        with_upload = rows[0][0]
        met = f"{mark(after <= AFTER)}, with upload {with_upload:.3f} s {mark(with_upload <= WITH)}"
        print(f"{name}: gap {ranker.gap_:.1e} after {passes} passes in {after:.3f} s {met};")
        last = ranker.path_[-1]
        solver = f"solver {last.seconds:.3f} s, on planes {last.seconds_planes:.3f} s"
        print(f"    floor of the passes {floor:.3f} s; {solver}; whole fit {whole:.3f} s", flush=True)
        forget(data, features=True)
        if args.cpu:
            beside_the_cpu(make_ranker, data, args.threads, ranker, with_upload)


def beside_the_cpu(make_ranker: Any, data: RankingData, threads: int, ranker: Any, seconds: float) -> None:
    """The same training on the CPU: its time to the certificate, and how far the objectives are apart."""
    make_ranker(n_jobs=threads).fit_data(data.select(np.arange(min(50, data.n_queries))))
    forget(data, features=True)
    checks: list[float] = []
    here = make_ranker(n_jobs=threads, callback=lambda check: checks.append(time.perf_counter()))
    began = time.perf_counter()
    here.fit_data(data)
    took, apart = checks[-1] - began, abs(here.objective_ - ranker.objective_) / here.objective_
    print(f"    CPU, {threads} threads: {took:.2f} s to the certificate, {took / seconds:.0f} × with upload;", end=" ")
    print(f"objectives differ by {apart:.1e} {mark(apart <= CLOSE)}", flush=True)


def measure_long_queries(data: RankingData, threads: int) -> None:
    """Queries of 100,000 documents: a training on both, and what both compute for the weights of the device's."""
    few = regrouped(data, LONG, N_LONG)
    print(f"{few.n_queries} queries of {few.sizes[0]:,} documents:")
    for name, make_ranker in LONG_FITS.items():
        warm = regrouped(data, 3000, 4)
        found: dict[str, Any] = {}
        for target in ("cuda", "cpu"):
            make_ranker(device=target, n_jobs=threads).fit_data(warm)
            forget(few, features=True)
            ranker = make_ranker(device=target, n_jobs=threads)
            took, _ = measured(partial(ranker.fit_data, few))
            found[target] = (took, ranker)
        (took, there), (cpu, here) = found["cuda"], found["cpu"]
        last = there.path_[-1]
        each = f"{there.n_passes_total_} passes of {1e3 * (last.seconds - last.seconds_planes) / last.passes:.1f} ms"
        times = f"{took:.2f} s with upload, {each}; CPU, {threads} threads: {cpu:.2f} s"
        bounds = [bound_at(ranker, few, there.coef_) for ranker in (there, here)]
        apart = abs(bounds[0] / bounds[1] - 1.0)
        print(f"    {name}: {times}; bounds at the same weights differ by {apart:.1e} {mark(apart <= CLOSE)};")
        tell_objectives(here, there, few)
        forget(few, features=True)


def bound_at(ranker: Any, data: RankingData, coef: Array) -> float:
    """What training minimises, without the term for the length of the weights; all queries must have an order."""
    training = TrainingSet(data, ranker._targets(data), np.ones(data.n_queries))
    problem = Problem(training, ranker._settings(), None)
    try:
        objective = problem._objective
        w, slope = objective.weights(coef), 0.0
        if ranker._bound() == RAMP:
            slope = float(objective.linearise(w).vector @ w)
        return float(objective.value(w)) + slope
    finally:
        problem.close()


def tell_objectives(here: Any, there: Any, data: RankingData) -> None:
    """How far objectives are apart; if far, also how far two of the CPU's are whose C differs in its last bit."""
    apart = abs(here.objective_ / there.objective_ - 1.0)
    print(f"        gaps {here.gap_:.1e} and {there.gap_:.1e}, objectives differ by {apart:.1e}", flush=True)
    if apart > CLOSE:
        other = clone(here).set_params(C=np.nextafter(here.C, np.inf))
        other.fit_data(data)
        apart = abs(other.objective_ / here.objective_ - 1.0)
        print(f"        CPU alone, C larger by {other.C - here.C:.0e}: they differ by {apart:.1e}", flush=True)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """As if the device had so many bytes free."""
    plain = device.free_bytes
    device.free_bytes = training.free_bytes = lambda: min(plain(), size)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        device.free_bytes = training.free_bytes = plain  # type: ignore[attr-defined]


def measure_limited(data: RankingData, threads: int) -> None:
    """Features of which a quarter may stay on the device: the others travel twice a pass."""
    found = []
    for room in (device.free_bytes(), data.X.nbytes // 4):
        forget(data, features=True)
        ranker = FITS["MAP"](device="cuda", n_jobs=threads)
        with room_for(room):
            took, _ = measured(partial(ranker.fit_data, data))
        found.append((took, ranker))
    (_, all_there), (took, ranker) = found
    apart = abs(ranker.objective_ - all_there.objective_) / all_there.objective_
    travelled = 2 * ranker.n_passes_total_ * 0.8 * data.X.nbytes
    solver = ranker.path_[-1].seconds
    print(
        f"MAP with room for a quarter of the features: {took:.2f} s, {ranker.n_passes_total_} passes in {solver:.2f} s;"
    )
    rate = f"about {travelled / 1e9:.0f} GB travelled, {travelled / solver / 1e9:.1f} GB/s"
    print(f"    {rate}; objectives differ by {apart:.1e} {mark(apart <= CLOSE)}", flush=True)
    forget(data, features=True)
