"""Which documents to train on: the judged ones, or the top of every function, whose labels are 0 where not judged.

Half of the queries of Cranfield, MEDLINE and MSRD train SVMmap and LambdaMART, the others test: nDCG@10 over the top
1,000 of every function against all judgements, mean of two cuts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
from pathlib import Path

import numpy as np

from rankwright import (
    Index,
    LambdaMART,
    StructuredSVM,
    TrecTable,
    build_index,
    evaluate_run,
    make_features,
    read_qrels,
    read_queries,
)

CANDIDATES = (("judged", 1000), ("union", 10), ("union", 100), ("union", 1000))
EVERY = 30  # of MSRD's queries


def collection(data: Path, name: str) -> tuple[Path, dict[str, str], TrecTable]:
    """Documents, queries and judgements."""
    if name != "msrd":
        folder = data / "text" / name
        return folder / "docs.jsonl.gz", dict(read_queries(folder / "queries.jsonl")), read_qrels(folder / "qrels.txt")
    queries: dict[str, str] = {}
    labels: dict[str, dict[str, float]] = {}
    with gzip.open(data / "msrd" / "judgments-dev.tsv.gz", "rt") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            queries[row["query_id"]] = row["query"]
            labels.setdefault(row["query_id"], {})[row["doc_id"]] = float(row["grade"])
    kept = list(queries)[::EVERY]
    table = TrecTable.from_dict({query: labels[query] for query in kept})
    return data / "msrd" / "movies-corpus.jsonl.gz", {query: queries[query] for query in kept}, table


def figures(index: Index, queries: dict[str, str], qrels: TrecTable) -> None:
    """Print a line for each choice of candidates: rows per query, and the mean of each method."""
    judged = set(qrels.query_ids.tolist())
    ids = [query for query in queries if query in judged]
    everything = make_features(index, queries, qrels=qrels).data
    for candidates, depth in CANDIDATES:
        rows, means = 0.0, np.zeros(2)
        for seed in (0, 1):
            order = np.random.default_rng(seed).permutation(len(ids))
            train, test = ([ids[at] for at in half] for half in np.split(order, [len(ids) // 2]))
            texts = {query: queries[query] for query in train}
            made = make_features(index, texts, qrels=qrels, candidates=candidates, depth=depth).data
            rows += made.n_docs / made.n_queries / 2
            places = np.flatnonzero(np.isin(everything.query_ids, test))
            held_out = everything.select(places)
            for at, ranker in enumerate((StructuredSVM("map", bound="hinge"), LambdaMART(n_trees=40, max_leaves=8))):
                scores = ranker.fit(made).predict(held_out)
                scores = scores if held_out.rows is None else scores[held_out.rows]
                assert held_out.doc_ids is not None
                run = TrecTable.from_columns(held_out.qid, held_out.doc_ids, scores)
                means[at] += evaluate_run(qrels.select(set(test)), run, "nDCG@10").means["nDCG@10"] / 2
        print(f"  {candidates} {depth:5d}: {rows:7.1f} rows a query, svm-map {means[0]:.3f}, lambdamart {means[1]:.3f}")


def data_folder() -> Path:
    """The folder of research data, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of research data")
    return Path(parser.parse_args().data)


def main() -> None:
    """Print the figures of all collections."""
    root = data_folder()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cran", "med", "msrd"):
            documents, queries, qrels = collection(root, name)
            print(name)
            figures(build_index(documents, Path(folder) / name), queries, qrels)


if __name__ == "__main__":
    main()
