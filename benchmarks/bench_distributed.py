"""Training on a Dask cluster of this machine, against LightGBM's and XGBoost's own Dask rankers, in one run.

Data as in `bench_lambda_mart` (``--docs`` documents × 136 float32 in queries of 120), in ``--parts`` parts of whole
queries. On one cluster of ``--workers`` processes with one thread each:

1. LambdaMART, ``--trees`` trees of 31 leaves on 255 bins: at least as fast as ``lightgbm.dask`` and ``xgboost.dask``;
   whether two trainings, and one with other workers, give the same model.
2. Max-margin (MAP) to its certificate on 1, 2 and 4 workers: seconds, passes, kilobytes a pass, and the milliseconds of
   a pass that are not work: the time of a pass over data of a few documents, with as many planes, at most 10.
3. What each does with a query that is split over two parts, and with a worker that is killed (SIGKILL) during training.

Wall times; with more workers than cores only the overhead means anything. Everything else on the machine counts too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_lambda_mart import BINS, LEAVES, MIN_ROWS, N_FEATURES, RATE, SIZE, TRUNCATION, make
from rankwright import LambdaMART, RankingData, StructuredSVM, evaluate, open_partitions
from rankwright.cli.main import main as run
from rankwright.cluster.dask import DaskWorkers

Array = npt.NDArray[Any]
_PATIENCE = 120.0  # seconds after which a training counts as stuck
_FAULT_TREES = 60
_KILL_AFTER = 3.0  # seconds


def main() -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=240_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument(
        "--only", choices=["trees", "passes", "faults"], nargs="*", default=["trees", "passes", "faults"]
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ", ".join(f"{name} {version(name)}" for name in ("dask", "lightgbm")) + f", xgboost {_xgboost()}"
    print(f"{args.docs:,} × {N_FEATURES} in {args.partitions} partitions; {names}; {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), args.docs, args.partitions)
        if "trees" in args.only:
            compare_trees(data, args.workers, args.trees)
        if "passes" in args.only:
            count_passes(data)
        if "faults" in args.only:
            table_of_faults(data, args.workers)
    return 0


def _xgboost() -> str:
    import xgboost

    return str(xgboost.__version__)


class Data:
    """Parts on disk: as this package maps them, and as arrays for the others."""

    def __init__(self, folder: Path, n_docs: int, n_partitions: int) -> None:
        n_queries = n_docs // SIZE
        X, y = make(n_queries * SIZE)
        self.bounds = np.linspace(0, n_queries, n_partitions + 1).astype(int) * SIZE
        self.arrays, self.folder = folder / "arrays", folder / "frames"
        self.arrays.mkdir()
        self.folder.mkdir()
        self.held_out = make(500 * SIZE, seed=1)
        for part, (first, last) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
            np.save(self.arrays / f"X{part}.npy", X[first:last])
            np.save(self.arrays / f"y{part}.npy", y[first:last])
            qid = np.arange(first, last) // SIZE
            write_frame(self.folder / f"partition-{part:04}.parquet", X[first:last], y[first:last], qid)
        self.n_partitions = n_partitions
        self.parts = folder / "whole.partitions"
        if run(["convert", str(self.folder), "--by-query", str(n_partitions), "-o", str(self.parts)]):
            raise SystemExit("the data could not be cut into parts")

    def collections(self, split: bool = False) -> tuple[Any, Any, Any]:
        """Features, labels and query ids as Dask arrays, one chunk a part; ``split``: with split queries."""
        import dask.array
        from dask import delayed

        moved = 60 if split else 0
        bounds = self.bounds.copy()
        bounds[1:-1] += moved
        blocks = []
        for first, last in itertools.pairwise(bounds):
            X = dask.array.from_delayed(
                delayed(read_rows)(str(self.arrays), self.bounds.tolist(), int(first), int(last), "X"),
                (int(last - first), N_FEATURES),
                np.float32,
            )
            y = dask.array.from_delayed(
                delayed(read_rows)(str(self.arrays), self.bounds.tolist(), int(first), int(last), "y"),
                (int(last - first),),
                np.int64,
            )
            qid = dask.array.from_array(np.arange(first, last) // SIZE, chunks=int(last - first))
            blocks.append((X, y, qid))
        return tuple(dask.array.concatenate([block[at] for block in blocks]) for at in range(3))


def write_frame(path: Path, X: Array, y: Array, qid: Array) -> None:
    """One part as Parquet."""
    import pyarrow
    from pyarrow import parquet

    columns = {"qid": qid, "label": y.astype(np.float64)}
    columns |= {f"f{j + 1}": X[:, j] for j in range(X.shape[1])}
    parquet.write_table(pyarrow.table(columns), path)


def read_rows(folder: str, bounds: Sequence[int], first: int, last: int, name: str) -> Array:
    """Rows of all parts together, by number."""
    found = []
    for part, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if start < last and stop > first:
            own = np.load(f"{folder}/{name}{part}.npy", mmap_mode="r")
            found.append(np.array(own[max(first, start) - start : min(last, stop) - start]))
    return np.concatenate(found)


class Ours:
    """Rankwright."""

    name = "rankwright"

    def fit(self, client: Any, data: Data, trees: int, split: bool = False) -> Callable[[Array], Array]:
        """Train; the result scores rows."""
        if split:
            folder = data.folder.parent / "split"
            folder.mkdir(exist_ok=True)
            for part, (first, last) in enumerate(zip(data.bounds, data.bounds[1:], strict=False)):
                start, stop = first + 60 * (part > 0), last + 60 * (part < data.n_partitions - 1)
                rows = (str(data.arrays), data.bounds.tolist(), int(start), int(stop))
                X, y = read_rows(*rows, "X"), read_rows(*rows, "y")
                write_frame(folder / f"partition-{part:04}.parquet", X, y, np.arange(start, stop) // SIZE)
        parts = open_partitions(folder if split else data.parts, engine=client)
        settings = {"max_bins": BINS, "min_rows": MIN_ROWS, "truncation": TRUNCATION}
        ranker = LambdaMART(trees, RATE, LEAVES, **settings).fit(parts)  # type: ignore[arg-type]
        return lambda X: np.asarray(ranker.predict(X))


class LightGBM:
    """lightgbm.dask."""

    name = "lightgbm.dask"

    def fit(self, client: Any, data: Data, trees: int, split: bool = False) -> Callable[[Array], Array]:
        """Train."""
        import dask.array
        import lightgbm

        X, y, qid = data.collections(split)
        sizes = [np.unique(own, return_counts=True)[1] for own in dask.compute(*qid.to_delayed())]
        group = dask.array.concatenate([dask.array.from_array(own, chunks=len(own)) for own in sizes])
        ranker = lightgbm.DaskLGBMRanker(
            client=client,
            n_estimators=trees,
            num_leaves=LEAVES,
            learning_rate=RATE,
            max_bin=BINS,
            min_child_samples=MIN_ROWS,
            lambdarank_truncation_level=TRUNCATION,
            verbose=-1,
            tree_learner="data",
        )
        ranker.fit(X, y, group=group)
        local = ranker.to_local()
        return lambda X: np.asarray(local.predict(X))


class XGBoost:
    """xgboost.dask."""

    name = "xgboost.dask"

    def fit(self, client: Any, data: Data, trees: int, split: bool = False) -> Callable[[Array], Array]:
        """Train."""
        import xgboost
        import xgboost.dask

        X, y, qid = data.collections(split)
        ranker = xgboost.dask.DaskXGBRanker(
            n_estimators=trees,
            max_leaves=LEAVES,
            max_depth=0,
            grow_policy="lossguide",
            learning_rate=RATE,
            max_bin=BINS,
            objective="rank:ndcg",
            lambdarank_pair_method="topk",
            lambdarank_num_pair_per_sample=TRUNCATION,
            tree_method="hist",
            allow_group_split=True,  # partitions have whole queries, but where one is split on purpose
        )
        ranker.client = client
        ranker.fit(X, y, qid=qid)
        booster = ranker.get_booster()
        return lambda X: np.asarray(booster.predict(xgboost.DMatrix(X)))


def cluster(n: int) -> tuple[Any, Any]:
    """A cluster of worker processes with one thread each."""
    import distributed

    started = distributed.LocalCluster(
        n_workers=n, threads_per_worker=1, dashboard_address=None, silence_logs=50, memory_limit=None
    )
    return started, distributed.Client(started, set_as_default=True)


def compare_trees(data: Data, n_workers: int, trees: int) -> None:
    """Seconds, quality, and whether models are the same from run to run."""
    print(f"\nLambdaMART, {trees} trees of {LEAVES} leaves, {n_workers} workers")
    print(f"{'':16}{'seconds':>9}{'again':>9}{'nDCG@10':>9}  same model again, with one worker")
    X, y = data.held_out
    held_out = RankingData.from_arrays(X, y, group=[SIZE] * (len(y) // SIZE))
    for kind in (Ours(), LightGBM(), XGBoost()):
        found, seconds = [], []
        for n in (n_workers, n_workers, 1):
            started, client = cluster(n)
            try:
                kind.fit(client, data, 1)  # compiles, starts what there is to start
                began = time.perf_counter()
                predict = kind.fit(client, data, trees)
                seconds.append(time.perf_counter() - began)
            finally:
                client.close()
                started.close()
            found.append(predict(X))
        value = evaluate(held_out, found[0], measures=["nDCG@10"]).means["nDCG@10"]
        same = ["yes" if np.array_equal(found[0], other) else "no" for other in found[1:]]
        print(f"{kind.name:16}{seconds[0]:9.2f}{seconds[1]:9.2f}{value:9.4f}  {', '.join(same)}", flush=True)


class Counted(DaskWorkers):
    """A Dask engine that counts what travels."""

    sent = received = calls = 0

    def start(self, worker: Any, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of a worker."""
        self.calls += 1
        self.sent += len(pickle.dumps((method, arguments, options), 5))
        return _Counted(self, super().start(worker, method, *arguments, **options))


