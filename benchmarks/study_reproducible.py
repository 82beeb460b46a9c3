"""Whether processes that compile the kernels or load them from the cache train the same models, bit for bit.

Every method is trained on made-up queries in processes of their own: the first with an empty cache of compiled code,
the others with what it left, in another order and with another number of threads. `--results FILE` writes the figures
as data.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import numpy as np

from figures import Table
from rankwright import RankingData, train
from rankwright.training.methods import METHODS, NAMES
from study_runs import Shown, run_study

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


def in_a_process(names: list[str], n_jobs: int) -> dict[str, str]:
    """The hashes from a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(hashes, names, n_jobs).result()


def pages(_: Path) -> Iterator[Shown]:
    """Compare the processes, method by method."""
    names = list(NAMES)
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, NUMBA_CACHE_DIR=cache):
        compiled = in_a_process(names, 1)
        others = {
            "loaded from the cache": in_a_process(names, 1),
            "loaded, last method first": in_a_process(names[::-1], 1),
            "loaded, two threads": in_a_process(names, 2),
        }
    yield {"methods": names}
    rows = []
    for how, found in others.items():
        different = [name for name in names if found[name] != compiled[name]]
        rows.append([how, len(names), len(names) - len(different), ", ".join(different)])
    yield Table("processes", ["process", "methods", "same as compiled", "different"], rows)


if __name__ == "__main__":
    run_study(__doc__, (), pages)
