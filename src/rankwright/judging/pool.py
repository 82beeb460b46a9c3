"""Pools: the documents that several rankers put at the top, for each query; and what each query is about.

Rankers are retrieval functions and models over an index, or runs of anybody. A document that a run names but the index
lacks cannot be shown, so it is not in the pool. The description of a query, if there is one, is for the judge to read.
"""

from __future__ import annotations

import hashlib
import json
import math
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
from rankwright.judging.records import Pair
from rankwright.serving.rankers import ServedRanker
from rankwright.text.index import Index
from rankwright.text.queries import PARTS, Queries, read_queries

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
    index: Index, queries: Queries, rankers: Mapping[str, ServedRanker], runs: Mapping[str, TrecTable], depth: int
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
    :func:`~rankwright.text.queries.read_queries` to say.
    """
    text = b"".join(line_chunks(path)).decode("utf-8-sig", "replace")
    start = text.lstrip()[:1]
    if start == "<":
        return _of_topics(path)
    return _of_lines(text) if start == "{" else {}


def _of_topics(path: str | Path) -> dict[str, str]:
    needs: dict[str, str] = {}
    for part in (part for part in PARTS if part != "title"):
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


# The order of judging. `depth`: query after query, the whole pool of each. `disagreement`: rounds over all queries;
# each takes a few documents of every query, first those on which the rankers disagree most, where disagreement is the
# range over rankers of 1/log2(2 + rank), 0 below the pool. Queries come in a random order, and so do documents that
# follow each other in one query, so that a place tells nothing about who found a document. Both are the same for the
# same seed.
#
# A sequential comparison is decided by whole pools: what is not judged may have any grade, which widens the bounds of
# every query begun. `disagreement` is for a first estimate over all queries.


ORDERS = ("depth", "disagreement")
_ROUND = 4  # documents of a query in a row, in the order of disagreement


def planned(pool: JudgingPool, order: str, seed: int = 0) -> list[Pair]:
    """All queries and documents of a pool, in the order in which they are to be judged.

    `pool`: what can be judged. `order` ({"depth", "disagreement"}): what comes first. `seed`: of the random orders.

    Examples
    --------
    >>> pool = JudgingPool(2, {"a": {"q": ["d1", "d2"]}, "b": {"q": ["d1", "d3"]}})
    >>> sorted(planned(pool, "disagreement"))
    [('q', 'd1'), ('q', 'd2'), ('q', 'd3')]
    """
    queries = shuffled_queries(pool, seed)
    if order == "depth":
        return [(query, document) for query in queries for document in _shuffled(pool.documents(query), query, seed)]
    rounds: list[list[Pair]] = []
    for query in queries:
        differing = disagreement(pool, query)
        ranked = sorted(_shuffled(pool.documents(query), query, seed), key=lambda document: -differing[document])
        for at, start in enumerate(range(0, len(ranked), _ROUND)):
            if at == len(rounds):
                rounds.append([])
            few = ranked[start : start + _ROUND]
            rounds[at] += [(query, document) for document in _shuffled(few, query, seed)]
    return [pair for pairs in rounds for pair in pairs]


def disagreement(pool: JudgingPool, query: str) -> dict[str, float]:
    """How far rankers are apart on each document of a query: the range of 1/log2(2 + rank), 0 below the pool.

    Examples
    --------
    >>> disagreement(JudgingPool(2, {"a": {"q": ["d1", "d2"]}, "b": {"q": ["d1"]}}), "q")["d1"]
    0.0
    """
    ranks = pool.ranks(query)
    ranges = {}
    for document in pool.documents(query):
        worth = [1 / math.log2(2 + top[document]) if document in top else 0.0 for top in ranks.values()]
        ranges[document] = max(worth) - min(worth)
    return ranges


def shuffled_queries(pool: JudgingPool, seed: int) -> list[str]:
    return _shuffled(pool.queries, "", seed)


def _shuffled(names: Sequence[str], within: str, seed: int) -> list[str]:
    """Names in a random order that depends on nothing but them, the query and the seed."""

    def place(name: str) -> bytes:
        return hashlib.sha256("\0".join((str(seed), within, name)).encode("utf-8", "surrogatepass")).digest()

    return sorted(names, key=place)
