"""Claim: every method trains from a mapped folder with private memory of a quarter of the features, same model.

Data: 400,000 documents × 136 float32 (218 MB), queries of 100, every 50th without an order; written as a folder, which
`read_data` maps. For each method of `training/methods.py`, in a process of its own:

1. What is needed is compiled on a few documents.
2. RLIMIT_DATA is set to what the process holds plus a quarter of X: private memory, in which mapped files do not count.
3. The method is trained from the folder with few rounds, the documents are scored, and nDCG@10 is computed.
4. In another process, without a limit, the same from arrays in memory: the model files must be the same bytes.

`most` is the largest growth of anonymous memory that was seen, relative to X. Methods that cannot do it must say so in
one line. ``--pressure`` runs the first process in a memory cgroup of half of X and what an empty process
takes, page cache included, where one can be made; pages of the map are then read again and again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import InputError, RankingData, evaluate, read_data
from rankwright.io.folder import load_folder, save_folder
from rankwright.training.methods import METHODS, parse_method

N_FEATURES, SIZE, BARE = 136, 100, 50
QUARTER = 4
_PROCESS = 260 << 20  # bytes that Python, numba and compiled code take, under pressure
FEW: dict[str, dict[str, Any]] = {
    "StructuredSVM": {"C": 0.1, "max_passes": 4},
    "RankingSVM": {"C": 0.01, "max_passes": 4},
    "AccuracySVM": {"C": 0.1, "max_iter": 3},
    "RankNet": {"epochs": 2},
    "LambdaRank": {"epochs": 2},
    "LambdaBoost": {"n_rounds": 5},
    "LambdaMART": {"n_trees": 3, "max_leaves": 31},
    "McRank": {"n_trees": 2},
    "AutoRanker": {"members": ["svm-map", "rank-svm"]},  # all others have lines of their own
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rank-svm, C by cv": ("rank-svm", {"C": "auto", "C_grid": [0.01], "cv": "auto"}),
    "lambdarank, cv": ("lambdarank", {"cv": "auto"}),
    "lambdaboost, cv": ("lambdaboost", {"cv": "auto"}),
    "lambdamart, cv": ("lambdamart", {"cv": "auto"}),
    "lambdamart, rows drawn": ("lambdamart", {"tree_rows": 0.5}),
}


def make(path: Path, n_docs: int) -> None:
    """Write data whose grades follow a hidden direction plus noise, a chunk at a time."""
    rng = np.random.default_rng(0)
    X = np.empty((n_docs, N_FEATURES), np.float32)
    for start in range(0, n_docs, 1 << 14):
        X[start : start + (1 << 14)] = rng.gamma(1.0, size=X[start : start + (1 << 14)].shape)
    scores = X @ rng.normal(size=N_FEATURES).astype(np.float32)
    noisy = scores + rng.normal(size=n_docs) * scores.std()
    labels = np.digitize(noisy, np.quantile(noisy, [0.5, 0.7, 0.85, 0.95])).astype(np.float64)
    labels[np.arange(n_docs) // SIZE % BARE == 0] = 1.0
    save_folder(RankingData.from_arrays(X, labels, group=np.full(n_docs // SIZE, SIZE)), path)


def ranker_of(name: str) -> Any:
    """Return the estimator of a method or variant, with few rounds."""
    method, settings = VARIANTS.get(name, (name, {}))
    kind = parse_method(method)
    return kind.make(**FEW[kind.kind] | settings)


def anonymous() -> int:
    """Return bytes of private memory in use."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) << 10
    return 0


