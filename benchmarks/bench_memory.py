"""Claims about the memory that training takes on top of the features.

1. CSR (400,000 × 1,000, 100 values a row): the peak grows by at most 0.3× the matrix, for max-margin rankers and nets,
   with a query that has no order, and with C chosen by cross-validation. In a process of its own each, from what the
   process holds when training begins.
2. A memory-mapped dense matrix with a query that has no order is never copied: what numpy allocates is at most 0.3× X.

``--before`` names the ``src`` of another version, which is measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright import LambdaRank, RankingData, RankingSVM, RankNet, StructuredSVM

Array = npt.NDArray[Any]
SIZE = 100  # documents per query
CLAIM = 0.3
RANKERS: dict[str, Callable[[], Any]] = {
    "svm-map": lambda: StructuredSVM("map", C=1, max_passes=30),
    "svm-ndcg": lambda: StructuredSVM("ndcg@10", C=1, max_passes=30),
    "rank-svm": lambda: RankingSVM(C=1e-3, max_passes=30),
    "svm-map, C by cross-validation": lambda: StructuredSVM("map", C="auto", C_grid=[0.1, 1], max_passes=30),
    "lambdarank": lambda: LambdaRank(epochs=2),
    "ranknet, linear": lambda: RankNet(epochs=2, hidden=0),
}
MAPPED = ("svm-map", "svm-ndcg", "rank-svm")


def csr(n_docs: int, n_features: int, n_values: int) -> tuple[Any, Array]:
    """Draw rows of ``n_values`` each, and grades that follow a hidden direction plus noise."""
    rng = np.random.default_rng(0)
    step = n_features // n_values
    columns = np.arange(n_values, dtype=np.int32) * step + rng.integers(0, step, (n_docs, n_values), dtype=np.int32)
    values = rng.random(n_docs * n_values, dtype=np.float32) + np.float32(0.1)
    bounds = np.arange(n_docs + 1, dtype=np.int32) * n_values
    X = sparse.csr_array((values, columns.reshape(-1), bounds), shape=(n_docs, n_features))
    return X, grades(X @ rng.normal(size=n_features).astype(np.float32), rng)


def grades(scores: Array, rng: np.random.Generator) -> Array:
    """Return four grades of scores with noise; the second query has one grade only."""
    noisy = scores + rng.normal(size=len(scores)) * scores.std()
    labels = np.digitize(noisy, np.quantile(noisy, [0.5, 0.8, 0.95]))
    labels[SIZE : 2 * SIZE] = 1
    return labels


def groups(labels: Array) -> Array:
    """Return the number of documents of every query."""
    return np.full(len(labels) // SIZE, SIZE)


def megabytes(entry: str) -> float:
    """Return an entry of /proc/self/status in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) / 1024
    return float("nan")


def child_csr(name: str, n_docs: int) -> float:
    """Return the growth of the peak during training, relative to the matrix."""
    make = RANKERS[name]
    X, labels = csr(10 * SIZE, 1000, 100)
    make().fit(X, labels, group=groups(labels))  # compiles
    X, labels = csr(n_docs, 1000, 100)
    data = RankingData.from_arrays(X, labels, group=groups(labels))
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = megabytes("VmRSS")
    make().fit(data)
    return (megabytes("VmHWM") - before) / size


def child_mapped(name: str, n_docs: int) -> float:
    """Return what numpy allocates at most during training, relative to the mapped matrix."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, (n_docs, 100))
        X[:] = rng.random(X.shape, dtype=np.float32)
        labels = grades(X @ rng.normal(size=100).astype(np.float32), rng)
        make = RANKERS[name]
        make().fit(X[: 10 * SIZE], labels[: 10 * SIZE], group=[SIZE] * 10)
        data = RankingData.from_arrays(np.load(path, mmap_mode="r"), labels, group=groups(labels))
        tracemalloc.start()
        make().fit(data)
        return tracemalloc.get_traced_memory()[1] / X.nbytes


def in_child(kind: str, name: str, n_docs: int, source: Path | None) -> float:
    """Run one measurement in a process of its own, with the package from ``source`` if that is given."""
    command = [sys.executable, __file__, "--child", kind, name, "--docs", str(n_docs)]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(json.loads(done.stdout.splitlines()[-1]))


def compare(title: str, kind: str, names: Sequence[str], n_docs: int, before: Path | None) -> None:
    """Print a line for every ranker."""
    print(title)
    for name in names:
        found = in_child(kind, name, n_docs, None)
        then = "" if before is None else f"   before {in_child(kind, name, n_docs, before):5.2f}×"
        says = "holds" if found <= CLAIM else "DOES NOT HOLD"
        print(f"  {name:32s}{then}   {found:5.2f}× (claim ≤ {CLAIM}): {says}", flush=True)


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=400_000)
    parser.add_argument("--before", type=Path, help="src folder of another version to measure too")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # passes and epochs are few on purpose
    if args.child:
        kind, name = args.child
        print(json.dumps((child_csr if kind == "csr" else child_mapped)(name, args.docs)))
        return
    if Path("/proc/self/clear_refs").exists():
        title = f"CSR, {args.docs:,} × 1,000, one query without an order: growth of the peak"
        compare(title, "csr", list(RANKERS), args.docs, args.before)
    else:
        print("peak memory: measured on Linux only")
    title = f"mapped, {args.docs:,} × 100 float32, one query without an order: allocated by numpy"
    compare(title, "mapped", MAPPED, args.docs, args.before)


if __name__ == "__main__":
    main()
