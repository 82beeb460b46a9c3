"""Prepares the data of an experiment: read once, kept as memory-mapped folders, and split.

A data set is feature files, folds, a text collection, or runs of several systems. It consists of parts (feature data)
and splits, which say which queries of which parts train, validate and test. Parts are kept in the cache of the results
folder, from where every process maps them, also after an interruption. Names in the cache are hashes of everything that
affects the content.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rankwright
from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.cleaning import Cleaner, Cleaning
from rankwright.data.dataset import RankingData, default_names
from rankwright.data.order import sizes_to_indptr
from rankwright.data.overlap import Fingerprints, query_hashes
from rankwright.data.scaling import QueryScaler
from rankwright.data.splits import QueryKFold, QueryTrials, letor_folds
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, InputWarning
from rankwright.experiments.config import Background, DataSource, Protocol
from rankwright.io.detect import read_data
from rankwright.io.files import line_chunks, replace_file
from rankwright.io.folder import load_folder, save_folder
from rankwright.io.trec import read_qrels, read_run, write_qrels
from rankwright.measures import Measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.cross_validation import validation_value

_FACTS = "facts.json"
_QRELS = "qrels.txt"
Progress = Callable[[str], None]
Piece = tuple[int, list[int] | None]
"""The number of a part, and positions of its queries; None: all queries."""

OPEN = "open "  # prefix of the roles of an open test's files
_CHUNK = 1 << 20
_NO_RESULTS = ("cli", "reports")  # packages that do not affect results
_IDS = ("id", "_id", "qid", "query_id", "num")


@dataclass(frozen=True)
class Prepared:
    """A data set on disk.

    `parts`: folders of feature data. `qrels`: all judgements of its queries, if the features lack some judged
    documents. `own_splits`: none if the protocol splits it. `content`: hash of its content. `queries`: text and kind of
    the queries, where known. `sizes`: numbers of queries, documents and features. `files`: files read: path, size and
    SHA-256 by role. `notes`: what a reader should know. `warnings`: what makes its results wrong: queries that are both
    trained and tested on, most documents dropped. `open_part`: the part that is the test set of every split.
    `cleaning`: what cleaning dropped from the data and from its open test; empty if they are not cleaned.
    `backgrounds`: those that methods adapt. `best`: the best feature in hindsight, if a method is that or is trained
    without it.
    """

    source: DataSource
    parts: list[Path]
    qrels: Path | None
    own_splits: list[Split] | None
    content: str
    queries: dict[str, tuple[str, str]]
    sizes: dict[str, int]
    files: dict[str, Any]
    notes: list[str]
    warnings: list[str]
    open_part: int | None = None
    cleaning: Sequence[dict[str, Any]] = ()
    backgrounds: tuple[Background, ...] = ()
    best: int | None = None

    @property
    def name(self) -> str:
        return self.source.name

    def as_dict(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        used = {"train_queries": self.source.train_queries, "valid_queries": self.source.valid_queries}
        return {
            "name": self.name,
            "kind": self.source.kind,
            **self.sizes,
            **{key: value for key, value in used.items() if value is not None},
            "content": self.content,
            "files": self.files,
            "notes": self.notes,
            "warnings": self.warnings,
            **({"cleaning": list(self.cleaning)} if self.cleaning else {}),
            **({"backgrounds": [background.facts for background in self.backgrounds]} if self.backgrounds else {}),
        }


def prepare(source: DataSource, cache: Path, *, threads: int = 1, say: Progress = lambda _: None) -> Prepared:
    """Read a data set, or take it from the cache. `threads`: for the features of a collection."""
    say(f"reading {source.name}")
    files = file_hashes(source.files)
    made_of = {
        "kind": source.kind,
        "files": {role: about["sha256"] for role, about in files.items()},
        "options": dict(source.options),
        "rankwright": code_version(),
        "python": sys.version if not files else "",
    }
    folder = cache / hash_of(made_of)[:16]
    facts = kept_facts(folder, lambda: _keep(read_source(source, folder, threads, say), folder, source))
    for line in facts["warnings"]:
        warnings.warn(f"{source.name}: {line}", InputWarning, stacklevel=2)
    splits = facts["splits"]
    return Prepared(
        source,
        [folder / name for name in facts["parts"]],
        folder / _QRELS if facts["qrels"] else None,
        None if splits is None else [Split(**split) for split in splits],
        facts["content"],
        {query: (text, kind) for query, (text, kind) in facts["queries"].items()},
        facts["sizes"],
        files,
        facts["notes"],
        facts["warnings"],
        facts["open_part"],
        facts["cleaning"],
    )


def hash_of(made_of: Mapping[str, Any]) -> str:
    """A hash of everything that affects a content, which names it."""
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def kept_facts(folder: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The facts about the content of a folder in the cache, which is made first unless it is complete.

    They are written last, to mark the folder as complete.
    """
    path = folder / _FACTS
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(make(), ensure_ascii=False)
        with replace_file(path) as out:
            out.write(text.encode())
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


