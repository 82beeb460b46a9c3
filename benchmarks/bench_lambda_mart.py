"""Claims about LambdaMART: quality, speed and memory against LightGBM's LGBMRanker within one run.

Data: 240,000 documents (``--docs``) × 136 float32 features in queries of 120, five grades; a third of the features
continuous, a third integers, a third 0 in 85 % of the documents. Both grow 100 trees of 31 leaves on 255 bins with
learning rate 0.1, at least 20 documents per leaf, and pairs down to rank 30. For one and for two threads:

1. Training from arrays to a model takes at most 0.67× LightGBM's time: it is 1.5 times as fast.
2. Scoring all documents takes at most 1.0× LightGBM's time.
3. Binning takes at most 1.0× the time to construct LightGBM's Dataset.
4. The growth of peak memory during training is at most 1.0× LightGBM's (each in a separate process).
5. nDCG@10 on 1,000 other queries is at least LightGBM's, also with 60,000 documents to train on.

``--row`` checks one more: LightGBM as a row of an experiment (LibraryRanker) takes at most 1.1× of what LightGBM takes
alone, with the same parameters and validation queries, its nDCG@10 for ours.

``--data-sets N`` compares only nDCG@10, on N made-up data sets: two programs that are equally good differ by as much as
the standard error on one of them.

Times are wall times, the best of several alternating runs; CPU times are shown too, for busy machines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import evaluate

Array = npt.NDArray[Any]
SIZE = 120  # documents per query
N_FEATURES = 136
HIDDEN = 12
LEAVES, BINS, RATE, MIN_ROWS, TRUNCATION = 31, 255, 0.1, 20, 30
N_HELD_OUT = 1000  # queries
SMALL = 60_000  # documents, where quality is compared again
MEMORY_TREES = 5  # more trees take no more memory


def make(n_docs: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw features that are noisy views of twelve hidden values, and grades that depend nonlinearly on these."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n_docs, HIDDEN), dtype=np.float32)
    X = np.empty((n_docs, N_FEATURES), np.float32)
    for j in range(N_FEATURES):
        column = np.exp(0.6 * hidden[:, j % HIDDEN] + 0.8 * rng.standard_normal(n_docs, dtype=np.float32))
        if j // HIDDEN % 3 == 1:
            column = np.floor(4 * column * np.sqrt(column))
        elif j // HIDDEN % 3 == 2:
            column[rng.random(n_docs, dtype=np.float32) < 0.85] = 0
        X[:, j] = column
    good = hidden[:, 0] + np.abs(hidden[:, 1]) + 0.7 * hidden[:, 2] * hidden[:, 3] + 0.7 * np.minimum(hidden[:, 4], 0)
    good += 0.8 * rng.standard_normal(n_docs, dtype=np.float32)
    return X, np.digitize(good, np.quantile(good, [0.52, 0.84, 0.97, 0.99]))


class Ours:
    """Rankwright."""

    name = "rankwright"

    def __init__(self, threads: int, n_trees: int) -> None:
        self.threads, self.n_trees = threads, n_trees

    def bin(self, X: Array, y: Array) -> Any:
        """Bin all features."""
        from rankwright.boosting.binning import bin_features

        return bin_features(X, BINS, threads=self.threads)

    def fit(self, X: Array, y: Array) -> Any:
        """Train."""
        from rankwright.boosting.tree_rankers import LambdaMART

        ranker = LambdaMART(
            self.n_trees, RATE, LEAVES, max_bins=BINS, min_rows=MIN_ROWS, truncation=TRUNCATION, n_jobs=self.threads
        )
        return ranker.fit(X, y, group=groups(y))

    def predict(self, model: Any, X: Array) -> Array:
        """Scores."""
        return np.asarray(model.predict(X))


class Theirs(Ours):
    """LightGBM."""

    name = "LightGBM"

    def bin(self, X: Array, y: Array) -> Any:
        """Construct its Dataset."""
        import lightgbm

        settings = {"max_bin": BINS, "min_data_in_leaf": MIN_ROWS, "num_threads": self.threads, "verbose": -1}
        return lightgbm.Dataset(X, y, group=groups(y), params=settings).construct()

    def fit(self, X: Array, y: Array) -> Any:
        """Train."""
        import lightgbm

        ranker = lightgbm.LGBMRanker(
            objective="lambdarank",
            n_estimators=self.n_trees,
            num_leaves=LEAVES,
            learning_rate=RATE,
            min_child_samples=MIN_ROWS,
            n_jobs=self.threads,
            max_bin=BINS,
            lambdarank_truncation_level=TRUNCATION,
            verbose=-1,
        )
        return ranker.fit(X, y, group=groups(y))

    def predict(self, model: Any, X: Array) -> Array:
        """Scores."""
        return np.asarray(model.predict(X, num_threads=self.threads))


def groups(y: Array) -> Array:
    """Return the number of documents per query."""
    return np.full(len(y) // SIZE, SIZE)


def timed(function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Return the wall time (or that of another clock) and the result of one call."""
    began = clock()
    result = function()
    return clock() - began, result


