"""Claims about reading LETOR text.

1. It is read at 150 MB or more per CPU-second, with little memory on top of the features.
2. Two threads on two cores are 1.7 times as fast as one. Where cores are shared, or are two threads of one core, the
   claim is relative: to what the parser alone gains from a second thread, without any reading and joining.
3. Reading gzip takes no longer than zlib takes to unpack it, as another thread does that. Where cores are shared, CPU
   times of the threads tell: neither of the two works longer than zlib alone.

Writes random lines like MSLR-WEB's (136 features, integers and six-decimal numbers, fixed seed) and reads them with
Rankwright, first with the kernels still to compile, then compiled. scikit-learn reads part of them in the same run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from sklearn.datasets import load_svmlight_file

from rankwright.io.kernels import LineParser
from rankwright.io.letor import read_letor, read_letor_labels, write_letor

N_FEATURES = 136
DOCS_PER_QUERY = 120


def write_lines(path: Path, megabytes: float, seed: int = 0) -> None:
    """Write about that many megabytes of lines like those of MSLR-WEB."""
    rng = np.random.default_rng(seed)
    is_count = rng.random(N_FEATURES) < 0.6
    template = "{} qid:{} " + " ".join(f"{j + 1}:%{'d' if is_count[j] else '.6f'}" for j in range(N_FEATURES)) + " \n"
    size = query = 0
    with path.open("w") as file:
        while size < megabytes * 1e6:
            query += 1
            scale = np.where(is_count, 10.0 ** rng.integers(0, 4, N_FEATURES), 10.0 ** rng.integers(-1, 3, N_FEATURES))
            X = rng.exponential(scale, (DOCS_PER_QUERY, N_FEATURES))
            X[rng.random(X.shape) < 0.3] = 0
            labels = rng.choice(5, DOCS_PER_QUERY, p=[0.52, 0.32, 0.13, 0.02, 0.01])
            rows = zip(labels.tolist(), X.tolist(), strict=True)
            text = "".join(template.format(label, query) % tuple(row) for label, row in rows)
            file.write(text)
            size += len(text)


def cpu_seconds(action: Callable[[], Any], repeats: int) -> float:
    """Return the best CPU time of several runs."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measure_alone(path: Path, warm_up: Path) -> None:
    """In a separate process: print CPU seconds of the first two reads, peak memory on top of X, and the bytes of X."""
    start = time.process_time()
    read_letor(warm_up)
    first = time.process_time() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    data = read_letor(path)
    rest = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    print(
        json.dumps({"first": first, "rest": rest, "extra": (after - before) * unit - data.X.nbytes, "X": data.X.nbytes})
    )