def private() -> int:
    """Return bytes of private memory that RLIMIT_DATA counts."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData"):
            return int(line.split()[1]) << 10
    return 0


@contextmanager
def watched() -> Iterator[list[int]]:
    """Look at the memory in use every few milliseconds; the list holds the largest growth."""
    began, most, over = anonymous(), [0], threading.Event()

    def look() -> None:
        while not over.wait(0.004):
            most[0] = max(most[0], anonymous() - began)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def train(name: str, data: Any, target: Path) -> float:
    """Train, save, score; return nDCG@10."""
    ranker = ranker_of(name)
    ranker.fit(data)
    ranker.save(target)
    return evaluate(data, ranker.predict(data), measures=["nDCG@10"]).means["nDCG@10"]


def child(name: str, path: Path, mapped: bool, share: float) -> dict[str, Any]:
    """Train in this process and say how it went."""
    warnings.simplefilter("ignore")
    whole = load_folder(path)
    few = whole.select(np.arange(60))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.rkw"
        train(name, few, target)  # compiles
        _ = np.ones((600, 600)) @ np.ones((600, 600))  # OpenBLAS takes its buffers, whatever the data
        data = read_data(path) if mapped else load_folder(path, mmap=False)
        if mapped and share:
            most = private() + int(share * data.X.nbytes) + (8 << 20)  # and the stack of the thread that watches
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        began = time.process_time()
        with watched() as grown:
            try:
                value = train(name, data, target)
            except InputError as error:
                return {"said": str(error)}
            except MemoryError as error:
                return {"died": f"MemoryError {error}"}
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        return {"model": digest, "value": value, "most": grown[0] / data.X.nbytes, "cpu": time.process_time() - began}


def in_child(name: str, path: Path, mapped: bool, share: float, group: Path | None = None) -> dict[str, Any]:
    """Run one training in a process of its own, in a memory cgroup if one is given."""
    command = [sys.executable, __file__, "--child", name, str(path), str(int(mapped)), str(share)]

    def enter() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    done = subprocess.run(command, capture_output=True, check=False, text=True, preexec_fn=enter)
    if done.returncode:
        return {"died": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def memory_group(limit: int) -> Iterator[Path | None]:
    """Make a memory cgroup inside of the one that this process is in; None where that is not allowed."""
    places = [line.strip().split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    group = None
    for _, controllers, place in places:
        if "memory" in controllers.split(","):
            group, file = Path(f"/sys/fs/cgroup/memory{place}") / "bench_past_memory", "memory.limit_in_bytes"
        elif not controllers and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            group, file = Path(f"/sys/fs/cgroup{place}") / "bench_past_memory", "memory.max"
    if group is not None:
        try:
            group.mkdir()
            (group / file).write_text(str(limit))
        except OSError as error:
            print(f"no memory cgroup here: {error}")
            with suppress(OSError):
                group.rmdir()
            group = None
    try:
        yield group
    finally:
        if group is not None:
            group.rmdir()


def forget(path: Path) -> None:
    """Drop the pages of a file, so that who reads it next is charged for them."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def hits(group: Path) -> str:
    """Return how often the limit of a group was met."""
    if (group / "memory.failcnt").exists():
        return (group / "memory.failcnt").read_text().strip()
    return (group / "memory.events").read_text().replace("\n", " ").strip()


def compare(name: str, path: Path, share: float, group: Path | None) -> bool:
    """Print one line for a method; whether the claim holds."""
    if group is not None:
        forget(path / "X.npy")
    found = in_child(name, path, True, share, group)
    if group is not None:
        print(f"  {name:24s} the limit of the group was met so far: {hits(group)}")
    if "said" in found:
        print(f"  {name:24s} says: {found['said']}", flush=True)
        return True
    if "died" in found:
        print(f"  {name:24s} DIED: {found['died']}", flush=True)
        return False
    plain = in_child(name, path, False, 0.0)
    same = plain.get("model") == found["model"]
    print(
        f"  {name:24s} most {found['most']:5.2f}× X   nDCG@10 {found['value']:.4f}   CPU {found['cpu']:6.1f} s"
        f"   in memory {plain.get('cpu', float('nan')):6.1f} s, {plain.get('most', float('nan')):5.2f}×"
        f"   {'same bytes' if same else 'OTHER BYTES'}",
        flush=True,
    )
    return same


def main() -> int:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=400_000)
    parser.add_argument("--share", type=float, default=1 / QUARTER, help="of X, the private memory; 0 for no limit")
    parser.add_argument("--only", nargs="*", help="methods")
    parser.add_argument("--pressure", action="store_true", help="in a memory cgroup of half of X")
    parser.add_argument("--folder", type=Path, help="where to write the data")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, path, mapped, share = args.child
        print(json.dumps(child(name, Path(path), mapped == "1", float(share))))
        return 0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "big.rank"
        make(path, args.docs // SIZE * SIZE)
        size = args.docs * N_FEATURES * 4
        print(f"{args.docs:,} × {N_FEATURES} float32, {size / 1e6:.0f} MB; limit {args.share * size / 1e6:.0f} MB")
        with memory_group(size // 2 + _PROCESS) if args.pressure else nullcontext() as group:
            fine = [compare(name, path, args.share, group) for name in args.only or [*METHODS, *VARIANTS]]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
