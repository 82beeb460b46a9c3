"""Claims about search, each against bm25s with its numba backend within one run.

1. Finding the best 1,000 of 100,000 documents (100 tokens each) for 1,000 queries takes no longer, with one thread and
   with two. Words follow Zipf's distribution; a query is two to five words of a document. bm25s gets queries as term
   numbers, Rankwright as text that it has to split and look up. Both have precomputed term scores: bm25s computes them
   when indexing, Rankwright at the first query with a term, which is timed separately.
2. BM25 scores agree to 1e-4 on these data and, if available, on the Cranfield collection.

One thread: CPU time. Two threads: wall time. The two sides alternate, and the best run of each counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import numpy.typing as npt

from rankwright.text.contents import View
from rankwright.text.documents import read_documents
from rankwright.text.functions import BM25, FUNCTIONS
from rankwright.text.index import build_index
from rankwright.text.queries import read_queries
from rankwright.text.search import Scorer

Array = npt.NDArray[Any]
LENGTH, N_WORDS = 100, 50_000
TOLERANCE = 1e-4
PLAIN = BM25(k3=float("inf"))  # bm25s counts a query word as often as it occurs


def make_tokens(n_docs: int, rng: np.random.Generator) -> Array:
    """Draw the words of documents, as numbers."""
    bounds = np.cumsum(1 / np.arange(1, N_WORDS + 1))
    tokens: Array = np.searchsorted(bounds, rng.random((n_docs, LENGTH)) * bounds[-1]).astype(np.int32)
    return tokens


def make_view(tokens: Array) -> View:
    """Build the view of these documents; each word is its number."""
    n_docs = len(tokens)
    postings = tokens.ravel().astype(np.int64) * n_docs + np.repeat(np.arange(n_docs), LENGTH)
    found, counts = np.unique(postings, return_counts=True)
    indptr = np.searchsorted(found, np.arange(N_WORDS + 1) * n_docs)
    return View(
        {str(word): word for word in range(N_WORDS)},
        indptr,
        (found % n_docs).astype(np.int32),
        counts.astype(np.int32),
        np.full(n_docs, LENGTH, np.int32),
        str.split,
    )


def make_queries(tokens: Array, n_queries: int, rng: np.random.Generator) -> list[list[int]]:
    """Draw queries of two to five words from one document each."""
    return [
        tokens[rng.integers(len(tokens)), rng.integers(0, LENGTH, rng.integers(2, 6))].tolist()
        for _ in range(n_queries)
    ]


def best_of_each(sides: list[Callable[[], Any]], clock: Callable[[], float], repeat: int) -> list[float]:
    """Return the best time of each side; they take turns, after one warm-up call each."""
    times: list[list[float]] = [[] for _ in sides]
    for turn in range(repeat + 1):
        for side, seconds in zip(sides, times, strict=True):
            began = clock()
            side()
            if turn:
                seconds.append(clock() - began)
    return [min(seconds) for seconds in times]


def compare_times(view: View, tokens: Array, queries: list[list[int]], k: int, repeat: int) -> None:
    """Check claim 1, and claim 2 on the same data."""
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    peer.index((tokens.tolist(), dict(view.terms)), show_progress=False)
    texts = [" ".join(map(str, query)) for query in queries]
    Scorer(view, PLAIN).search_all(texts[:1], k)  # loads the compiled code
    scorer = Scorer(view, PLAIN)
    began = time.process_time()
    scorer.search_all(texts, k)
    print(f"first run, computing the impacts of all terms: {time.process_time() - began:.3f} CPU s")
    for threads, clock, unit in ((1, time.process_time, "CPU s"), (2, time.perf_counter, "s")):
        ours, theirs = best_of_each(
            [
                lambda threads=threads: scorer.search_all(texts, k, n_jobs=threads),  # type: ignore[misc]
                lambda threads=threads: peer.retrieve(queries, k=k, n_threads=threads, show_progress=False),  # type: ignore[misc]
            ],
            clock,
            repeat,
        )
        verdict = "holds" if ours <= theirs else "DOES NOT HOLD"
        print(
            f"{len(queries):,} queries, best {k:,} of {view.n_docs:,} documents, {threads} thread{'s'[: threads - 1]}"
        )
        print(f"  rankwright {ours:8.3f} {unit}")
        print(f"  bm25s      {theirs:8.3f} {unit}")
        print(f"  rankwright is {theirs / ours:.1f}× as fast; claim: not slower: {verdict}")
    hits = scorer.search_all(texts, k)
    scores = peer.retrieve(queries, k=k, show_progress=False).scores
    tell_agreement("the same data", [(hits[q][1], scores[q, : len(hits[q][1])]) for q in range(len(queries))])


def tell_agreement(where: str, pairs: list[tuple[Array, Array]]) -> None:
    """Check claim 2 for pairs of scores."""
    difference = max(float(np.max(np.abs(ours - theirs), initial=0)) for ours, theirs in pairs)
    verdict = "holds" if difference <= TOLERANCE else "DOES NOT HOLD"
    n = sum(len(ours) for ours, _ in pairs)
    print(f"agreement on {where}: {n:,} scores, largest difference {difference:.1e}; claim: {TOLERANCE:g}: {verdict}")


def show_functions(view: View, queries: list[list[int]], k: int, repeat: int) -> None:
    """Print the time of every function with one thread."""
    texts = [" ".join(map(str, query)) for query in queries]
    print("every function, one thread, CPU s (first run, later)")
    for name in FUNCTIONS:
        scorer = Scorer(view, name)
        Scorer(view, name).search(texts[0], k)
        began = time.process_time()
        scorer.search_all(texts, k)
        first = time.process_time() - began
        (later,) = best_of_each([lambda scorer=scorer: scorer.search_all(texts, k)], time.process_time, repeat)  # type: ignore[misc]
        print(f"  {name:10s} {first:6.3f} {later:6.3f}")


def compare_cranfield(folder: Path) -> None:
    """Check claim 2 on real text: all documents, all queries, every analyser."""
    texts = [" ".join(fields.values()) for _, fields in read_documents(folder / "docs.jsonl.gz")]
    queries = read_queries(folder / "queries.jsonl")
    with tempfile.TemporaryDirectory() as place:
        index = build_index([(str(i), text) for i, text in enumerate(texts)], Path(place) / "index")
        for analyzer in ("plain", "porter", "porter+stop"):
            view = index.view(analyzer)
            peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numpy")
            peer.index([view.analyze(text) for text in texts], show_progress=False)
            scorer = Scorer(view, PLAIN)
            pairs = []
            for text in queries.texts:
                known = [word for word in view.analyze(text) if word in view.terms]
                pairs.append((scorer.scores(text), peer.get_scores(known)))
            tell_agreement(f"Cranfield, {analyzer}", pairs)


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("-k", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--data", type=Path, default=os.environ.get("RANKWRIGHT_DATA"), help="folder with text/cran")
    args = parser.parse_args()
    print(", ".join(f"{name} {version(name)}" for name in ("rankwright", "bm25s", "numba", "numpy")))
    print(f"system load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rng = np.random.default_rng(0)
    tokens = make_tokens(args.docs, rng)
    view = make_view(tokens)
    queries = make_queries(tokens, args.queries, rng)
    compare_times(view, tokens, queries, args.k, args.repeat)
    show_functions(view, queries, args.k, max(args.repeat // 2, 1))
    if args.data is None:
        print("agreement on Cranfield: skipped; give --data or set RANKWRIGHT_DATA")
    else:
        compare_cranfield(args.data / "text" / "cran")
    print(f"system load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