class _Counted:
    def __init__(self, engine: Counted, pending: Any) -> None:
        self._engine, self._pending = engine, pending

    def result(self) -> Any:
        found = self._pending.result()
        self._engine.received += len(pickle.dumps(found, 5))
        return found


def count_passes(data: Data) -> None:
    """What a pass of max-margin training costs on top of its work."""
    print(
        f"\nSVMmap on workers with one thread each\n{'workers':>8}{'seconds':>9}{'passes':>8}{'kB a pass':>11}", end=""
    )
    print(f"{'ms over the work':>18}")
    few = data.folder.parent / "few"
    if not few.exists():
        few.mkdir()
        X, y = make(112 * 4)
        for part in range(data.n_partitions):
            rows = slice(part * 448 // data.n_partitions // 4 * 4, (part + 1) * 448 // data.n_partitions // 4 * 4)
            write_frame(
                few / f"partition-{part:04}.parquet",
                X[rows],
                y[rows] + np.arange(448)[rows] % 2,
                np.arange(448)[rows] // 4,
            )
    coefs = []
    for n in (1, 2, 4):
        started, client = cluster(n)
        try:
            engine = Counted(client)
            parts = open_partitions(data.parts, engine=engine)
            StructuredSVM("map", max_passes=1).fit(parts)
            engine.sent = engine.received = 0
            began = time.perf_counter()
            ranker = StructuredSVM("map", C=10.0).fit(parts)
            seconds = time.perf_counter() - began
            coefs.append(ranker.coef_)
            per_pass = _pass_bytes(engine, parts)
            over = min(_pass_seconds(open_partitions(few, engine=engine)) for _ in range(3))
            over -= min(_pass_seconds(open_partitions(few)) for _ in range(3))
            print(f"{n:8}{seconds:9.2f}{ranker.n_passes_:8}{per_pass / 1e3:11.0f}{1e3 * over:18.1f}", flush=True)
        finally:
            client.close()
            started.close()
    print(f"the same weights: {'yes' if all(np.array_equal(coefs[0], coef) for coef in coefs) else 'NO'}")


def _pass_bytes(engine: Counted, parts: Any) -> float:
    """Bytes of one pass more."""
    found = []
    for passes in (2, 6):
        engine.sent = engine.received = 0
        StructuredSVM("map", C=10.0, max_passes=passes, tol=1e-12).fit(parts)
        found.append(engine.sent + engine.received)
    return (found[1] - found[0]) / 4


def _pass_seconds(parts: Any) -> float:
    """Seconds of one pass, without those over planes."""
    ranker = StructuredSVM("map", C=1e-3, max_passes=12, tol=1e-15).fit(parts)
    path = ranker.path_
    if len(path) < 2:
        return float("nan")
    total = path[-1].seconds - path[0].seconds
    return (total - (path[-1].seconds_planes - path[0].seconds_planes)) / (len(path) - 1)


def table_of_faults(data: Data, n_workers: int) -> None:
    """What happens to a split query, and with a killed worker."""
    print(
        f"\nWhat becomes of a query that is split over two parts, and of a worker that is killed, {n_workers} workers"
    )
    for kind in (Ours(), LightGBM(), XGBoost()):
        print(f"{kind.name:16}split query:   {_tried(kind, data, n_workers, split=True)}", flush=True)
        print(f"{'':16}killed worker: {_tried(kind, data, n_workers, split=False)}", flush=True)


def _tried(kind: Any, data: Data, n_workers: int, split: bool) -> str:
    """What a training with a split query, or one whose worker is killed, ends with."""
    outcome: list[Any] = []

    def train(client: Any) -> None:
        try:
            outcome.append(kind.fit(client, data, 2 if split else _FAULT_TREES, split))
        except BaseException as error:
            outcome.append(f"{type(error).__name__}: {' '.join(str(error).split())}"[:160])

    started, client = cluster(n_workers)
    try:
        kind.fit(client, data, 1)
        undisturbed = None if split else kind.fit(client, data, _FAULT_TREES)
        pids = list(client.run(os.getpid).values())
        thread = threading.Thread(target=train, args=(client,), daemon=True)
        thread.start()
        thread.join(_PATIENCE if split else _KILL_AFTER)
        if not split:
            if not thread.is_alive():
                return f"ended within {_KILL_AFTER:g} s, before the worker was killed"
            os.kill(pids[0], signal.SIGKILL)
            thread.join(_PATIENCE)
    finally:
        client.close(timeout=5)
        started.close(timeout=5)
    if not outcome:
        return f"no answer within {_PATIENCE:g} s"
    if isinstance(outcome[0], str):
        return outcome[0]
    if undisturbed is None:
        return "accepted without a word"
    same = np.array_equal(outcome[0](data.held_out[0]), undisturbed(data.held_out[0]))
    return f"finished, {'the same model' if same else 'another model'} as without"


if __name__ == "__main__":
    sys.exit(main())
