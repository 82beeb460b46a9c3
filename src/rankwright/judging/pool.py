"""Pools: the documents that several rankers put at the top, for each query.

Rankers are retrieval functions and models over an index, or runs of anybody. A document that a run names but the index
lacks cannot be shown, so it is not in the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwright.data.order import rank_order
from rankwright.data.trec import TrecTable, read_run
from rankwright.errors import InputError, shown
from rankwright.serving.rankers import Ranker
from rankwright.text.index.index import Index
from rankwright.text.reading.queries import Queries

__all__ = ["Pool", "make_pool", "read_runs"]

Tops = Mapping[str, Sequence[str]]
"""The first documents by query, best first."""


@dataclass(frozen=True)
class Pool:
    """What can be judged.

    Attributes
    ----------
    depth : int
        Documents taken from the top of each ranker.
    tops : mapping of str to mapping
        For each ranker, the first documents by query, best first.
    absent : int
        Documents of runs that the index does not have.
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
        return {name: {one: at for at, one in enumerate(top.get(query, ()))} for name, top in self.tops.items()}

    def only(self, names: Sequence[str]) -> Pool:
        """The pool of some of the rankers."""
        return Pool(self.depth, {name: self.tops[name] for name in names}, self.absent)


def read_runs(paths: Sequence[str | Path]) -> dict[str, TrecTable]:
    """Runs by the stems of their files' names."""
    found: dict[str, TrecTable] = {}
    for path in map(Path, paths):
        name = path.name.removesuffix(".gz").removesuffix(".run")
        if name in found:
            raise InputError(f"two runs have the name {shown(name)}; expected files of different names", path)
        found[name] = read_run(path)
    return found


def make_pool(
    index: Index,
    queries: Queries,
    rankers: Mapping[str, Ranker],
    runs: Mapping[str, TrecTable],
    depth: int,
) -> Pool:
    """Pool the first documents of rankers and runs.

    Parameters
    ----------
    index : Index
        Where the documents are.
    queries : Queries
        The queries.
    rankers : mapping of str to Ranker
        What searches the index.
    runs : mapping of str to TrecTable
        What others have found; queries that are not among ``queries`` are ignored.
    depth : int
        Documents to take from the top of each.
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
    return Pool(depth, tops, absent)


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
