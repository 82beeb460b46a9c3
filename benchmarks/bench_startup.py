"""Claim: the kernels for one `train` take at most 15 CPU-seconds to compile, and later at most 1.5 to load.

A separate process reads a small LETOR file and trains SVMmap, twice. The extra cost of the first round is compiling, or
loading from numba's cache. The process runs once with an empty cache, then again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

CODE = """
import sys, time
from rankwright import StructuredSVM, read_letor
import rankwright.objectives.structured, rankwright.solvers.planes, rankwright.data.letor_kernel
costs = []
for _ in range(2):
    began = time.process_time()
    data = read_letor(sys.argv[1])
    StructuredSVM("map").fit(data)
    costs.append(time.process_time() - began)
print(costs[0] - costs[1])
"""


def main() -> None:
    """Run the process twice."""
    print(f"numba {version('numba')}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data.txt")
        rows = [f"{i % 3} qid:{i // 10} 1:{i % 3} 2:{i * 37 % 11} 3:0.{i}" for i in range(100)]
        file.write_text("\n".join(rows))
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder, "cache"))}
        for when, limit in (("first process (compiling)", 15.0), ("later process (from the cache)", 1.5)):
            done = subprocess.run(
                [sys.executable, "-c", CODE, str(file)], env=environment, capture_output=True, text=True, check=True
            )
            seconds = float(done.stdout)
            verdict = "holds" if seconds <= limit else "DOES NOT HOLD"
            print(f"  {when}: {seconds:.1f} CPU s for the kernels; claim: at most {limit:g}: {verdict}")


if __name__ == "__main__":
    main()
