"""Claim: indexing is at least twice as fast as with bm25s, including tokenising.

The collection has 100,000 random documents of 100 words with natural (Zipfian) word frequencies, drawn from a fixed
seed. Both start from texts in memory. bm25s tokenises them without stemming or stop words and computes its scores in
memory; Rankwright writes a complete index to disk, with ids and texts, for the plain words or for all three analysers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import bm25s
import numpy as np

from rankwright.text.analysis.analyzers import BUILT_IN
from rankwright.text.index.index import build_index
from timing import best_cpu_seconds, report

N_WORDS = 200_000
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def make_texts(n_docs: int, n_tokens: int, seed: int = 0) -> list[str]:
    """Make texts of random words; frequent words are short, and a word's frequency is one over its rank."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(rng.poisson(2 + 0.55 * np.log1p(np.arange(N_WORDS))), 2, 20)
    letters = "".join(LETTERS[rng.integers(0, 26, int(sizes.sum()))])
    ends = np.cumsum(sizes)
    words = np.array(
        [letters[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)], object
    )
    chances = np.cumsum(1 / (np.arange(N_WORDS) + 2.7))
    texts = []
    for _ in range(n_docs):
        ranks = np.searchsorted(chances, rng.random(n_tokens) * chances[-1])
        texts.append(" ".join(words[ranks]).capitalize() + ".")
    return texts


def measure_alone(n_docs: int, n_tokens: int, folder: Path) -> None:
    """In a separate process: print the CPU seconds of a first, tiny index and the peak memory on top of the texts."""
    start = time.process_time()
    build_index([("a", "two words"), ("b", "deux mots, été")], folder / "tiny.index")
    first = time.process_time() - start
    documents = [(str(i), text) for i, text in enumerate(make_texts(n_docs, n_tokens))]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    build_index(documents, folder / "alone.index")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps({"first": first, "extra": (after - before) * unit}))


def in_a_process(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Run :func:`measure_alone` with numba's cache in the given folder."""
    command = [sys.executable, __file__, "--alone", str(folder)]
    command += ["--documents", str(options.documents), "--tokens", str(options.tokens)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Make the texts, index them in every way and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="number of documents (default 100,000)")
    parser.add_argument("--tokens", type=int, default=100, help="words per document (default 100)")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts (default 3)")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        measure_alone(options.documents, options.tokens, options.alone)
        return
    print(f"Python {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "PyStemmer", "bm25s")), platform.machine())
    texts = make_texts(options.documents, options.tokens)
    documents = [(str(i), text) for i, text in enumerate(texts)]
    megabytes = sum(map(len, texts)) / 1e6

    def peer() -> None:
        words = bm25s.tokenize(texts, stopwords=None, stemmer=None, show_progress=False)
        bm25s.BM25().index(words, show_progress=False)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold, again = in_a_process(options, folder), in_a_process(options, folder)
        index = build_index(documents, folder / "a.index", analyzers=["plain"])
        print(
            f"{megabytes:.0f} MB of text: {index.n_docs:,} documents, "
            f"{index.n_tokens:,} tokens, {index.n_terms:,} terms"
        )
        print(
            f"first index, two documents: {cold['first']:.1f} CPU s to compile, {again['first']:.1f} from numba's cache"
        )
        theirs = best_cpu_seconds(peer, options.repeats)
        plain = best_cpu_seconds(
            lambda: build_index(documents, folder / "a.index", analyzers=["plain"]), options.repeats
        )
        report("index of plain words", plain, f"bm25s {version('bm25s')}: tokenize and index", theirs, 2)
        every = best_cpu_seconds(
            lambda: build_index(documents, folder / "b.index", analyzers=BUILT_IN), options.repeats
        )
        size = build_index(documents, folder / "b.index").n_bytes / 1e6
        print(f"all three analysers: {every:.3f} CPU s ({theirs / every:.1f}×), {size:.0f} MB on disk")
        print(f"peak memory on top of the texts, three analysers: {again['extra'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
