"""What an engine adds to a call: a actors is asked for something that costs nothing, by every engine.

For 2 and 4 workers and three sizes of messages (bytes to each worker, and back from each): the least and the median
time of a pass, one message to every worker and all answers, and what it costs the driver. Claim: with Dask at most
10 ms for messages of up to 75 kB each way, which are 300 kB a pass with two workers.

    python benchmarks/bench_engines.py
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.cluster.cluster import Cluster
from rankwright.cluster.dataset import engine_of

Array = npt.NDArray[Any]
SIZES = (8, 75_000, 1_000_000)
CLAIM = 0.010  # seconds a pass
MOST_BYTES = 75_000  # a worker, of the claim
WARM = 10  # passes that are not counted


class Nothing:
    """A part without data."""

    def load(self) -> None:
        """Nothing to load."""


class Echo:
    """Returns what it is sent."""

    def __init__(self, data: None, threads: int) -> None:
        pass

    def same(self, given: Any) -> Any:
        """Return it."""
        return given


def passes(cluster: Cluster, size: int, n: int) -> tuple[Array, float]:
    """Seconds of each of ``n`` passes, and the mean CPU seconds of this process."""
    actors = cluster.make(importlib.import_module("bench_engines").Echo)  # by a name that workers find, too
    given, seconds = np.zeros(size // 8), []
    for _ in range(WARM):
        actors.call("same", given)
    used = time.process_time()
    for _ in range(n):
        start = time.perf_counter()
        actors.call("same", given)
        seconds.append(time.perf_counter() - start)
    used = time.process_time() - used
    actors.close()
    return np.array(seconds), used / n


def main() -> None:
    """Measure all engines and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passes", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    columns = ("bytes a worker", "kB a pass", "least ms", "median ms", "driver CPU ms")
    print(f"{'engine':<16}" + "".join(f"{column:>16}" for column in columns))
    kept = True
    for n in options.workers:
        for name in ("local", f"processes:{n}", f"dask://local:{n}"):
            nothing = importlib.import_module("bench_engines").Nothing()
            cluster = Cluster(engine_of(name), [nothing] * n, [1] * n)
            for size in SIZES:
                seconds, used = passes(cluster, size, options.passes)
                travels = 0 if name == "local" else 2 * n * size / 1000
                times = 1e3 * seconds.min(), 1e3 * float(np.median(seconds)), 1e3 * used
                print(f"{name:<16}{size:>16,}{travels:>16,.0f}" + "".join(f"{value:>16.2f}" for value in times))
                if size <= MOST_BYTES and name.startswith("dask"):
                    kept &= bool(seconds.min() <= CLAIM)
            cluster.close()
    print(f"claim, at most {1e3 * CLAIM:.0f} ms a pass with Dask: {'holds' if kept else 'DOES NOT HOLD'} (least times)")
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()
