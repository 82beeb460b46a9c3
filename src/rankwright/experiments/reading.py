"""The data of one ``[[data]]`` entry, read: feature files, folds, a collection of text, or runs of several systems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rankwright
from rankwright.data.dataset import RankingData
from rankwright.data.files import line_chunks
from rankwright.data.formats import read_data
from rankwright.data.splits import letor_folds
from rankwright.data.trec import TrecTable, read_qrels, read_run
from rankwright.errors import InputError
from rankwright.experiments.config import DataSource

__all__ = [
    "OPEN",
    "Piece",
    "Progress",
    "Read",
    "Split",
    "alike",
    "code_version",
    "file_hashes",
    "joined",
    "read_source",
    "widened",
]

Progress = Callable[[str], None]
Piece = tuple[int, list[int] | None]
"""The number of a part, and positions of queries in it; None: all of them."""

OPEN = "open "  # how the roles of the files of an open test begin
_CHUNK = 1 << 20
_NO_RESULTS = ("cli", "reports")  # packages that compute nothing
_IDS = ("id", "_id", "qid", "query_id", "num")


@dataclass(frozen=True)
class Split:
    """Which queries train, validate and test."""

    train: Sequence[Piece]
    valid: Sequence[Piece]
    test: Sequence[Piece]


@dataclass
class Read:
    """Data as they were read; ``open_part`` is the number of the part that is the test set of every split."""

    parts: list[RankingData]
    splits: list[Split] | None = None
    queries: dict[str, tuple[str, str]] = field(default_factory=dict)
    qrels: TrecTable | None = None
    notes: list[str] = field(default_factory=list)
    open_part: int | None = None


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
    read = _READERS[source.kind](source, folder, threads, say)
    files = _read_files(source, say, later=True)
    if files:
        later = joined(list(files.values()))
        read.open_part = len(read.parts)
        read.parts.append(later)
        read.qrels = None  # the judgements of an open test are those of its files
        read.notes.append(f"open test: {later.n_queries} queries, {later.n_docs} documents")
    return read


@cache
def code_version() -> str:
    """The version of the package and a hash of its code: what other code has computed is computed again."""
    folder, digest = Path(rankwright.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] not in _NO_RESULTS:
            digest.update(path.read_bytes())
    return f"{rankwright.__version__} {digest.hexdigest()[:16]}"


def file_hashes(files: Mapping[str, Path]) -> dict[str, Any]:
    """Path, bytes and SHA-256 of files by their roles; a folder counts as its files."""
    found = {}
    for role, path in files.items():
        digest, size = hashlib.sha256(), 0
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with open(file, "rb") as opened:
                    while chunk := opened.read(_CHUNK):
                        digest.update(chunk)
                        size += len(chunk)
        found[role] = {"path": str(path), "bytes": size, "sha256": digest.hexdigest()}
    return found


def alike(parts: list[RankingData]) -> list[RankingData]:
    """Parts with the same number of features, and all dense or all sparse: text leaves out features that are 0."""
    most = max(part.n_features for part in parts)
    is_sparse = any(part.is_sparse for part in parts)
    return [widened(part, most, is_sparse) for part in parts]


def widened(data: RankingData, n_features: int, is_sparse: bool | None = None) -> RankingData:
    """Data with at least so many features, the further ones 0; sparse if asked for, else as they are."""
    is_sparse = data.is_sparse if is_sparse is None else is_sparse
    X = sparse.csr_array(data.X) if is_sparse and not data.is_sparse else data.X
    if data.n_features < n_features:
        if data.feature_names is not None:
            what = f"files have {data.n_features} and {n_features} named features"
            raise InputError(f"{what}; expected the same features")
        if is_sparse:
            X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(data.n_docs, n_features))
        else:
            X = np.pad(X, ((0, 0), (0, n_features - data.n_features)))
    return data if X is data.X else data.with_features(X)


def joined(parts: list[RankingData]) -> RankingData:
    """Parts as one; a query that stands in several of them is one query."""
    parts = alike(parts)
    return parts[0] if len(parts) == 1 else RankingData.concatenate(parts)


def _read_files(source: DataSource, say: Progress, *, later: bool = False) -> dict[str, RankingData]:
    """The feature files of a data set by role, or those of its open test; the same file is read once."""
    negative: Any = "zero" if source.options.get("negative_as_zero") else "error"
    files = {role: path for role, path in source.files.items() if role.startswith(OPEN) == later and role != "queries"}
    read: dict[Path, RankingData] = {}
    for path in files.values():
        if path not in read:
            say(f"reading {path.name}")
            read[path] = read_data(path, negative=negative)
    return {role: read[path] for role, path in files.items()}


def _read_features(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    return Read([joined(list(_read_files(source, say).values()))], queries=_texts(source))


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
    from rankwright.text.index.index import build_index
    from rankwright.text.search.columns import feature_set
    from rankwright.text.search.features import make_features

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
    from rankwright.text.reading.queries import read_queries

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