def splits_of(prepared: Prepared, protocol: Protocol | None, seed: int) -> list[Split]:
    """The splits of a data set: its own or the protocol's, with its numbers of queries and its open test."""
    splits = prepared.own_splits
    if splits is None:
        assert protocol is not None
        splits = _drawn_splits(prepared, protocol, seed)
    if prepared.open_part is not None:
        splits = [replace(split, test=[(prepared.open_part, None)]) for split in splits]
    return [_reduced(prepared, split, number, seed) for number, split in enumerate(splits, 1)]


def _reduced(prepared: Prepared, split: Split, number: int, seed: int) -> Split:
    for role, count in (("train", prepared.source.train_queries), ("valid", prepared.source.valid_queries)):
        if count is not None:
            try:
                some = _some(prepared.parts, getattr(split, role), count, seed)
            except InputError as error:
                place = f"{prepared.name}, split {number}"
                raise InputError(f"{place}: {role}_queries is {count}; {error.message}") from None
            split = replace(split, **{role: some})
    return split


def _some(parts: Sequence[Path], pieces: Sequence[Piece], count: int, seed: int) -> list[Piece]:
    """A random choice of queries that have an order to learn."""
    places: list[tuple[int, int]] = []
    for part, queries in pieces:
        has_order = load_folder(parts[part]).has_order
        places += [(part, q) for q in (range(len(has_order)) if queries is None else queries) if has_order[q]]
    if len(places) < count:
        raise InputError(f"only {len(places)} queries have documents with different labels")
    drawn = np.sort(np.random.default_rng(seed).permutation(len(places))[:count])
    some: dict[int, list[int]] = {}
    for part, query in (places[at] for at in drawn):
        some.setdefault(part, []).append(query)
    return list(some.items())


def _drawn_splits(prepared: Prepared, protocol: Protocol, seed: int) -> list[Split]:
    """The splits of the protocol; with an open test, none of the queries need be left for testing."""
    n = prepared.sizes["queries"]
    try:
        if protocol.kind == "folds":
            splitter: Any = QueryKFold(protocol.folds, valid_folds=protocol.valid_folds, random_state=seed)
        else:
            train, valid = _size(protocol.train, n), _size(protocol.valid, n)
            test = n - train - valid if protocol.test is None else _size(protocol.test, n)
            trials = protocol.trials if protocol.kind == "trials" else 1
            if test == 0 and prepared.open_part is not None:
                splitter = QueryTrials(trials, train=train, valid=0, test=valid, random_state=seed)
                return [_split(s.train, s.test, s.valid) for s in splitter.split_queries(n)]
            splitter = QueryTrials(trials, train=train, valid=valid, test=test, random_state=seed)
        drawn = list(splitter.split_queries(n))
    except InputError as error:
        left = " after cleaning" * bool(prepared.cleaning)
        raise InputError(f"{prepared.name} has {n} queries{left}: {error.message}") from None
    return [_split(s.train, s.valid, s.test) for s in drawn]


def _split(*roles: Array) -> Split:
    """Queries of the first part."""
    return Split(*([(0, queries.tolist())] if len(queries) else [] for queries in roles))


