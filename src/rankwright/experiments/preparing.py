"""Prepares the data of an experiment: read once, kept as memory-mapped folders, and split.

A data set consists of parts (feature data) and splits, which say which queries of which parts train, validate and test.
Parts are kept in the cache of the results folder, from where every process maps them, also after an interruption. Names
in the cache are hashes of everything that affects the content.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.files import replace_file
from rankwright.data.folder import load_folder, save_folder
from rankwright.data.matching import default_names
from rankwright.data.overlap import Fingerprints
from rankwright.data.splits import QueryKFold, QueryTrials
from rankwright.data.trec import write_qrels
from rankwright.errors import InputError, InputWarning
from rankwright.experiments.backgrounds import Background
from rankwright.experiments.config import DataSource, Protocol
from rankwright.experiments.reading import Piece, Progress, Read, Split, alike, code_version, file_hashes, read_source

__all__ = ["Prepared", "pieces_of", "prepare", "splits_of", "without_columns"]

Array = npt.NDArray[Any]
_FACTS = "prepared.json"
_QRELS = "qrels.txt"


@dataclass(frozen=True)
class Prepared:
    """A data set on disk.

    Attributes
    ----------
    name, kind : str
        Name and kind of the data set.
    parts : list of Path
        Folders of feature data.
    qrels : Path or None
        All judgements of its queries, if the features lack some judged documents.
    own_splits : list of Split or None
        None if the protocol splits it.
    content : str
        Hash of its content.
    queries : dict of str to (str, str)
        Text and kind of the queries, where known.
    sizes : dict
        Numbers of queries, documents and features.
    files : dict
        Files read: path, size and SHA-256 by role.
    notes : list of str
        What a reader should know.
    warnings : list of str
        What makes its results wrong: queries that are both trained and tested on, most documents dropped.
    open_part : int or None
        The part that is the test set of every split.
    train_queries, valid_queries : int or None
        Number of queries to use from each split.
    cleaning : list of dict
        What cleaning dropped from the data and from its open test; empty if they are not cleaned.
    backgrounds : tuple of Background
        The backgrounds that methods adapt.
    best : int or None
        The best feature in hindsight, if a method is that or is trained without it.
    hides_best : bool
        Whether methods are trained without it.
    """

    name: str
    kind: str
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
    train_queries: int | None = None
    valid_queries: int | None = None
    cleaning: Sequence[dict[str, Any]] = ()
    backgrounds: tuple[Background, ...] = ()
    best: int | None = None
    hides_best: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        used = {"train_queries": self.train_queries, "valid_queries": self.valid_queries}
        return {
            "name": self.name,
            "kind": self.kind,
            **self.sizes,
            **{key: value for key, value in used.items() if value is not None},
            "content": self.content,
            "files": self.files,
            "notes": self.notes,
            "warnings": self.warnings,
            **({"cleaning": list(self.cleaning)} if self.cleaning else {}),
            **({"backgrounds": [one.facts for one in self.backgrounds]} if self.backgrounds else {}),
        }


def prepare(source: DataSource, cache: Path, *, threads: int = 1, say: Progress | None = None) -> Prepared:
    """Read a data set, or take it from the cache.

    Parameters
    ----------
    source : DataSource
        The source.
    cache : Path
        The cache folder.
    threads : int
        Number of threads for the features of a collection.
    say : callable, optional
        Called with a line about each step.
    """
    say = say or (lambda _: None)
    say(f"reading {source.name}")
    files = file_hashes(source.files)
    made_of = {
        "kind": source.kind,
        "files": {role: about["sha256"] for role, about in files.items()},
        "options": dict(source.options),
        "rankwright": code_version(),
        "python": sys.version if not files else "",
    }
    folder = cache / hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    if not (folder / _FACTS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _keep(read_source(source, folder, threads, say), folder, source)
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    for line in facts["warnings"]:
        warnings.warn(f"{source.name}: {line}", InputWarning, stacklevel=2)
    splits = facts["splits"]
    return Prepared(
        source.name,
        source.kind,
        [folder / name for name in facts["parts"]],
        folder / _QRELS if facts["qrels"] else None,
        None if splits is None else [Split(**split) for split in splits],
        facts["content"],
        {query: (text, kind) for query, (text, kind) in facts["queries"].items()},
        facts["sizes"],
        files,
        facts["notes"],
        facts["warnings"],
        facts.get("open_part"),
        source.train_queries,
        source.valid_queries,
        cleaning=facts["cleaning"],
    )


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
    """A split with the number of training and validation queries asked for."""
    for role, count in (("train", prepared.train_queries), ("valid", prepared.valid_queries)):
        if count is not None:
            try:
                some = _some(prepared.parts, getattr(split, role), count, seed)
            except InputError as error:
                what = f"{prepared.name}, split {number}: {role}_queries is {count}"
                raise InputError(f"{what}; {error.message}") from None
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


def pieces_of(parts: Sequence[Path], pieces: Sequence[Piece]) -> RankingData | None:
    """The data of the pieces; None if there are none."""
    found = []
    for part, queries in pieces:
        data = load_folder(parts[part])
        found.append(data if queries is None else data.select(np.array(queries, np.int64)))
    if not found:
        return None
    return found[0] if len(found) == 1 else RankingData.concatenate(found)


def _keep(read: Read, folder: Path, source: DataSource) -> None:
    """Write what was read, without the features left out; the facts come last, to mark the folder as complete."""
    parts = alike(read.parts)
    if source.options.get("without"):
        columns = _listed(parts[0], source)
        read.notes.append(f"left out {len(columns):,} of {parts[0].n_features:,} features")
        parts = [without_columns(part, columns) for part in parts]
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
    facts = {
        "parts": names,
        "qrels": read.qrels is not None,
        "splits": None if read.splits is None else [vars(split) for split in read.splits],
        "content": digest.hexdigest(),
        "queries": read.queries,
        "sizes": {**sizes, "features": parts[0].n_features},
        "notes": read.notes + _widths(read.parts),
        "warnings": read.warnings + _shared(parts, read),
        "cleaning": read.cleaning,
        "open_part": read.open_part,
    }
    with replace_file(folder / _FACTS) as out:
        out.write(json.dumps(facts, ensure_ascii=False).encode())


def without_columns(data: RankingData, columns: Sequence[int]) -> RankingData:
    """The data with all other features, which keep their names: f5 stays f5."""
    names = data.feature_names or default_names(data.n_features)
    kept = np.delete(np.arange(data.n_features), columns)
    return data.with_features(data.X[:, kept], [names[column] for column in kept])


def _listed(data: RankingData, source: DataSource) -> list[int]:
    """The columns of ``without``: features by name, by a pattern such as ``bm25*``, or by number, from 1."""
    names = data.feature_names or default_names(data.n_features)
    found: set[int] = set()
    for one in source.options["without"]:
        if isinstance(one, int):
            columns = [one - 1] if one <= data.n_features else []
        else:
            columns = [column for column, name in enumerate(names) if name == one or fnmatchcase(name, one)]
        if not columns:
            expected = f"a number from 1 to {data.n_features}, a name such as {names[0]} or a pattern such as f1*"
            raise InputError(f"{source.name}: without lists {one!r}, which is no feature; expected {expected}")
        found |= set(columns)
    if len(found) == data.n_features:
        raise InputError(f"{source.name}: without lists all features; expected some to be left")
    return sorted(found)


def _widths(parts: Sequence[RankingData]) -> list[str]:
    """A note if parts have different numbers of features, as text leaves out those that are 0."""
    widths = {part.n_features for part in parts}
    if len(widths) == 1:
        return []
    return [
        f"files with {min(widths):,} to {max(widths):,} features; the missing ones count as 0, as text leaves zeros out"
    ]


def _shared(parts: Sequence[RankingData], read: Read) -> list[str]:
    """Queries that are in two parts of a split, or in the open test and elsewhere, one line each."""
    if len(parts) == 1:
        return []
    known = [Fingerprints.of(part) for part in parts]
    splits = read.splits or [Split([(0, None)], [], [])]
    if read.open_part is not None:
        splits = [replace(split, test=[(read.open_part, None)]) for split in splits]
    lines = []
    for number, split in enumerate(splits, 1):
        roles = {
            role: Fingerprints.join([known[at] if some is None else known[at].select(some) for at, some in pieces])
            for role, pieces in (("training", split.train), ("validation", split.valid), ("test", split.test))
            if pieces
        }
        for part, whose in (("test", "training"), ("test", "validation"), ("validation", "training")):
            found = roles[part].shared_with(roles[whose], part, whose) if {part, whose} <= roles.keys() else None
            if found is not None:
                lines.append(f"split {number}: {found.text}" if len(splits) > 1 else found.text)
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
