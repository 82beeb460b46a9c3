"""A process that compiles the kernels and one that loads them from the cache train the same weights, bit for bit.

The kernels whose sums may be reordered are those of a pass over the data and of the problem over the planes. Here they
are compiled once more, which takes about 13 seconds of CPU time. `benchmarks/study_reproducible.py` does the same for
every method.
"""

import os
import subprocess
import sys

TRAINING = """
import numpy as np
from rankwright.measures.base import Oracle, read_only
from rankwright.measures.oracles.pairs import pairs
from rankwright.maxmargin.hinge import StructuredHinge, equal_blocks
from rankwright.maxmargin.bundle import solve
from rankwright.maxmargin.bundle import PlaneBook

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 20))
labels = read_only((X @ rng.normal(size=20) + 2.0 * rng.normal(size=600) > 0).astype(float))
oracle = Oracle(pairs, lambda longest: read_only(np.array([2.0, 0.0, 0.0, 1.0, 0.0])), "pairs")
indptr = np.arange(0, 601, 20)
hinge = StructuredHinge(X, np.arange(600), labels, indptr, oracle, np.full(30, 0.01), np.ones(20), equal_blocks(30, 30))
found = solve(hinge, PlaneBook(30, 16, 20), tol=1e-6, max_passes=100)
print(len(found.path), found.w.tobytes().hex())
"""


def test_compiled_and_loaded_code_train_the_same_weights(tmp_path):
    def trained():
        command = [sys.executable, "-c", TRAINING]
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        made = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        return made.stdout, {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")}

    compiled, kept = trained()
    loaded, still_kept = trained()
    assert kept
    assert still_kept == kept  # nothing was compiled again
    assert int(compiled.split()[0]) > 5
    assert loaded == compiled
