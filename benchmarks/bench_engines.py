"""What an engine adds to a call: a crew is asked for something that costs nothing, by every engine.

For 2 and 4 workers and three sizes of messages (bytes to each worker, and back from each): the least and the median
time of a pass, one message to every worker and all answers. Claim: with Dask at most 10 ms for messages of up to 75 kB,
which are 300 kB a pass with two workers. From that, the work at which a second worker pays: the seconds of a pass saved
by sharing it must exceed what the engine adds.

    python benchmarks/bench_engines.py [--passes 200] [--workers 2 4]
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

import numpy as np

from rankwright.engines.choice import engine_of
from rankwright.engines.fleet import Fleet

SIZES = (8, 75_000, 1_000_000)
CLAIM = 0.010  # seconds a pass
LEAST_BYTES, PAUSE = 75_000, 0.05  # of the claim; between two passes, so that the machine comes to rest


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


def passes(fleet: Fleet, size: int, n: int) -> np.ndarray[Any, Any]:
    """Seconds of each of ``n`` passes."""
    crew = fleet.make(importlib.import_module("bench_engines").Echo)  # by a name that workers find, too
    given, seconds = np.zeros(size // 8), []
    for _ in range(n + 5):
        start = time.perf_counter()
        crew.ask("same", given)
        seconds.append(time.perf_counter() - start)
        time.sleep(PAUSE if n > 20 else 0)
    crew.close()
    return np.array(seconds[5:])


def main() -> None:
    """Measure all engines and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    print(f"{'engine':<16}{'bytes a worker':>15}{'kB a pass':>11}{'least ms':>10}{'median ms':>11}")
    kept = True
    for n in options.workers:
        for name in ("local", f"processes:{n}", f"dask://local:{n}"):
            nothing = importlib.import_module("bench_engines").Nothing()
            fleet = Fleet(engine_of(name), [nothing] * n, [1] * n)
            for size in SIZES:
                seconds = passes(fleet, size, options.passes)
                travels = 0 if name == "local" else 2 * n * size / 1000
                least, median = 1e3 * seconds.min(), 1e3 * float(np.median(seconds))
                print(f"{name:<16}{size:>15,}{travels:>11,.0f}{least:>10.2f}{median:>11.2f}")
                if size <= LEAST_BYTES and "dask" in name:
                    kept &= bool(seconds.min() <= CLAIM)
            fleet.close()
    print(f"claim, at most {1e3 * CLAIM:.0f} ms a pass with Dask: {'holds' if kept else 'does not hold'} (least times)")
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()
