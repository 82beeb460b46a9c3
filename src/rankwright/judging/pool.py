"""Pools: the documents that several rankers put at the top, for each query; and what each query is about.

Rankers are retrieval functions and models over an index, or runs of anybody. A document that a run names but the index
lacks cannot be shown, so it is not in the pool. The description of a query, if there is one, is for the judge to read.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwright.data.order import rank_order
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, shown
from rankwright.io.files import line_chunks
from rankwright.io.trec import read_run
from rankwright.serving.rankers import ServedRanker
from rankwright.text.index.index import Index
from rankwright.text.reading.queries import PARTS, Queries, read_queries

Tops = Mapping[str, Sequence[str]]
"""The first documents by query, best first."""


@dataclass(frozen=True)
class JudgingPool:
    """The documents to judge.

    `depth`: documents taken from the top of each ranker. `tops`: for each ranker, the first documents by query, best
    first. `absent`: documents of runs that the index does not have.
    """

    depth: int
    tops: Mapping[str, Tops]
    absent: int = 0

    @property
    def queries(self) -> list[str]:
        """The queries with a document to judge."""
        return list(dict.fromkeys(query for top in self.tops.values() for query in top if top[query]))

    def documents(self, query: str) -> list[str]:
        """The documents of a query, each once, in an order that does not depend on the rankers."""
        return sorted({document for top in self.tops.values() for document in top.get(query, ())})

    def ranks(self, query: str) -> dict[str, dict[str, int]]:
        """The rank of each document from 0, by ranker and document."""
        return {
            name: {document: at for at, document in enumerate(top.get(query, ()))} for name, top in self.tops.items()
        }

    def only(self, names: Sequence[str]) -> JudgingPool:
        """The pool of some of the rankers."""
        return JudgingPool(self.depth, {name: self.tops[name] for name in names}, self.absent)


def read_runs(paths: Sequence[str | Path]) -> dict[str, TrecTable]:
    """Runs by the stems of their files' names."""
    runs: dict[str, TrecTable] = {}
    for path in map(Path, paths):
        name = path.name.removesuffix(".gz").removesuffix(".run")
        if name in runs:
            raise InputError(f"two runs have the name {shown(name)}; expected files of different names", path)
        runs[name] = read_run(path)
    return runs


def make_pool(
    index: Index,
    queries: Queries,
    rankers: Mapping[str, ServedRanker],
    runs: Mapping[str, TrecTable],
    depth: int,
) -> JudgingPool:
    """Pool the first documents of rankers and runs.

    `index`: where the documents are. `queries`: the queries. `rankers`: what searches the index. `runs`: what others
    have found; queries that are not among ``queries`` are ignored. `depth`: documents to take from the top of each.
    """
    tops: dict[str, Tops] = {}
    for name, ranker in rankers.items():
        tops[name] = {
            query: [index.doc_id(doc) for doc in ranker.search(text, depth)[0].tolist()] if text else []
            for query, text in queries
        }
    absent = 0
    for name, run in runs.items():
        if name in tops:
            raise InputError(f"a run has the name of a ranker, {shown(name)}; expected another name of the file")
        tops[name], missing = _top_of_run(index, run, set(queries.ids), depth)
        absent += missing
        if not tops[name]:
            raise InputError(f"the run {shown(name)} has none of the queries; expected the same query ids")
    return JudgingPool(depth, tops, absent)


def _top_of_run(index: Index, run: TrecTable, wanted: set[str], depth: int) -> tuple[Tops, int]:
    """The first documents of a run that the index has, and how many of the first ones it lacks."""
    order = rank_order(run.values.astype(np.float32), run.indptr, run.doc_ids)
    bounds = run.indptr.tolist()
    top: dict[str, list[str]] = {}
    missing = 0
    for query, start, stop in zip(run.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True):
        if query not in wanted:
            continue
        names = [run.documents[at].decode("utf-8", "replace") for at in order[start:stop][:depth].tolist()]
        top[query] = [name for name in names if index.find(name) is not None]
        missing += len(names) - len(top[query])
    return top, missing


_IDS = ("id", "_id", "qid", "query_id", "num")
_NEEDS = ("description", "need", "narrative", "desc", "narr")


def read_needs(path: str | Path) -> dict[str, str]:
    """Descriptions by query id, of JSON lines (description, need or narrative) or of TREC topics.

    A file without any gives an empty mapping; whether the file is right is for
    :func:`~rankwright.text.reading.queries.read_queries` to say.
    """
    text = b"".join(line_chunks(path)).decode("utf-8-sig", "replace")
    start = text.lstrip()[:1]
    if start == "<":
        return _of_topics(path)
    return _of_lines(text) if start == "{" else {}


def _of_topics(path: str | Path) -> dict[str, str]:
    needs: dict[str, str] = {}
    for part in PARTS:
        if part == "title":
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read = dict(read_queries(path, part=part))
            except InputError:  # topics without this part
                continue
        for query, text in read.items():
            needs[query] = " ".join(filter(None, (needs.get(query), text)))
    return {query: text for query, text in needs.items() if text}


def _of_lines(text: str) -> dict[str, str]:
    needs: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):  # not JSON lines
            return {}
        if not isinstance(given, dict):
            continue
        name = next((given[key] for key in _IDS if key in given), None)
        parts = [given[key] for key in _NEEDS if isinstance(given.get(key), str) and given[key].strip()]
        if name is not None and parts:
            needs[str(name)] = " ".join(" ".join(part.split()) for part in dict.fromkeys(parts))
    return needs