def in_a_process(path: Path, warm_up: Path, cache: Path) -> dict[str, float]:
    """Run :func:`measure_alone` with numba's cache in the given folder."""
    command = [sys.executable, __file__, "--alone", str(path), str(warm_up)]
    done = subprocess.run(
        command, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, check=True, stdout=subprocess.PIPE
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def best_seconds(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the best wall times of several alternating runs."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(repeats):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def unpack(path: Path) -> None:
    """Unpack a gzip file with zlib, and forget the content."""
    unpacker = zlib.decompressobj(31)
    with path.open("rb") as file:
        while piece := file.read(1 << 19):
            unpacker.decompress(piece)


def kernel_alone(path: Path, threads: int, n_chunks: int = 48) -> None:
    """Parse one chunk over and over, in threads that share nothing."""
    text = path.open("rb").read(1 << 20)
    text = text[: text.rfind(b"\n") + 1]

    def parse(_: int) -> None:
        parser = LineParser(np.dtype(np.float32), None, 0.0)
        for _ in range(n_chunks // threads):
            parser.parse(text)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(parse, range(threads)))


def thread_seconds(path: Path, threads: int, repeats: int) -> tuple[float, float]:
    """Return the CPU seconds of the calling thread and of all others while a file is read, where their sum is least."""
    found = []
    for _ in range(repeats):
        own, whole = time.thread_time(), time.process_time()
        read_letor(path, n_jobs=threads)
        own = time.thread_time() - own
        found.append((time.process_time() - whole, own))
    total, own = min(found)
    return own, total - own


def compare_threads(path: Path, packed: Path, repeats: int) -> None:
    """Check claims 2 and 3."""
    one, two = read_letor(path), read_letor(path, n_jobs=2)
    same = one.X.tobytes() == two.X.tobytes() == read_letor(packed, n_jobs=2).X.tobytes()
    best = best_seconds(
        {
            "one": lambda: read_letor(path),
            "two": lambda: read_letor(path, n_jobs=2),
            "kernel, one": lambda: kernel_alone(path, 1),
            "kernel, two": lambda: kernel_alone(path, 2),
            "gzip": lambda: read_letor(packed),
            "gzip, two": lambda: read_letor(packed, n_jobs=2),
            "zlib": lambda: unpack(packed),
        },
        repeats,
    )
    gain, most = best["one"] / best["two"], best["kernel, one"] / best["kernel, two"]
    print(f"two threads, same bits: {same}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"  wall time: {gain:.2f}× as fast as one; the parser alone: {most:.2f}×; ratio {gain / most:.2f}")
    alone = thread_seconds(path, 1, repeats)[0]
    own, others = thread_seconds(path, 2, repeats)
    print(f"  CPU: one thread {alone:.3f} s; two parsers {others / 2:.3f} s each, reading and joining {own:.3f} s")
    ideal = alone / max((own + others) / 2, own)
    print(f"  so {ideal:.2f}× on two cores of their own (claim ≥ 1.7)")
    ratios = [best[name] / best["zlib"] for name in ("gzip", "gzip, two")]
    print(f"gzip, wall time: {ratios[0]:.2f}× that of zlib, with two parsers {ratios[1]:.2f}×")
    unpacking = cpu_seconds(lambda: unpack(packed), repeats)
    own, others = thread_seconds(packed, 1, repeats)
    print(f"  CPU: zlib alone {unpacking:.3f} s; the thread that unpacks {others:.3f} s, the other one {own:.3f} s")
    print(f"  so {max(own, others) / unpacking:.2f}× zlib on two cores of their own (claim ≤ 1, up to noise)")


def main() -> None:
    """Write the file, read it in every way and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100, help="size of the file (default 100)")
    parser.add_argument("--peer-megabytes", type=float, default=10, help="size scikit-learn reads (default 10)")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the best counts (default 5)")
    parser.add_argument("--alone", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        measure_alone(*options.alone)
        return
    print(f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, ", end="")
    print(f"numba {numba.__version__}, scikit-learn {sklearn.__version__}, {platform.machine()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, part, line = folder / "all.txt", folder / "part.txt", folder / "line.txt"
        write_lines(path, options.megabytes)
        write_lines(part, min(options.peer_megabytes, options.megabytes))
        line.write_text("1 qid:1 1:0.5\n")
        megabytes, part_megabytes = path.stat().st_size / 1e6, part.stat().st_size / 1e6

        alone = in_a_process(path, line, folder / "cache")
        again = in_a_process(path, line, folder / "cache")
        print(
            f"first read of one line: {alone['first']:.1f} s CPU to compile, {again['first']:.1f} s from numba's cache"
        )
        data = read_letor(path)
        print(f"{megabytes:.0f} MB: {data}")
        warm = megabytes / cpu_seconds(lambda: read_letor(path), options.repeats)
        cold = megabytes / (alone["first"] + alone["rest"])
        print(f"read_letor: {warm:.0f} MB per CPU-second ({cold:.0f} including compilation)")
        peer = part_megabytes / cpu_seconds(
            lambda: load_svmlight_file(str(part), dtype=np.float32, query_id=True), options.repeats
        )
        peer_name = f"scikit-learn's load_svmlight_file, {part_megabytes:.0f} MB"
        print(f"{peer_name}: {peer:.1f} MB per CPU-second; ratio {warm / peer:.1f}")
        print(f"memory on top of the features: {again['extra'] / again['X']:.2f} × their {again['X'] / 1e6:.0f} MB")
        packed = folder / "all.txt.gz"
        packed.write_bytes(gzip.compress(path.read_bytes(), 6))
        compare_threads(path, packed, options.repeats)
        labels = megabytes / cpu_seconds(lambda: read_letor_labels(path), options.repeats)
        print(f"read_letor_labels: {labels:.0f} MB per CPU-second")
        written = folder / "written.txt"
        seconds = cpu_seconds(lambda: write_letor(data, written), 1)
        print(f"write_letor: {written.stat().st_size / 1e6 / seconds:.0f} MB per CPU-second")


if __name__ == "__main__":
    main()