def verdict(what: str, threads: int, ours: float, theirs: float, unit: str, most: float = 1.0) -> None:
    """Print one line for one claim."""
    ratio = ours / theirs
    says = "holds" if ratio <= most else "DOES NOT HOLD"
    print(
        f"  {what:12s} {threads} thread{'s' if threads > 1 else ' '} rankwright {ours:8.2f} {unit}"
        f"   LightGBM {theirs:8.2f} {unit}   {ratio:.2f}× (claim ≤ {most}): {says}",
        flush=True,
    )


def compare_times(X: Array, y: Array, held_out: tuple[Array, Array], n_trees: int, repeat: int) -> None:
    """Check claims 1, 2, 3 and 5."""
    for threads in (1, 2):
        sides = (Ours(threads, n_trees), Theirs(threads, n_trees))
        best: dict[tuple[str, str], float] = defaultdict(lambda: np.inf)
        models = {}
        for side in sides:
            few = side.fit(X[: 10 * SIZE], y[: 10 * SIZE])  # compiles, loads libraries
            side.predict(few, X[:SIZE])
        for _ in range(repeat):
            for side in sides:
                binning, _ = timed(partial(side.bin, X, y))
                cpu, (training, models[side.name]) = timed(
                    partial(timed, partial(side.fit, X, y)), time.process_time
                )  # fmt: skip
                scoring, _ = timed(partial(side.predict, models[side.name], X))
                found = {"binning": binning, "training": training, "training, CPU": cpu, "scoring": scoring}
                for what, seconds in found.items():
                    best[what, side.name] = min(best[what, side.name], seconds)
        for what in ("training", "training, CPU", "scoring", "binning"):
            most = 0.67 if what.startswith("training") else 1.0
            verdict(what, threads, best[what, "rankwright"], best[what, "LightGBM"], "s", most)
        if threads == 1:
            compare_quality(models, held_out)


def compare_quality(models: dict[str, Any], held_out: tuple[Array, Array]) -> float:
    """Check claim 5: nDCG@10, the difference (which is returned) and its standard error."""
    X, y = held_out
    qid = np.arange(len(y)) // SIZE
    values = [
        evaluate(y, np.asarray(models[name].predict(X)), qid, measures=["nDCG@10"]).column("nDCG@10")
        for name in ("rankwright", "LightGBM")
    ]
    apart = values[0] - values[1]
    error = apart.std(ddof=1) / np.sqrt(len(apart))
    says = "holds" if apart.mean() >= 0 else "DOES NOT HOLD"
    print(
        f"  nDCG@10 on {len(apart)} other queries: rankwright {values[0].mean():.4f}   LightGBM {values[1].mean():.4f}"
        f"   difference {apart.mean():+.4f} ± {error:.4f} (claim ≥ 0): {says}",
        flush=True,
    )
    return float(apart.mean())


