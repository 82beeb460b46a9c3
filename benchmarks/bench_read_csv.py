"""Claims about reading features from CSV.

1. A million rows of five columns are read at least ten times as fast as by the reader of rows, which is in Python.
2. That takes at most four times the CPU time of pandas, which only makes a data frame of them.

Writes random tables (fixed seed): a narrow one, one with quoted ids and a column of categories, and a wide one. All
readers read them in the same run, in turn; CPU times are the best of several.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba  # noqa: F401 - loaded by whatever trains
import numpy as np
import pandas as pd

from rankwright.io import csv

NEVER = 1 << 62


def write_tables(folder: Path, n_rows: int, seed: int = 0) -> dict[str, Path]:
    """Write the tables; about as many cells in each."""
    rng = np.random.default_rng(seed)
    qid = np.sort(rng.integers(0, n_rows // 50, n_rows)).tolist()
    grade, count = rng.integers(0, 5, n_rows).tolist(), rng.integers(0, 1000, n_rows).tolist()
    share, score = rng.random(n_rows).tolist(), (100 * rng.normal(size=n_rows)).tolist()
    rows = list(zip(qid, grade, share, score, count, strict=True))
    colours = ("red", "green", "blue, light", "")
    tables = {name: folder / f"{name}.csv" for name in ("narrow", "texts", "wide")}
    with tables["narrow"].open("w") as file:
        file.write("query_id,grade,share,score,count\n")
        file.writelines(f"q{q},{y},{a:.5f},{b:.4g},{c}\n" for q, y, a, b, c in rows)
    with tables["texts"].open("w") as file:
        file.write("query_id,grade,doc_id,colour,score\n")
        file.writelines(f'"q{q}",{y},d{n},"{colours[c % 4]}",{b:.4g}\n' for n, (q, y, _, b, c) in enumerate(rows))
    n_wide = n_rows // 20
    with tables["wide"].open("w") as file:
        file.write("query_id,grade," + ",".join(f"f{j}" for j in range(98)) + "\n")
        for q, y in zip(qid[:n_wide], grade, strict=False):
            file.write(f"q{q},{y}," + ",".join(f"{x:.6g}" for x in rng.normal(size=98).tolist()) + "\n")
    return tables


def read_rows(path: Path) -> Any:
    """Read with the reader of rows in Python."""
    kept = csv._LARGE_IF_LOADED
    csv._LARGE_IF_LOADED = NEVER
    try:
        return csv.read_csv(path)
    finally:
        csv._LARGE_IF_LOADED = kept


def best_in_turn(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Best CPU seconds of several runs in turn, after one to warm up."""
    best = dict.fromkeys(actions, float("inf"))
    for number in range(repeats + 1):
        for name, action in actions.items():
            began = time.process_time()
            action()
            if number:
                best[name] = min(best[name], time.process_time() - began)
    return best


def check_same(path: Path) -> None:
    """Both readers must find the same data."""
    one, other = csv.read_csv(path), read_rows(path)
    np.testing.assert_array_equal(one.X, other.X)
    assert one.labels.tolist() == other.labels.tolist()
    assert one.qid.tolist() == other.qid.tolist()


def main() -> None:
    """Print CPU times, and whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write_tables(Path(folder), options.rows).items():
            check_same(path)
            actions: dict[str, Callable[[], Any]] = {
                "rankwright": partial(csv.read_csv, path),
                "reader of rows": partial(read_rows, path),
                "pandas": partial(pd.read_csv, path),
            }
            found = best_in_turn(actions, options.repeats)
            print(f"{name}: {path.stat().st_size / 1e6:.0f} MB")
            for what, seconds in found.items():
                print(f"  {what:<15} {seconds:6.3f} CPU s")
            ours, slow, theirs = found.values()
            print(
                f"  {slow / ours:.1f} times as fast as the reader of rows, {ours / theirs:.1f} times the time of pandas"
            )
            if name == "narrow":
                holds = slow >= 10 * ours and ours <= 4 * theirs
                print(f"  claim: at least 10 and at most 4: {'holds' if holds else 'DOES NOT HOLD'}")


if __name__ == "__main__":
    main()