def _size(asked: int | float, n: int) -> int:
    return asked if isinstance(asked, int) else round(asked * n)


def pieces_of(parts: Sequence[Path], pieces: Sequence[Piece], *, with_features: bool = True) -> RankingData | None:
    """The data of the pieces, maybe without their features; None if there are none."""
    pieces_read = []
    for part, queries in pieces:
        data = load_folder(parts[part])
        if not with_features:
            data = data.with_features(np.empty((data.n_docs, 0), np.float32))
        pieces_read.append(data if queries is None else data.select(np.array(queries, np.int64)))
    if not pieces_read:
        return None
    return pieces_read[0] if len(pieces_read) == 1 else RankingData.concatenate(pieces_read)


def _keep(read: Read, folder: Path, source: DataSource) -> dict[str, Any]:
    """Write what was read, without the features left out; its facts."""
    parts = alike(read.parts)
    if source.options.get("names"):
        parts = [replace(part, feature_names=_renamed(parts[0], source)) for part in parts]
    if source.options.get("without"):
        columns = _listed(parts[0], source)
        read.notes.append(f"left out {len(columns):,} of {parts[0].n_features:,} features")
        parts = [without_columns(part, columns) for part in parts]
    widths = {part.n_features for part in read.parts}
    if len(widths) > 1:
        zeros = "the missing ones count as 0, as text leaves zeros out"
        read.notes.append(f"files with {min(widths):,} to {max(widths):,} features; {zeros}")
    names = [f"part-{number}.rank" for number in range(len(parts))]
    digest = hashlib.sha256()
    for name, part in zip(names, parts, strict=True):
        save_folder(part, folder / name)
        _add_content(digest, part)
    if read.qrels is not None:
        write_qrels(read.qrels, folder / _QRELS)
        digest.update((folder / _QRELS).read_bytes())
    if read.splits is None:
        sizes = {"queries": parts[0].n_queries, "documents": parts[0].n_docs}
    else:  # a query may be in several files
        tested = [piece for split in read.splits for piece in split.test or split.train]
        ids = {str(query) for part, _ in tested for query in parts[part].query_ids.tolist()}
        sizes = {"queries": len(ids), "documents": sum(parts[part].n_docs for part, _ in tested)}
    return {
        "parts": names,
        "qrels": read.qrels is not None,
        "splits": None if read.splits is None else [vars(split) for split in read.splits],
        "content": digest.hexdigest(),
        "queries": read.queries,
        "sizes": {**sizes, "features": parts[0].n_features},
        "notes": read.notes,
        "warnings": read.warnings + _shared(parts, read),
        "cleaning": read.cleaning,
        "open_part": read.open_part,
    }


def without_columns(data: RankingData, columns: Sequence[int]) -> RankingData:
    """The data with all other features, which keep their names: f5 stays f5."""
    names = data.feature_names or default_names(data.n_features)
    kept = np.delete(np.arange(data.n_features), columns)
    return data.with_features(data.X[:, kept], [names[column] for column in kept])


def _listed(data: RankingData, source: DataSource) -> list[int]:
    """The columns of ``without``: features by name, by a pattern such as ``bm25*``, or by number, from 1."""
    names = data.feature_names or default_names(data.n_features)
    listed: set[int] = set()
    for feature in source.options["without"]:
        columns = [at for at, name in enumerate(names) if _is(feature, at, name)]
        if not columns and isinstance(feature, str):
            columns = [at for at, name in enumerate(names) if fnmatchcase(name, feature)]
        if not columns:
            expected = f"a number from 1 to {data.n_features}, a name such as {names[0]} or a pattern such as f1*"
            raise InputError(f"{source.name}: without lists {feature!r}, which is no feature; expected {expected}")
        listed |= set(columns)
    if len(listed) == data.n_features:
        raise InputError(f"{source.name}: without lists all features; expected some to be left")
    return sorted(listed)


def _is(feature: str | int, column: int, name: str) -> bool:
    """Whether a column is meant by its name, or by its number, from 1."""
    return feature == (column + 1 if isinstance(feature, int) else name)