def compare_data_sets(n_docs: int, n_held_out: int, n_trees: int, n_sets: int) -> None:
    """Check claim 5 on several data sets."""
    apart: dict[int, list[float]] = {min(SMALL, n_docs): [], n_docs: []}
    for seed in range(n_sets):
        X, y = make(n_docs + n_held_out * SIZE, seed)
        for size, found in apart.items():
            print(f"data set {seed}, {size:,} documents:")
            sides = (Ours(1, n_trees), Theirs(1, n_trees))
            models = {side.name: side.fit(X[:size], y[:size]) for side in sides}
            found.append(compare_quality(models, (X[n_docs:], y[n_docs:])))
    for size, found in apart.items():
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        print(f"{size:,} documents, mean of {n_sets} data sets: {np.mean(found):+.4f} ± {error:.4f}")


def compare_row(X: Array, y: Array, held_out: tuple[Array, Array], n_trees: int, repeat: int) -> None:
    """Check what the adapter adds to LightGBM: handing over the data, our measure after every tree, and the model."""
    import lightgbm

    from rankwright import LibraryRanker, RankingData

    settings = {"num_iterations": n_trees, "num_leaves": LEAVES, "min_data_in_leaf": MIN_ROWS}
    data, valid = (RankingData.from_arrays(rows, labels, group=groups(labels)) for rows, labels in ((X, y), held_out))
    for threads in (1, 2):
        ranker = LibraryRanker("lightgbm", settings, n_jobs=threads)

        def alone(ranker: Any = ranker) -> Any:
            params = ranker._params() | {"metric": "ndcg", "eval_at": [10]}
            train = lightgbm.Dataset(X, y, group=groups(y), params=params)
            checked = train.create_valid(held_out[0], held_out[1], group=groups(held_out[1]), params=params)
            stopping = lightgbm.early_stopping(ranker.patience, verbose=False)
            return lightgbm.train(params, train, n_trees, valid_sets=[checked], callbacks=[stopping])

        sides: dict[str, Callable[[], Any]] = {"rankwright": partial(ranker.fit_data, data, valid), "LightGBM": alone}
        best: dict[tuple[str, str], float] = defaultdict(lambda: np.inf)
        for _ in range(repeat + 1):  # the first one loads libraries
            for name, train in sides.items():
                cpu, (wall, _) = timed(partial(timed, train), time.process_time)
                for what, seconds in (("a row", wall), ("a row, CPU", cpu)):
                    best[what, name] = min(best[what, name], seconds)
        for what in ("a row", "a row, CPU"):
            verdict(what, threads, best[what, "rankwright"], best[what, "LightGBM"], "s", 1.1)


