"""The data of an experiment made ready: read once, kept as memory-mapped folders, and split.

A data set is a few parts (feature data), and splits that say which queries of which parts train, validate and test.
Parts are kept in the cache of the results folder, from where every process maps them; an interrupted experiment finds
them there. Everything is named by hashes of what it was made of.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwright
from rankwright.data.dataset import RankingData
from rankwright.data.files import replace_file
from rankwright.data.folder import load_folder, save_folder
from rankwright.data.splits import QueryKFold, QueryTrials
from rankwright.data.trec import write_qrels
from rankwright.errors import InputError
from rankwright.experiments.config import DataSource, Protocol
from rankwright.experiments.reading import Piece, Progress, Read, Split, alike, read_source

__all__ = ["Prepared", "file_hashes", "pieces_of", "prepare", "splits_of"]

_FACTS = "prepared.json"
_QRELS = "qrels.txt"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Prepared:
    """A data set on disk.

    Attributes
    ----------
    name, kind : str
        Of the data set.
    parts : list of Path
        Folders of feature data.
    qrels : Path or None
        All judgements of its queries, where the features do not have all of the judged documents.
    own_splits : list of Split or None
        None where the protocol splits it.
    content : str
        Hash of everything in it.
    queries : dict of str to (str, str)
        Text and kind of the queries, where they are known.
    sizes : dict
        Queries, documents and features.
    files : dict
        What was read: path, bytes and SHA-256 by role.
    notes : list of str
        What a reader should know.
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


def prepare(source: DataSource, cache: Path, *, threads: int = 1, say: Progress | None = None) -> Prepared:
    """Read a data set, or find it in the cache.

    Parameters
    ----------
    source : DataSource
        Where it is.
    cache : Path
        The folder that keeps what was read.
    threads : int
        For the features of a collection.
    say : callable, optional
        Told what is being done.
    """
    say = say or (lambda _: None)
    say(f"reading {source.name}")
    files = file_hashes(source)
    made_of = {
        "kind": source.kind,
        "files": {role: about["sha256"] for role, about in files.items()},
        "options": dict(source.options),
        "rankwright": rankwright.__version__,
        "python": sys.version if not files else "",
    }
    folder = cache / hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    if not (folder / _FACTS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _keep(read_source(source, folder, threads, say), folder)
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
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
    )


def file_hashes(source: DataSource) -> dict[str, Any]:
    """Path, bytes and SHA-256 of everything that a data set is read from; a folder counts as its files."""
    found = {}
    for role, path in source.files.items():
        digest, size = hashlib.sha256(), 0
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with open(file, "rb") as opened:
                    while chunk := opened.read(_CHUNK):
                        digest.update(chunk)
                        size += len(chunk)
        found[role] = {"path": str(path), "bytes": size, "sha256": digest.hexdigest()}
    return found


def splits_of(prepared: Prepared, protocol: Protocol | None, seed: int) -> list[Split]:
    """The splits of a data set: its own, or those of the protocol."""
    if prepared.own_splits is not None:
        return prepared.own_splits
    assert protocol is not None
    n = prepared.sizes["queries"]
    try:
        if protocol.kind == "folds":
            splitter: Any = QueryKFold(protocol.folds, valid_folds=protocol.valid_folds, seed=seed)
        else:
            train, valid = _size(protocol.train, n), _size(protocol.valid, n)
            test = n - train - valid if protocol.test is None else _size(protocol.test, n)
            trials = protocol.trials if protocol.kind == "trials" else 1
            splitter = QueryTrials(trials, train=train, valid=valid, test=test, seed=seed)
        drawn = list(splitter.split_queries(n))
    except InputError as error:
        raise InputError(f"{prepared.name} has {n} queries: {error.message}") from None
    return [Split(*([(0, part.tolist())] if len(part) else [] for part in (s.train, s.valid, s.test))) for s in drawn]


def _size(asked: int | float, n: int) -> int:
    return asked if isinstance(asked, int) else round(asked * n)


def pieces_of(parts: Sequence[Path], pieces: Sequence[Piece]) -> RankingData | None:
    """The data of some pieces; None where there are none."""
    found = []
    for part, queries in pieces:
        data = load_folder(parts[part])
        found.append(data if queries is None else data.select(np.array(queries, np.int64)))
    if not found:
        return None
    return found[0] if len(found) == 1 else RankingData.concatenate(found)


def _keep(read: Read, folder: Path) -> None:
    """Write what was read; the facts last, so that they stand for a complete folder."""
    parts = alike(read.parts)
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
    else:  # a query may stand in several files
        tested = [piece for split in read.splits for piece in split.test]
        ids = {str(query) for part, _ in tested for query in parts[part].query_ids.tolist()}
        sizes = {"queries": len(ids), "documents": sum(parts[part].n_docs for part, _ in tested)}
    facts = {
        "parts": names,
        "qrels": read.qrels is not None,
        "splits": None if read.splits is None else [vars(split) for split in read.splits],
        "content": digest.hexdigest(),
        "queries": read.queries,
        "sizes": {**sizes, "features": parts[0].n_features},
        "notes": read.notes,
    }
    with replace_file(folder / _FACTS) as out:
        out.write(json.dumps(facts, ensure_ascii=False).encode())


def _add_content(digest: Any, data: RankingData) -> None:
    arrays = [data.X.data, data.X.indices, data.X.indptr] if data.is_sparse else [data.X]
    arrays += [data.labels, data.indptr, np.asarray(data.query_ids).astype(str)]
    arrays += [] if data.doc_ids is None else [np.asarray(data.doc_ids).astype(str)]
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    digest.update(repr(data.feature_names).encode())