def _renamed(data: RankingData, source: DataSource) -> tuple[str, ...]:
    """The names of the features, some of them as the key ``names`` has them."""
    names = list(data.feature_names or default_names(data.n_features))
    columns = {}
    for name, feature in source.options["names"].items():
        column = next((at for at, other in enumerate(names) if _is(feature, at, other)), None)
        if column is None:
            expected = f"a number from 1 to {data.n_features}, or a name such as {names[0]}"
            raise InputError(f"{source.name}: {name} is {feature!r}, which is no feature; expected {expected}")
        columns[column] = name
    renamed = tuple(columns.get(at, name) for at, name in enumerate(names))
    if len(set(renamed)) < len(renamed):
        raise InputError(f"{source.name}: names gives two features one name; expected different names")
    return renamed


def _shared(parts: Sequence[RankingData], read: Read) -> list[str]:
    """Queries that are in two parts of a split, or in the open test and elsewhere, one line each."""
    if len(parts) == 1:
        return []
    fingerprints = [Fingerprints.of(part) for part in parts]
    splits = read.splits or [Split([(0, None)], [], [])]
    if read.open_part is not None:
        splits = [replace(split, test=[(read.open_part, None)]) for split in splits]
    lines = []
    for number, split in enumerate(splits, 1):
        roles = {
            role: Fingerprints.join(
                [fingerprints[at] if some is None else fingerprints[at].select(some) for at, some in pieces]
            )
            for role, pieces in (("training", split.train), ("validation", split.valid), ("test", split.test))
            if pieces
        }
        for part, whose in (("test", "training"), ("test", "validation"), ("validation", "training")):
            shared = roles[part].shared_with(roles[whose], part, whose) if {part, whose} <= roles.keys() else None
            if shared is not None:
                lines.append(f"split {number}: {shared.text}" if len(splits) > 1 else shared.text)
    return lines


def _add_content(digest: Any, data: RankingData) -> None:
    arrays = [data.X.data, data.X.indices, data.X.indptr] if data.is_sparse else [data.X]
    arrays += [data.labels, data.indptr, np.asarray(data.query_ids).astype(str)]
    arrays += [] if data.doc_ids is None else [np.asarray(data.doc_ids).astype(str)]
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    digest.update(repr(data.feature_names).encode())
    digest.update(repr(sorted(data.categories)).encode() if data.categories else b"")


def with_best(prepared: Prepared, splits: Sequence[Split], measure: Measure) -> Prepared:
    """The data set with its best feature in hindsight: highest mean of the measure over the test queries.

    Each query that one of the splits tests counts once.
    """
    tested: dict[int, set[int] | None] = {}
    for part, queries in (piece for split in splits for piece in split.test):
        queries_before = tested.setdefault(part, set())
        tested[part] = None if queries is None or queries_before is None else queries_before | set(queries)
    pieces = [(part, None if some is None else sorted(some)) for part, some in sorted(tested.items())]
    data = pieces_of(prepared.parts, pieces)
    assert data is not None
    value = validation_value(data, measure)
    weights = np.eye(data.n_features)
    values = [
        -np.inf
        if at in data.categories
        else value(LinearModel(row, data.feature_names).score(data.X, data.feature_names))
        for at, row in enumerate(weights)
    ]
    best = int(np.argmax(values))
    name = (data.feature_names or default_names(data.n_features))[best]
    note = f"best feature in hindsight: {name}, {measure} {values[best]:.4f} on the test queries"
    note += "; methods are trained without it" * bool(prepared.source.without_best)
    return replace(prepared, best=best, notes=[*prepared.notes, note])


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
    """Read a data set. `folder`, `threads`: for the index and the features of a collection."""
    if source.kind == "collection":
        read = _read_collection(source, folder, threads, say)
    elif source.kind == "runs":
        read = _read_runs(source, say)
    else:
        parts, splits = _ARRANGED[source.kind](_read_files(source, say))
        read = Read(parts, splits, _texts(source))
    files = _read_files(source, say, later=True)
    if files:
        later = joined(list(files.values()))
        read.open_part = len(read.parts)
        read.parts.append(later)
        read.qrels = None  # the files of an open test have its judgements
    if "scale" in source.options:
        kind = source.options["scale"]
        read.parts = [QueryScaler(kind).transform(part) for part in read.parts]
        read.notes.append(f"features scaled within every query: {kind}")
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
        findings = cleaner.find(part, n_jobs=threads)
        read.parts[number], _ = findings.apply(part)
        where = "open test" if number == read.open_part else "data"
        keys = zip(part.query_ids.tolist(), query_hashes(part).tolist(), strict=True)
        queries = [(where, *key) for key in keys]
        report = findings.report(np.array([query not in seen for query in queries], bool))
        reports.setdefault(where, []).append(report)
        seen.update(queries)
        advice = cleaner.advice(part, findings.report())
        if advice and not read.warnings:
            read.warnings.append(f"{advice} with clean = {{ scaled = true }}")
        if read.qrels is not None:
            read.qrels = _without(read.qrels, part, ~findings.kept).select(read.parts[number].query_ids)
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
    hashes = {}
    for role, path in files.items():
        digest, size = hashlib.sha256(), 0
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with open(file, "rb") as opened:
                    while chunk := opened.read(_CHUNK):
                        digest.update(chunk)
                        size += len(chunk)
        hashes[role] = {"path": str(path), "bytes": size, "sha256": digest.hexdigest()}
    return hashes