@contextmanager
def watched(spent: dict[str, float]) -> Iterator[None]:
    """Add up the seconds spent in each part of training."""
    from rankwright.boosting import grow, lambdas, training_rows
    from rankwright.boosting import learner as tree_learner

    places = [
        (training_rows, "bin_features", "binning"),
        (training_rows, "content_order", "tie order"),
        (lambdas.Lambdas, "evaluate", "gradients"),
        (grow, "pack", "packing"),
        (grow.LocalHistograms, "_gather", "gathering"),
        (grow.LocalHistograms, "_run", "histograms, splits"),
        (grow.Growth, "choose", "counts"),
        (grow, "divide_rows", "partition"),
        (grow.Grower, "grow", "growing"),
        (tree_learner.LocalLearner, "fit", "trees"),
    ]
    kept = [(where, name, getattr(where, name)) for where, name, _ in places]

    def watch(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            seconds, result = timed(partial(function, *args, **settings), time.process_time)
            spent[part] += seconds
            return result

        return call

    for where, name, part in places:
        setattr(where, name, watch(getattr(where, name), part))
    try:
        yield
    finally:
        for where, name, function in kept:
            setattr(where, name, function)


def show_partitions(X: Array, y: Array, n_trees: int) -> None:
    """Print where training with one thread spends its time."""
    spent: dict[str, float] = defaultdict(float)
    with watched(spent):
        total, _ = timed(partial(Ours(1, n_trees).fit, X, y), time.process_time)
    spent["leaf values"] = spent.pop("trees") - spent["growing"]
    parts = ("packing", "gathering", "histograms, splits", "counts", "partition")
    spent["rest of growing"] = spent.pop("growing") - sum(spent[part] for part in parts)
    spent["checks and the rest"] = total - sum(spent.values())
    print(f"where the time goes, {n_trees} trees, one thread, {total:.1f} s of CPU time:")
    for part, seconds in sorted(spent.items(), key=lambda entry: -entry[1]):
        print(f"  {part:20s} {seconds:6.2f} s  {seconds / total:4.0%}")


def in_child(what: str, threads: int, folder: Path, **environment: str) -> dict[str, float]:
    """Run one measurement of this script in a separate process."""
    command = [sys.executable, __file__, "--child", what, "--threads", str(threads), "--folder", str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    found: dict[str, float] = json.loads(output.stdout.splitlines()[-1])
    return found


def child(what: str, threads: int, folder: Path) -> None:
    """In a separate process: measure the first fit and predict, or the growth of memory during training."""
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    few = X[: 10 * SIZE], y[: 10 * SIZE]
    side = (Theirs if what == "LightGBM" else Ours)(threads, MEMORY_TREES)
    fitting, model = timed(partial(side.fit, *few))
    scoring, _ = timed(partial(side.predict, model, few[0]))
    found = {"fit": fitting, "predict": scoring}
    if what in ("rankwright", "LightGBM"):
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = megabytes("VmRSS")
        side.fit(X, y)
        found["growth"] = megabytes("VmHWM") - before
    print(json.dumps(found))


def megabytes(entry: str) -> float:
    """Return an entry of /proc/self/status in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) / 1024
    return float("nan")


def compare_memory(folder: Path) -> None:
    """Check claim 4."""
    if not Path("/proc/self/clear_refs").exists():
        print("peak memory: measured on Linux only")
        return
    for threads in (1, 2):
        ours, theirs = (in_child(what, threads, folder)["growth"] for what in ("rankwright", "LightGBM"))
        verdict("memory", threads, ours, theirs, "MB")


def show_first_seconds(folder: Path) -> None:
    """Print how long the first training takes, first with nothing compiled, then with cached compiled code."""
    with tempfile.TemporaryDirectory() as cache:
        for state in ("nothing compiled", "with cached compiled code"):
            found = in_child("first", 1, folder, NUMBA_CACHE_DIR=cache)
            print(f"first fit of a process, {10 * SIZE} documents, {state}: {found['fit']:.2f} s", end="")
            print(f", first predict {found['predict']:.2f} s")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=240_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--held-out", type=int, default=N_HELD_OUT, help="queries to compare quality on")
    parser.add_argument("--data-sets", type=int, metavar="N", help="compare quality only, on N made-up data sets")
    parser.add_argument("--row", action="store_true", help="check LightGBM as a row of an experiment only")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.threads, args.folder)
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("rankwright", "lightgbm", "numba", "numpy"))
    n_docs = args.docs // SIZE * SIZE
    if args.data_sets:
        print(f"{versions}; {n_docs:,} × {N_FEATURES}, {args.trees} trees")
        compare_data_sets(n_docs, args.held_out, args.trees, args.data_sets)
        return
    X, y = make(n_docs + args.held_out * SIZE, args.seed)
    held_out, X, y = (X[n_docs:].copy(), y[n_docs:]), X[:n_docs], y[:n_docs]
    print(f"{versions}; {n_docs:,} × {N_FEATURES}, {args.trees} trees, best of {args.repeat}")
    if args.row:
        compare_row(X, y, held_out, args.trees, args.repeat)
        return
    print(f"system load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        show_first_seconds(folder)
        compare_memory(folder)
    compare_times(X, y, held_out, args.trees, args.repeat)
    print(f"{min(SMALL, n_docs):,} documents, {args.trees} trees:")
    sides = (Ours(1, args.trees), Theirs(1, args.trees))
    compare_quality({side.name: side.fit(X[:SMALL], y[:SMALL]) for side in sides}, held_out)
    show_partitions(X, y, args.trees)
    print(f"system load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
