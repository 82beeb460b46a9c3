"""Which settings of LambdaMART hold everywhere: gain, the two factors of the gradients, leaves, fewest rows.

Every setting is trained on every data set, with the number of trees (up to 300, learning rate 0.1) chosen on
validation data, and measured by nDCG@10 on test data. Real data: all of `study_ramp`, the sample of MSLR-WEB10K and
LightGBM's ranking sample; the large collections with fewer folds. Synthetic data: `bench_lambda_mart`, 60,000 and
240,000 documents, 500 queries each to validate and to test. One line of JSON per data set and setting goes to a file,
from which an interrupted study goes on and the tables are made:

    python benchmarks/study_tree_defaults.py DATA results.jsonl
    python benchmarks/study_tree_defaults.py DATA results.jsonl --only "MQ2008; OHSUMED" --settings "paper; newton, 10"

Settings are named by gain and factors, leaves and fewest rows (20 if not named). Differences are from `paper, 20`
(squared error, no factors, 20 leaves); *error* is the standard error of one over queries, the mean of all settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_lambda_mart import SIZE, make
from rankwright import LambdaMART, RankingData, evaluate
from study_data import Fold, short, signed, table
from study_lambda_mart import mslr_folds
from study_ramp import every_fold, random_folds

Array = npt.NDArray[Any]
CHOOSE = "nDCG@10"
KINDS: dict[str, dict[str, Any]] = {
    "paper": {"gain": "squared", "normalize_queries": False, "nearness": 0.0},
    "newton": {"gain": "newton", "normalize_queries": False, "nearness": 0.0},
    "normal": {"gain": "newton", "normalize_queries": True, "nearness": 0.0},
    "near .01": {"gain": "newton", "normalize_queries": True, "nearness": 0.01},
    "near .03": {"gain": "newton", "normalize_queries": True, "nearness": 0.03},
    "near .1": {"gain": "newton", "normalize_queries": True, "nearness": 0.1},
    "near 1": {"gain": "newton", "normalize_queries": True, "nearness": 1.0},
}
BASE = "paper, 20"
SETTINGS = (
    BASE,
    *(f"{kind}, 10" for kind in KINDS),
    *(f"near .03, {rest}" for rest in ("5", "20", "31", "10, 5", "10, 50", "10, 100")),
)
FOLDS = {"cran": 1, "npl": 1, "demo": 1, "cisi": 2, "cacm": 2, "MQ2007": 2}  # of the large data sets
SYNTHETIC = {"synthetic 60,000": 60_000, "synthetic 240,000": 240_000}
HELD_OUT = 500  # queries


def main() -> int:
    """Train what is missing in the file of results, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="data folder")
    parser.add_argument("results", type=Path, help="file of results, which is continued")
    parser.add_argument("--only", help="data sets, separated by semicolons")
    parser.add_argument("--settings", help="settings, separated by semicolons")
    args = parser.parse_args()
    found = _read(args.results)
    names = _listed(args.settings) or SETTINGS
    for data, folds in _every_fold(args.data, _listed(args.only)).items():
        for name in names:
            if (data, name) not in found:
                found[data, name] = _run(data, folds()[: FOLDS.get(data)], name)
                with args.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found[data, name]) + "\n")
    print(_tables(found))
    return 0


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(";")]


def _read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(row["data"], row["settings"]): row for row in map(json.loads, lines)}


# Data


def _every_fold(root: Path, only: Sequence[str] | None) -> dict[str, Callable[[], list[Fold]]]:
    """Return the data sets, the small ones first; real ones are read at once if any is wanted."""
    folds: dict[str, Callable[[], list[Fold]]] = {}
    if only is None or set(only) - set(SYNTHETIC):
        real = every_fold(root)
        real["MSLR sample"] = mslr_folds(root)
        real["LightGBM sample"] = random_folds(_lightgbm_sample(root / "lightgbm_rank"))
        sizes = {data: sum(train.n_docs for train, _, _ in parts[: FOLDS.get(data)]) for data, parts in real.items()}
        folds = {data: partial(list, real[data]) for data in sorted(real, key=sizes.__getitem__)}
    folds |= {data: partial(_synthetic, n) for data, n in SYNTHETIC.items()}
    return {data: parts for data, parts in folds.items() if only is None or data in only}


