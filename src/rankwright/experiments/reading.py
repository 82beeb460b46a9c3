"""The data of one ``[[data]]`` entry, read: feature files, folds, a collection of text, or runs of several systems."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from rankwright.data.dataset import RankingData
from rankwright.data.files import line_chunks
from rankwright.data.formats import read_data
from rankwright.data.splits import letor_folds
from rankwright.data.trec import TrecTable, read_qrels, read_run
from rankwright.errors import InputError
from rankwright.experiments.config import DataSource

__all__ = ["Piece", "Progress", "Read", "Split", "alike", "read_source"]

Progress = Callable[[str], None]
Piece = tuple[int, list[int] | None]
"""The number of a part, and positions of queries in it; None: all of them."""

_IDS = ("id", "_id", "qid", "query_id", "num")


@dataclass(frozen=True)
class Split:
    """Which queries train, validate and test."""

    train: Sequence[Piece]
    valid: Sequence[Piece]
    test: Sequence[Piece]


@dataclass
class Read:
    """Data as they were read."""

    parts: list[RankingData]
    splits: list[Split] | None = None
    queries: dict[str, tuple[str, str]] = field(default_factory=dict)
    qrels: TrecTable | None = None
    notes: list[str] = field(default_factory=list)


def read_source(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    """Read a data set.

    Parameters
    ----------
    source : DataSource
        Where it is.
    folder : Path
        For the index of a collection.
    threads : int
        For the features of a collection.
    say : callable
        Told what is being done.
    """
    return _READERS[source.kind](source, folder, threads, say)


def alike(parts: list[RankingData]) -> list[RankingData]:
    """Parts with the same number of features, and all dense or all sparse: text leaves out features that are 0."""
    most = max(part.n_features for part in parts)
    is_sparse = any(part.is_sparse for part in parts)
    alike = []
    for part in parts:
        X = sparse.csr_array(part.X) if is_sparse else part.X
        if part.n_features < most:
            if part.feature_names is not None:
                raise InputError(f"files have {part.n_features} and {most} named features; expected the same features")
            if is_sparse:
                X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(part.n_docs, most))
            else:
                X = np.pad(X, ((0, 0), (0, most - part.n_features)))
        alike.append(part if X is part.X else part.with_features(X))
    return alike


def _read_files(source: DataSource, say: Progress) -> dict[str, RankingData]:
    """The feature files of a data set by role; the same file is read once."""
    negative: Any = "zero" if source.options.get("negative_as_zero") else "error"
    read: dict[Path, RankingData] = {}
    for role, path in source.files.items():
        if role != "queries" and path not in read:
            say(f"reading {path.name}")
            read[path] = read_data(path, negative=negative)
    return {role: read[path] for role, path in source.files.items() if role != "queries"}


def _read_features(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    parts = alike(list(_read_files(source, say).values()))
    data = parts[0] if len(parts) == 1 else RankingData.concatenate(parts)
    return Read([data], queries=_texts(source))


def _read_fixed(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    files = _read_files(source, say)
    number = {role: [(at, None)] for at, role in enumerate(files)}
    split = Split(*(list(number.get(role, [])) for role in ("train", "valid", "test")))
    return Read(list(files.values()), [split], _texts(source))


def _read_folds(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    files = _read_files(source, say)
    distinct: list[RankingData] = []
    for data in files.values():
        if not any(data is other for other in distinct):
            distinct.append(data)
    place = {role: next(at for at, one in enumerate(distinct) if one is data) for role, data in files.items()}
    folds = list(dict.fromkeys(role.partition("/")[0] for role in files))
    splits = [Split(*([(place[f"{fold}/{role}"], None)] for role in ("train", "valid", "test"))) for fold in folds]
    return Read(distinct, splits, _texts(source))


def _read_parts(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    parts = alike(list(_read_files(source, say).values()))
    next(iter(letor_folds(parts)))  # complains about parts that have a query in common
    n = len(parts)
    turns = [[(at % n, None) for at in range(first, first + n)] for first in range(n)]
    splits = [Split([*turn[:-2]], [turn[-2]], [turn[-1]]) for turn in turns]
    return Read(parts, splits, _texts(source))


def _read_runs(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    from rankwright.data.run_features import runs_to_data

    qrels = read_qrels(source.files["qrels"])
    runs = {}
    for role, path in source.files.items():
        if role.startswith("run "):
            say(f"reading {path.name}")
            runs[role.removeprefix("run ")] = read_run(path)
    data = runs_to_data(
        runs, qrels, **{key: source.options[key] for key in ("normalize", "documents") if key in source.options}
    )
    return Read([data], queries=_texts(source), qrels=_of_queries(qrels, data))


def _read_collection(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    from rankwright.text.columns import feature_set
    from rankwright.text.features import make_features
    from rankwright.text.indexing import build_index

    options = source.options
    if source.files:
        documents: Any = source.files["docs"]
        queries = _texts(source)
        qrels = read_qrels(source.files["qrels"])
    else:
        from rankwright.datasets import python_docs

        collection = python_docs()
        documents, qrels = collection.documents, collection.qrels
        queries = {query: (text, collection.kinds[query]) for query, text in collection.queries.items()}
    say(f"indexing {source.name}")
    index = build_index(documents, folder / "docs.index", split_identifiers=not source.files)
    fields = index.fields if options.get("per_field") and len(index.fields) > 1 else ()
    sets = options.get("feature_sets", [] if options.get("feature_names") else ["base"])
    names = [name for one in sets for name in feature_set(one, fields)] + list(options.get("feature_names", []))
    say(f"making the features of {source.name}")
    made = make_features(
        index,
        {query: text for query, (text, _) in queries.items()},
        features=list(dict.fromkeys(names)),
        qrels=qrels,
        candidates=options.get("candidates", "union"),
        depth=options.get("depth", 1000),
        threads=threads,
    )
    left_out = {
        "queries without judgements, left out": len(made.without_judgements),
        "queries for which nothing was found, left out": len(made.without_candidates),
        "judged documents that are not in the collection": made.unknown_documents,
        "relevant documents that are not among the candidates": made.missed_documents,
    }
    notes = [f"{what}: {number}" for what, number in left_out.items() if number]
    return Read([made.data], queries=queries, qrels=_of_queries(qrels, made.data), notes=notes)


def _of_queries(qrels: TrecTable, data: RankingData) -> TrecTable:
    """The judgements of the queries of some data."""
    wanted = set(map(str, data.query_ids.tolist()))
    queries = np.repeat(qrels.query_ids, np.diff(qrels.indptr))
    kept = np.isin(queries, list(wanted))
    return TrecTable.from_columns(queries[kept], np.char.decode(qrels.doc_ids[kept], "utf-8"), qrels.values[kept])


def _texts(source: DataSource) -> dict[str, tuple[str, str]]:
    """Text and, in JSON lines, kind of the queries of the file that the entry names."""
    from rankwright.text.queries import read_queries

    path = source.files.get("queries")
    if path is None:
        return {}
    kinds: dict[str, str] = {}
    for chunk in line_chunks(path):
        for line in chunk.splitlines():
            if line.lstrip().startswith(b"{"):
                entry = json.loads(line)
                kinds[str(next((entry[key] for key in _IDS if key in entry), ""))] = str(entry.get("kind", ""))
    queries = read_queries(path, part=source.options.get("part", "title"))
    return {query: (text, kinds.get(query, "")) for query, text in queries}


_READERS: dict[str, Callable[[DataSource, Path, int, Progress], Read]] = {
    "features": _read_features,
    "fixed": _read_fixed,
    "folds": _read_folds,
    "parts": _read_parts,
    "runs": _read_runs,
    "collection": _read_collection,
}
