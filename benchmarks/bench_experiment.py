"""How long an experiment takes that gains one measure: 6 methods × 3 data sets × 5 folds, nothing trained again.

Usage: python benchmarks/bench_experiment.py [queries of a data set, default 1000]

The data are made up, with the sizes of LETOR's: 1000 queries of 40 documents and 46 features. The first run trains;
then a measure is added to the file, and the experiment is run again as `rankwright experiment run` does, with the
table that it shows at the end. The target is less than 5 seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rankwright import RankingData
from rankwright.experiments import run_experiment
from rankwright.io.letor import write_letor

METHODS = {
    "one": ("feature:1", ""),
    "two": ("feature:2", ""),
    "best": ("best-feature", ""),
    "svm": ("rank-svm", "C = 1"),
    "svm-map": ("svm-map", "C = 1, max_passes = 20"),
    "trees": ("lambdamart", "n_trees = 20, max_leaves = 8"),
}
FEATURES, DOCUMENTS = 46, 40


def made(seed: int, queries: int) -> RankingData:
    """Queries whose labels follow two features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((queries * DOCUMENTS, FEATURES)).astype(np.float32).round(4)
    goal = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=len(X))
    labels = np.digitize(goal, np.quantile(goal, [0.8, 0.95]))
    qid = np.repeat([f"{seed}-{q}" for q in range(queries)], DOCUMENTS)
    return RankingData.from_arrays(X, labels, qid, doc_ids=[f"d{row}" for row in range(len(X))])


def main(queries: int) -> None:
    """Train once, add a measure, and print the seconds of both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(3):
            write_letor(made(seed, queries), folder / f"data{seed}.txt")
        data = "".join(f'[[data]]\nname = "data{seed}"\nfeatures = "data{seed}.txt"\n' for seed in range(3))
        methods = "".join(
            f'[[method]]\nname = "{label}"\nmethod = "{method}"\n' + (f"parameters = {{ {own} }}\n" if own else "")
            for label, (method, own) in METHODS.items()
        )
        for measures in ('["AP", "nDCG@10", "RR", "P@10"]', '["AP", "nDCG@10", "RR", "P@10", "ERR@20"]'):
            text = f'[experiment]\nmeasures = {measures}\n{data}[protocol]\nkind = "folds"\n{methods}'
            (folder / "exp.toml").write_text(text)
            began = time.perf_counter()
            results = run_experiment(folder / "exp.toml")
            ran = time.perf_counter() - began
            results.table("means")
            shown = time.perf_counter() - began - ran
            cells = results.manifest["sessions"]
            print(
                f"{measures}: {ran:.2f} s, and {shown:.2f} s for the table; {[s['cells'] for s in cells]} cells trained"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
