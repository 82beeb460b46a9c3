"""Neighbour augmentation of a million background documents against ten thousand in-domain ones, in bounded memory.

Prints the time and the memory used on top of the data.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from importlib.metadata import version

import numpy as np

from rankwright import RankingData, augment


def make(n_docs: int, size: int, seed: int) -> RankingData:
    """Draw features around 200 centres, so that some documents are close to each other; five grades."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(200, 46))
    n_docs -= n_docs % size
    X = (centres[rng.integers(0, 200, n_docs)] + 0.5 * rng.normal(size=(n_docs, 46))).astype(np.float32)
    qid = np.repeat(np.arange(n_docs // size) + 10**6 * seed, size)
    return RankingData.from_arrays(X, rng.choice(5, n_docs, p=[0.5, 0.25, 0.15, 0.07, 0.03]), qid)


def main() -> None:
    """Run the augmentation once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=10_000)
    args = parser.parse_args()
    background, in_domain = make(args.rows, 100, 1), make(args.seeds, 50, 2)
    print(f"numpy {version('numpy')}; {background.n_docs:,} × 46 float32 against {in_domain.n_docs:,}")
    tracemalloc.start()
    began, cpu = time.perf_counter(), time.process_time()
    found = augment(background, in_domain, share=1.0)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    _, peak = tracemalloc.get_traced_memory()
    print(f"  {seconds:.1f} s ({cpu:.1f} CPU s), {peak / 2**20:.0f} MB on top of the data")
    print(f"  {found}")


if __name__ == "__main__":
    main()
