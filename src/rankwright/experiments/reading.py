"""Reads the data of a ``[[data]]`` entry: feature files, folds, a text collection, or runs of several systems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import rankwright
from rankwright.data import sparse
from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.cleaning import Cleaner, Cleaning
from rankwright.data.dataset import RankingData
from rankwright.data.files import line_chunks
from rankwright.data.formats import read_data
from rankwright.data.overlap import query_hashes
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
]

Array = npt.NDArray[Any]
Progress = Callable[[str], None]
Piece = tuple[int, list[int] | None]
"""The number of a part, and positions of its queries; None: all queries."""

OPEN = "open "  # prefix of the roles of an open test's files
_CHUNK = 1 << 20
_NO_RESULTS = ("cli", "reports")  # packages that do not affect results
_IDS = ("id", "_id", "qid", "query_id", "num")


@dataclass(frozen=True)
class Split:
    """The queries to train, validate and test on."""

    train: Sequence[Piece]
    valid: Sequence[Piece]
    test: Sequence[Piece]


@dataclass
class Read:
    """A data set as read; ``open_part`` is the number of the part that is the test set of every split.

    ``cleaning`` has what cleaning dropped, one entry for the data and one for the open test.
    """

    parts: list[RankingData]
    splits: list[Split] | None = None
    queries: dict[str, tuple[str, str]] = field(default_factory=dict)
    qrels: TrecTable | None = None
    notes: list[str] = field(default_factory=list)
    open_part: int | None = None
    cleaning: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_source(source: DataSource, folder: Path, threads: int, say: Progress) -> Read:
    """Read a data set.

    Parameters
    ----------
    source : DataSource
        The source.
    folder : Path
        Folder for the index of a collection.
    threads : int
        Number of threads for the features of a collection.
    say : callable
        Called with a line about each step.
    """
    read = _READERS[source.kind](source, folder, threads, say)
    files = _read_files(source, say, later=True)
    if files:
        later = joined(list(files.values()))
        read.open_part = len(read.parts)
        read.parts.append(later)
        read.qrels = None  # the files of an open test have its judgements
    if "clean" in source.options:
        say(f"cleaning {source.name}")
        try:
            _clean(read, Cleaner(**source.options["clean"]), threads)
        except InputError as error:
            raise InputError(f"{source.name}: {error.message}", error.path, error.line) from None
    if read.open_part is not None:
        later = read.parts[read.open_part]
        read.notes.append(f"open test: {later.n_queries} queries, {later.n_docs} documents")
    return read


def _clean(read: Read, cleaner: Cleaner, threads: int) -> None:
    """Clean all parts; a query that is in several files of a data set is counted once."""
    reports: dict[str, list[Cleaning]] = {}
    seen: set[tuple[str, Any, int]] = set()
    for number, part in enumerate(read.parts):
        found = cleaner.find(part, n_jobs=threads)
        read.parts[number], _ = found.apply(part)
        where = "open test" if number == read.open_part else "data"
        keys = zip(part.query_ids.tolist(), query_hashes(part).tolist(), strict=True)
        queries = [(where, *key) for key in keys]
        report = found.report(np.array([query not in seen for query in queries], bool))
        reports.setdefault(where, []).append(report)
        seen.update(queries)
        advice = cleaner.advice(part, found.report())
        if advice and not read.warnings:
            read.warnings.append(f"{advice} with clean = {{ scaled = true }}")
        if read.qrels is not None:
            read.qrels = _without(read.qrels, part, ~found.kept).select(read.parts[number].query_ids)
    for where, parts in reports.items():
        total = Cleaning.total(parts)
        text = f"cleaning drops {'from the open test ' * (where != 'data')}{total.text}"
        read.cleaning.append({"part": where, "text": text, **total.to_dict()})


def _without(qrels: TrecTable, data: RankingData, dropped: Array) -> TrecTable:
    """Judgements without those of dropped documents, which no method can rank any more."""
    assert data.doc_ids is not None
    ids = np.char.encode(np.asarray(data.doc_ids).astype(str)[dropped], "utf-8").tolist()
    gone = set(zip(data.qid[dropped].astype(str).tolist(), ids, strict=True))
    queries = np.repeat(qrels.query_ids, np.diff(qrels.indptr)).tolist()
    kept = np.array([pair not in gone for pair in zip(queries, qrels.documents, strict=True)], bool)
    sizes = np.diff(np.concatenate([[0], np.cumsum(kept)])[qrels.indptr])
    left = sizes > 0
    return TrecTable(
        qrels.query_ids[left], sizes_to_indptr(sizes[left]), qrels.doc_ids[kept], qrels.values[kept], qrels.name
    )


@cache
def code_version() -> str:
    """The version of the package and a hash of its code, so that results of other code are not reused."""
    folder, digest = Path(rankwright.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] not in _NO_RESULTS:
            digest.update(path.read_bytes())
    return f"{rankwright.__version__} {digest.hexdigest()[:16]}"


def file_hashes(files: Mapping[str, Path]) -> dict[str, Any]:
    """Path, size and SHA-256 of files by role; a folder counts as the files in it."""
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
    """Parts with the same number of features, all dense or all sparse: text leaves out features that are 0."""
    most = max(part.n_features for part in parts)
    wide = [part.widened(most) for part in parts]
    if any(part.is_sparse for part in wide):
        wide = [part if part.is_sparse else part.with_features(sparse.csr_array(part.X)) for part in wide]
    return wide


def joined(parts: list[RankingData]) -> RankingData:
    """All parts as one; a query that is in several of them is one query."""
    parts = alike(parts)
    return parts[0] if len(parts) == 1 else RankingData.concatenate(parts)


def _read_files(source: DataSource, say: Progress, *, later: bool = False) -> dict[str, RankingData]:
    """The feature files of a data set by role, or those of its open test; each file is read once."""
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
    next(iter(letor_folds(parts)))  # raises if parts have a query in common
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
    return Read([data], queries=_texts(source), qrels=qrels.select(data.query_ids))


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
    say(f"computing the features of {source.name}")
    made = make_features(
        index,
        {query: text for query, (text, _) in queries.items()},
        features=list(dict.fromkeys(names)),
        qrels=qrels,
        candidates=options.get("candidates", "union"),
        depth=options.get("depth", 1000),
        n_jobs=threads,
    )
    left_out = {
        "queries without judgements, left out": len(made.without_judgements),
        "queries without results, left out": len(made.without_candidates),
        "judged documents not in the collection": made.unknown_documents,
        "relevant documents not among the candidates": made.missed_documents,
    }
    notes = [f"{what}: {number}" for what, number in left_out.items() if number]
    return Read([made.data], queries=queries, qrels=qrels.select(made.data.query_ids), notes=notes)


def _texts(source: DataSource) -> dict[str, tuple[str, str]]:
    """Text and, for JSON lines, kind of the queries in the entry's file of queries."""
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