def _synthetic(n_docs: int) -> list[Fold]:
    X, y = make(n_docs + 2 * HELD_OUT * SIZE)
    bounds = [0, n_docs, n_docs + HELD_OUT * SIZE, len(y)]
    train, valid, test = (
        RankingData.from_arrays(X[start:stop], y[start:stop], np.arange(stop - start) // SIZE)
        for start, stop in pairwise(bounds)
    )
    return [(train, valid, test)]


def _lightgbm_sample(folder: Path) -> RankingData:
    """Read both files together; they have no query ids, but a file with the sizes of the queries."""
    rows, labels, sizes = [], [], []
    for part in ("train", "test"):
        with gzip.open(folder / f"rank.{part}.gz", "rt") as file:
            for line in file:
                label, *features = line.split()
                labels.append(float(label))
                rows.append({int(name): float(value) for name, value in (one.split(":") for one in features)})
        sizes += list(map(int, (folder / f"rank.{part}.query").read_text().split()))
    X = np.zeros((len(rows), 1 + max(max(row, default=0) for row in rows)), np.float32)
    for i, row in enumerate(rows):
        X[i, list(row)] = list(row.values())
    return RankingData.from_arrays(X, np.array(labels), np.repeat(np.arange(len(sizes)), sizes))


# Training


def _parameters(name: str) -> dict[str, Any]:
    kind, leaves, *rows = name.split(", ")
    return KINDS[kind] | {"max_leaves": int(leaves), "min_rows": int(rows[0]) if rows else 20}


def _run(data: str, folds: Sequence[Fold], name: str) -> dict[str, Any]:
    values: list[float] = []
    trees = []
    began = time.process_time()
    for train, valid, test in folds:
        ranker = LambdaMART(300, patience=50, **_parameters(name)).fit(train, eval_set=valid)
        trees.append(ranker.n_trees_)
        values += evaluate(test, ranker.predict(test), measures=[CHOOSE]).column(CHOOSE).tolist()
    row = {"data": data, "settings": name, "trees": trees, "seconds": time.process_time() - began, "values": values}
    print(f"{data}, {name}: {np.nanmean(values):.4f}, trees {trees}", file=sys.stderr, flush=True)
    return row


# Tables


def _tables(found: dict[tuple[str, str], dict[str, Any]]) -> str:
    """A row for every data set: the value of the base, and the differences of the others from it."""
    sets = list(dict.fromkeys(data for data, _ in found))
    names = [name for name in SETTINGS if name != BASE and any((data, name) in found for data in sets)]
    rows = [_row(found, data, names) for data in sets]
    real = [data for data in sets if data not in SYNTHETIC]
    everywhere = {name: [_apart(found, data, name).mean() for data in real if (data, name) in found] for name in names}
    means = [f"{signed(float(np.mean(each)))} ± {short(_error(np.array(each)))}" for each in everywhere.values()]
    above = [f"{sum(one > 0 for one in each)} of {len(each)}" for each in everywhere.values()]
    rows += [["mean of real data", "", "", *means, ""], ["above", "", "", *above, ""]]
    return table(["data", "queries", BASE, *names, "error"], rows)


def _row(found: dict[tuple[str, str], dict[str, Any]], data: str, names: Sequence[str]) -> list[str]:
    known = {name: _apart(found, data, name) for name in names if (data, name) in found}
    base = np.asarray(found[data, BASE]["values"])
    cells = [signed(float(known[name].mean())) if name in known else "" for name in names]
    error = float(np.mean([_error(one) for one in known.values()]))
    return [data, str(len(base)), short(float(np.nanmean(base))), *cells, short(error)]


def _error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _apart(found: dict[tuple[str, str], dict[str, Any]], data: str, name: str) -> Array:
    apart = np.asarray(found[data, name]["values"]) - np.asarray(found[data, BASE]["values"])
    return apart[~np.isnan(apart)]


if __name__ == "__main__":
    sys.exit(main())