def alike(parts: list[RankingData]) -> list[RankingData]:
    """Parts with the same number of features, all dense or all sparse: text leaves out features that are 0."""
    width = max(part.n_features for part in parts)
    wide = [part.widened(width) for part in parts]
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


Parts = tuple[list[RankingData], list[Split] | None]
"""Feature data, and its splits if it has its own."""


def _as_one(files: dict[str, RankingData]) -> Parts:
    return [joined(list(files.values()))], None


def _as_split(files: dict[str, RankingData]) -> Parts:
    places: dict[str, list[Piece]] = {role: [(at, None)] for at, role in enumerate(files)}
    return list(files.values()), [Split(*(places.get(role, []) for role in ("train", "valid", "test")))]


def _as_folds(files: dict[str, RankingData]) -> Parts:
    distinct = {id(data): data for data in files.values()}  # a file may have several roles
    place = {role: list(distinct).index(id(data)) for role, data in files.items()}
    folds = list(dict.fromkeys(role.partition("/")[0] for role in files))
    roles = ("train", "valid", "test")
    return list(distinct.values()), [Split(*([(place[f"{fold}/{role}"], None)] for role in roles)) for fold in folds]


def _as_parts(files: dict[str, RankingData]) -> Parts:
    """Every part is tested once and validates once: LETOR's folds."""
    parts = alike(list(files.values()))
    next(iter(letor_folds(parts)))  # raises if parts have a query in common
    n = len(parts)
    turns: list[list[Piece]] = [[(at % n, None) for at in range(first, first + n)] for first in range(n)]
    return parts, [Split(turn[:-2], [turn[-2]], [turn[-1]]) for turn in turns]


_ARRANGED: dict[str, Callable[[dict[str, RankingData]], Parts]] = {
    "features": _as_one,
    "fixed": _as_split,
    "folds": _as_folds,
    "parts": _as_parts,
}


def _read_runs(source: DataSource, say: Progress) -> Read:
    from rankwright.data.fusion import runs_to_data

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
    from rankwright.text.features import feature_set, make_features
    from rankwright.text.index import build_index

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
    names = [name for key in sets for name in feature_set(key, fields)] + list(options.get("feature_names", []))
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
    notes = [f"{reason}: {number}" for reason, number in left_out.items() if number]
    return Read([made.data], queries=queries, qrels=qrels.select(made.data.query_ids), notes=notes)


def _texts(source: DataSource) -> dict[str, tuple[str, str]]:
    """Text and, for JSON lines, kind of the queries in the entry's file of queries."""
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
