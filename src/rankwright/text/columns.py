"""Features of a document for a query, by name: ``bm25[porter]``, ``log-tf[porter+stop]``, ``bm25(k1=0.9)[plain,title]``.

In the brackets stands the view: an analyser, or an analyser and a field. A model that knows the names of its features
can so be applied to any index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError
from rankwright.text.functions import BM25, parse_function
from rankwright.text.index import Index
from rankwright.text.search import Scorer
from rankwright.text.view import View

__all__ = ["FEATURE_SETS", "Columns", "feature_set"]

Array = npt.NDArray[Any]

_ANALYZERS = ("plain", "porter", "porter+stop")
_FUNCTIONS = ("cosine", "tfidf", "bm25", "dirichlet", "jm")
_SUMS = ("log-tf", "log-cf", "log-idf", "log-share", "log-share-idf", "log-share-cf", "log-bm25")
_NAME = re.compile(r"(?P<function>.+)\[(?P<analyzer>[^],\[]+)(,(?P<field>[^],\[]+))?\]")
_LEAST = 1e-3  # what a BM25 of 0 counts as in log-bm25

FEATURE_SETS = {
    "base": tuple(f"{function}[{{}}]" for function in _FUNCTIONS),
    "sigir06": tuple(f"{name}[{{}}]" for name in _SUMS),
}
"""The sets of features by name, with the view left open: five functions for each of the three analysers (the 15 base
functions of SIGIR'07), and the seven sums of SIGIR'06, stemmed and without stop words."""


def feature_set(name: str, fields: Sequence[str] = ()) -> list[str]:
    """The names of a set's features over whole documents, and over each of ``fields``.

    Parameters
    ----------
    name : {"base", "sigir06"}
        Of the set.
    fields : sequence of str
        The set is repeated for each of these fields.

    Examples
    --------
    >>> feature_set("base")[:2], len(feature_set("base")), len(feature_set("sigir06", ["title"]))
    (['cosine[plain]', 'tfidf[plain]'], 15, 14)
    """
    if name not in FEATURE_SETS:
        raise InputError(f"{name!r} is no set of features; expected one of {', '.join(FEATURE_SETS)}")
    analyzers = _ANALYZERS if name == "base" else ("porter+stop",)
    views = [f"{analyzer},{field}" if field else analyzer for field in ("", *fields) for analyzer in analyzers]
    return [pattern.format(view) for view in views for pattern in FEATURE_SETS[name]]


class Columns:
    """Features of an index, by name.

    Parameters
    ----------
    index : Index
        Where the documents are.
    names : sequence of str
        The features.

    Examples
    --------
    >>> columns = Columns(index, feature_set("base"))  # doctest: +SKIP
    >>> columns.values("lift of a wing", [3, 17])  # doctest: +SKIP
    """

    def __init__(self, index: Index, names: Sequence[str]) -> None:
        self.index, self.names = index, tuple(names)
        self._scorers: dict[int, Scorer] = {}
        self._sums: dict[str, tuple[_Sums, dict[int, int]]] = {}  # by view: column to number of the sum
        for column, name in enumerate(self.names):
            self._add(column, name)

    def _add(self, column: int, name: str) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            raise InputError(f"feature {name!r} cannot be made from an index; expected a name like bm25[porter]")
        view = self.index.view(found["analyzer"], found["field"])
        if found["function"] in _SUMS:
            sums, columns = self._sums.setdefault(view.name, (_Sums(view), {}))
            columns[column] = _SUMS.index(found["function"])
        else:
            self._scorers[column] = Scorer(view, parse_function(found["function"]))

    @property
    def functions(self) -> dict[str, Scorer]:
        """The columns that are retrieval functions."""
        return {self.names[column]: scorer for column, scorer in self._scorers.items()}

    def candidates(self, text: str, depth: int) -> Array:
        """The documents that stand among the first ``depth`` of at least one retrieval function, ascending."""
        found = [scorer.search(text, depth)[0] for scorer in self._scorers.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found])).astype(np.int64)

    def values(self, text: str, docs: npt.ArrayLike) -> Array:
        """One row for each of some documents, in their order."""
        rows = np.asarray(docs, np.int64)
        table = np.empty((len(rows), len(self.names)))
        for column, scorer in self._scorers.items():
            table[:, column] = scorer.scores(text, rows)
        for sums, columns in self._sums.values():
            made = sums.values(text, rows)
            for column, which in columns.items():
                table[:, column] = made[which]
        return table


class _Sums:
    """The seven features of SIGIR'06 over one view: sums over the query's terms that stand in the document."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._bm25 = Scorer(view, BM25())

    def values(self, text: str, docs: Array) -> Array:
        """Seven rows, one column for each document."""
        view = self.view
        terms, _, _ = view.query(text)
        sums = np.zeros((7, len(docs)))
        order = np.argsort(docs, kind="stable")
        lengths = np.maximum(view.lengths[docs], 1)
        for term in terms.tolist():
            span = slice(view.indptr[term], view.indptr[term + 1])
            at = np.searchsorted(docs, view.docs[span], sorter=order)
            inside = at < len(docs)
            inside[inside] = docs[order[at[inside]]] == view.docs[span][inside]
            hit = order[at[inside]]
            count = view.counts[span][inside].astype(np.float64)
            rarity, idf = view.total_length / view.total_counts[term], view.n_docs / view.doc_counts[term]
            share = count / lengths[hit]
            sums[0, hit] += np.log(count + 1)
            sums[1, hit] += np.log(rarity + 1)
            sums[2, hit] += np.log(idf)
            sums[3, hit] += np.log(share + 1)
            sums[4, hit] += np.log(share * idf + 1)
            sums[5, hit] += np.log(share * rarity + 1)
        sums[6] = np.log(np.maximum(self._bm25.scores(text, docs), _LEAST))
        return sums
