"""Claims: indexing is at least twice as fast as with bm25s, and not slower than with tantivy if that is installed.

The collection has 100,000 random documents of 100 words with natural (Zipfian) word frequencies, drawn from a fixed
seed, or as many documents of a file, repeated under other ids. All start from texts in memory and tokenise them without
stemming or stop words. bm25s computes its scores in memory. tantivy writes ids and texts, which it compresses, and the
words in lower case with their counts, without positions; it has one writer thread and 256 MB of memory, and the commit
and all merges are waited for. Rankwright writes a complete index to disk, with ids and texts, for the plain words or
for all three analysers; it has one thread and stores no positions either. The sides take turns.
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
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path

import bm25s
import numpy as np

from rankwright.text.analysis import BUILT_IN
from rankwright.text.documents import read_documents
from rankwright.text.index import build_index
from timing import report

N_WORDS = 200_000
TANTIVY_MEMORY = 256_000_000
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


def repeated(path: Path, n_docs: int) -> list[str]:
    """The texts of a file of documents, from the start again until there are enough."""
    texts = [" ".join(fields.values()) for _, fields in read_documents(path)]
    return list(islice(cycle(texts), n_docs))


def tantivy_index(documents: list[tuple[str, str]], folder: Path) -> None:
    """Index documents with tantivy in a new folder."""
    tantivy = import_module("tantivy")  # optional
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("text", stored=True, tokenizer_name="words", index_option="freq")
    index = tantivy.Index(builder.build(), path=tempfile.mkdtemp(dir=folder))
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()
    index.register_tokenizer("words", words)
    writer = index.writer(TANTIVY_MEMORY, 1)
    for doc_id, text in documents:
        writer.add_document(tantivy.Document(id=doc_id, text=text))
    writer.commit()
    writer.wait_merging_threads()


def best_seconds(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """The best CPU and wall time of each side; they take turns, after one warm-up call each."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, side in sides.items():
            cpu, wall = time.process_time(), time.perf_counter()
            side()
            if turn:
                times[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {name: (min(cpu for cpu, _ in own), min(wall for _, wall in own)) for name, own in times.items()}


def main() -> None:
    """Make the texts, index them in every way and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="number of documents (default 100,000)")
    parser.add_argument("--tokens", type=int, default=100, help="words per random document (default 100)")
    parser.add_argument("--collection", type=Path, help="file of documents to repeat, instead of random ones")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts (default 3)")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        measure_alone(options.documents, options.tokens, options.alone)
        return
    has_tantivy = find_spec("tantivy") is not None
    named = ("numpy", "numba", "PyStemmer", "bm25s", *(["tantivy"] if has_tantivy else []))
    print(f"Python {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version(name)}" for name in named), platform.machine())
    if options.collection is None:
        texts = make_texts(options.documents, options.tokens)
    else:
        texts = repeated(options.collection, options.documents)
    documents = [(str(i), text) for i, text in enumerate(texts)]

    def bm25s_index() -> None:
        words = bm25s.tokenize(texts, stopwords=None, stemmer=None, show_progress=False)
        bm25s.BM25().index(words, show_progress=False)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold, again = in_a_process(options, folder), in_a_process(options, folder)
        index = build_index(documents, folder / "a.index", analyzers=["plain"])
        print(
            f"{sum(map(len, texts)) / 1e6:.0f} MB of text: {index.n_docs:,} documents, "
            f"{index.n_tokens:,} tokens, {index.n_terms:,} terms"
        )
        print(
            f"first index, two documents: {cold['first']:.1f} CPU s to compile, {again['first']:.1f} from numba's cache"
        )
        sides: dict[str, Callable[[], object]] = {
            "plain": lambda: build_index(documents, folder / "a.index", analyzers=["plain"]),
            "every": lambda: build_index(documents, folder / "b.index", analyzers=BUILT_IN),
            "bm25s": bm25s_index,
        }
        if has_tantivy:
            sides["tantivy"] = lambda: tantivy_index(documents, folder)
        seconds = best_seconds(sides, options.repeats)
        for peer, target in (("bm25s", 2), ("tantivy", 1)):
            if peer in seconds:
                what = f"{peer} {version(peer)}: tokenise and index"
                report("index of plain words", seconds["plain"][0], what, seconds[peer][0], target)
                ratio = seconds[peer][1] / seconds["plain"][1]
                print(f"  wall time: {seconds['plain'][1]:.3f} s, peer {seconds[peer][1]:.3f} s ({ratio:.1f}×)")
        size = build_index(documents, folder / "b.index").n_bytes / 1e6
        ratios = ", ".join(f"{seconds[peer][0] / seconds['every'][0]:.1f}× {peer}" for peer in list(sides)[2:])
        print(f"all three analysers: {seconds['every'][0]:.3f} CPU s ({ratios}), {size:.0f} MB on disk")
        if options.collection is None:
            print(f"peak memory on top of the texts, three analysers: {again['extra'] / 1e6:.0f} MB")
        if not has_tantivy:
            print("tantivy is not installed: not compared")


if __name__ == "__main__":
    main()
