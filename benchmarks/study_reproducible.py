"""Claim: a process that compiles the kernels and one that loads them from the cache train the same model, bit for bit.

Every method is trained on made-up queries in processes of their own: the first with an empty cache of compiled code,
the others with what it left, in another order and with another number of threads.

    python benchmarks/study_reproducible.py
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from rankwright import RankingData, train
from rankwright.training.methods import METHODS, NAMES

FEW = {"n_trees": 10, "n_rounds": 20, "epochs": 3}
NEEDED = {"svm-combo": {"losses": ["auc", "map"]}}


def hashes(names: list[str], n_jobs: int) -> dict[str, str]:
    """A hash of the scores that each method gives its own training data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    labels = np.digitize(X @ rng.normal(size=20) + 2.0 * rng.normal(size=len(X)), [0.0, 3.0])
    data = RankingData.from_arrays(X, labels, group=[50] * 60)
    found = {}
    for name in names:
        known = METHODS[name].defaults()
        settings = NEEDED.get(name, {}) | {key: value for key, value in FEW.items() if key in known}
        model = train(name, data, data, settings=settings, n_jobs=n_jobs).model
        found[name] = hashlib.sha256(model.predict(data).tobytes()).hexdigest()[:12]
    return found


def in_a_process(names: list[str], n_jobs: int, cache: str) -> dict[str, str]:
    """The hashes from a new process that keeps its compiled code in a folder."""
    command = [sys.executable, __file__, str(n_jobs), *names]
    made = subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, check=True, capture_output=True)
    found: dict[str, str] = json.loads(made.stdout)
    return found


def main() -> None:
    """Compare the processes, method by method."""
    if len(sys.argv) > 1:
        print(json.dumps(hashes(sys.argv[2:], int(sys.argv[1]))))
        return
    names = list(NAMES)
    with tempfile.TemporaryDirectory() as cache:
        cold = in_a_process(names, 1, cache)
        others = {
            "loaded": in_a_process(names, 1, cache),
            "loaded, last method first": in_a_process(names[::-1], 1, cache),
            "loaded, two threads": in_a_process(names, 2, cache),
        }
    for how, found in others.items():
        different = [name for name in names if found[name] != cold[name]]
        print(f"{how}: {len(names) - len(different)} of {len(names)} methods the same as compiled", *different)


if __name__ == "__main__":
    main()
